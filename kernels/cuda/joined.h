// Launches of one kernel that a stream meets one behind the other, made as one: a step looks up,
// checks and updates the rows of each of its tables, and to start a kernel takes longer than many
// of these run.
#pragma once

#include <array>
#include <memory>
#include <utility>

#include "kernels/cuda/op.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/ranges.h"

namespace coxswain::cuda {

// Several launches of a kernel: launch k has the items from begins[k] to before begins[k + 1].
template <typename Kernel>
struct JoinedLaunches {
  // What a kernel's arguments have room for, which is 4 KB.
  static constexpr int kMost = static_cast<int>(4000 / (sizeof(Kernel) + sizeof(int64_t)));

  int count = 0;
  int64_t begins[kMost + 1] = {};
  Kernel kernels[kMost];

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    const int launch = FindRange(begins, count, item);
    kernels[launch](block, item - begins[launch]);
  }
};

// Memory that a kernel reads or writes.
struct UsedMemory {
  const void* memory = nullptr;
  size_t bytes = 0;

  bool Overlaps(const UsedMemory& other) const {
    if (bytes == 0 || other.bytes == 0) return false;
    const auto begin = reinterpret_cast<uintptr_t>(memory);
    const auto others = reinterpret_cast<uintptr_t>(other.memory);
    return begin < others + other.bytes && others < begin + bytes;
  }
};

inline UsedMemory All(const CoxTensor& t) { return {t.data, Bytes(t)}; }

// What one launch uses.
struct KernelMemory {
  static constexpr size_t kMostRead = 4;
  std::array<UsedMemory, kMostRead> read = {};
  UsedMemory written = {};

  // Whether it makes no difference which of both runs first.
  bool IsApartFrom(const KernelMemory& other) const {
    if (written.Overlaps(other.written)) return false;
    for (size_t i = 0; i < kMostRead; ++i) {
      if (read[i].Overlaps(other.written) || other.read[i].Overlaps(written)) return false;
    }
    return true;
  }
};

template <typename Kernel>
class PendingLaunches final : public PendingWork {
 public:
  explicit PendingLaunches(size_t shared_bytes) : shared_bytes_(shared_bytes) {}

  bool Suits(size_t shared_bytes, const KernelMemory& memory) const {
    if (joined_.count == joined_.kMost || shared_bytes != shared_bytes_) return false;
    for (int i = 0; i < joined_.count; ++i) {
      if (!memory.IsApartFrom(memory_[static_cast<size_t>(i)])) return false;
    }
    return true;
  }
  void Add(int64_t items, const Kernel& kernel, const KernelMemory& memory) {
    memory_[static_cast<size_t>(joined_.count)] = memory;
    joined_.kernels[joined_.count] = kernel;
    joined_.begins[joined_.count + 1] = joined_.begins[joined_.count] + items;
    ++joined_.count;
  }
  Status Start(CoxStream* stream) override {
    const int64_t items = joined_.begins[joined_.count];
    const Status started =
        joined_.count == 1 ? LaunchBlocks(stream->queue, items, shared_bytes_, joined_.kernels[0])
                           : LaunchBlocks(stream->queue, items, shared_bytes_, joined_);
    if (started.ok()) return started;
    // Whose work it is was told that it is enqueued. Nobody may go on as if it had been done.
    return Status(COX_DEVICE_LOST, "launches that were put off: " + started.message());
  }

 private:
  const size_t shared_bytes_;
  JoinedLaunches<Kernel> joined_ = {};
  std::array<KernelMemory, static_cast<size_t>(JoinedLaunches<Kernel>::kMost)> memory_;
};

// As LaunchBlocks, together with what is pending on the stream and with what follows, where that is
// the same kernel, too, and none uses what another one writes. Of ops that are SetPending.
template <typename Kernel>
Status LaunchJoined(CoxStream* stream, int64_t items, size_t shared_bytes, const Kernel& kernel,
                    const KernelMemory& memory) {
  if (items <= 0 || !stream->lost.ok()) return stream->lost;
  auto* pending = dynamic_cast<PendingLaunches<Kernel>*>(stream->pending.get());
  if (pending == nullptr || !pending->Suits(shared_bytes, memory)) {
    COX_CUDA_RETURN_IF_ERROR(Flush(stream));
    auto made = std::make_unique<PendingLaunches<Kernel>>(shared_bytes);
    pending = made.get();
    stream->pending = std::move(made);
  }
  pending->Add(items, kernel, memory);
  return Status();
}

// As FillElements.
template <typename T, typename F>
Status FillJoined(CoxStream* stream, T* out, int64_t n, const F& f, const KernelMemory& memory) {
  return LaunchJoined(stream, CeilDiv(n, kTile), 0, FillTile<T, F>{out, n, f}, memory);
}

// As ForElements.
template <typename F>
Status ForJoined(CoxStream* stream, int64_t n, const F& f, const KernelMemory& memory) {
  return LaunchJoined(stream, CeilDiv(n, kThreads), 0, ElementTile<F>{n, f}, memory);
}

}  // namespace coxswain::cuda
