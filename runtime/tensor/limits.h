// What bounds a tensor wherever its shape comes from: a peer, a file, an attribute, or a kernel
// that works it out from its inputs.
//
// Every tensor of a run keeps within these bounds (frames, files and attributes are checked when
// they are read, a kernel's outputs by the executor), so code on tensors may multiply dimensions of
// one shape without a thought of overflow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coxswain/tensor.h"

namespace coxswain {

// Far above what any machine holds, far below what overflows when bytes and strides are taken.
inline constexpr int64_t kMaxElements = int64_t{1} << 40;
// Of the other dimensions of an empty tensor: whoever sends one has no cost, but kernels loop over
// them.
inline constexpr int64_t kMaxElementsBesideNone = int64_t{1} << 28;
inline constexpr int kMaxRank = 16;

// The number of elements of a fully known shape. A dimension of 0 counts as 1 towards the limit, so
// that no product of some of the dimensions overflows either, and no loop over them takes long:
// [0, 2^62] is refused, and so is [2^32, 0].
// Errors: InvalidArgument for a negative dimension and beyond the bounds above.
absl::StatusOr<int64_t> CheckedElements(const Shape& shape);
// The same where dimensions may be unknown (kUnknownDim); these count as 1.
absl::Status CheckShape(const Shape& shape);

// A tensor made of bytes from outside. Shares `bytes`, unless they lie where the dtype's values
// cannot be read; then it is a copy.
// Errors: those of CheckedElements; InvalidArgument unless there are as many bytes as dtype and
// shape need and bools are 0 or 1; ResourceExhausted without memory for the copy.
absl::StatusOr<Tensor> TensorFromBytes(DType dtype, const Shape& shape, Buffer bytes);
// The same of a copy of `bytes`.
absl::StatusOr<Tensor> TensorFromText(DType dtype, const Shape& shape, absl::string_view bytes);

// What Buffer::Allocate and the constructors of Tensor throw when memory cannot be had, as the
// standard's containers do: a std::bad_alloc that says how much was wanted. It ends at the next
// boundary where errors are values: the executor's call of a kernel, or the two functions below.
class AllocationError final : public std::bad_alloc {
 public:
  explicit AllocationError(const std::string& message) : message_(message) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

// What `run` returns, a status; ResourceExhausted when it could not have the memory that it wanted.
template <typename Run>
absl::Status CatchAllocationErrors(Run run) {
  try {
    return run();
  } catch (const AllocationError& error) {
    return absl::ResourceExhaustedError(error.what());
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  }
}

// Uninitialised host memory. Errors: those of CheckedElements; ResourceExhausted.
absl::StatusOr<Tensor> AllocateTensor(DType dtype, const Shape& shape);

// No buffer may be larger: at first the machine's memory, so that a size that cannot work is
// refused at once, also where the system promises more than it has. Any thread.
void SetMaxBufferBytes(size_t bytes);
size_t MaxBufferBytes();

}  // namespace coxswain
