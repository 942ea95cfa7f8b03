// Copies within the device: small ones that follow each other are one launch.
#include "kernels/cuda/joined.h"

namespace coxswain::cuda {
namespace {

// What is larger takes longer than to start its copy.
constexpr size_t kMostJoined = size_t{1} << 20;

template <typename T>
struct CopyOf {
  const T* from;
  COX_DEVICE T operator()(int64_t i) const { return from[i]; }
};

template <typename T>
bool Suits(const void* to, const void* from, size_t bytes) {
  const auto all = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes;
  return all % sizeof(T) == 0;
}

template <typename T>
Status CopyAs(CoxStream* stream, void* to, const void* from, size_t bytes) {
  return FillJoined(stream, static_cast<T*>(to), static_cast<int64_t>(bytes / sizeof(T)),
                    CopyOf<T>{static_cast<const T*>(from)}, {{{{from, bytes}}}, {to, bytes}});
}

}  // namespace

Status CopyWithinDevice(CoxStream* stream, void* to, const void* from, size_t bytes) {
  if (bytes > kMostJoined) {
    COX_CUDA_RETURN_IF_ERROR(Flush(stream));
    return CopyOnDevice(stream, to, from, bytes);
  }
  if (Suits<Piece>(to, from, bytes)) return CopyAs<Piece>(stream, to, from, bytes);
  if (Suits<uint32_t>(to, from, bytes)) return CopyAs<uint32_t>(stream, to, from, bytes);
  return CopyAs<uint8_t>(stream, to, from, bytes);
}

}  // namespace coxswain::cuda
