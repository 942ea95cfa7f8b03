#include "runtime/tensor/limits.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace coxswain {
namespace {

// With `unknown`, kUnknownDim is a dimension like another.
absl::StatusOr<int64_t> Elements(const Shape& shape, bool unknown) {
  if (shape.rank() > kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted at most ", kMaxRank, " dimensions, found ", shape.rank()));
  }
  int64_t bound = 1;  // the product without the zeros
  bool empty = false;
  for (const int64_t d : shape.dims()) {
    if (d < (unknown ? kUnknownDim : 0)) {
      return absl::InvalidArgumentError(absl::StrCat("wanted ", unknown ? "known or open" : "known",
                                                     " dimensions, found ", shape.ToString()));
    }
    empty = empty || d == 0;
    if (d <= 1) continue;
    if (__builtin_mul_overflow(bound, d, &bound) || bound > kMaxElements) {
      return absl::InvalidArgumentError(
          absl::StrCat("wanted a shape of at most 2^40 elements, found ", shape.ToString()));
    }
  }
  if (empty && bound > kMaxElementsBesideNone) {
    return absl::InvalidArgumentError(absl::StrCat(
        "wanted at most 2^28 for the product of an empty shape's other dimensions, found ",
        shape.ToString()));
  }
  return empty ? 0 : bound;
}

}  // namespace

absl::StatusOr<int64_t> CheckedElements(const Shape& shape) { return Elements(shape, false); }

absl::Status CheckShape(const Shape& shape) { return Elements(shape, true).status(); }

absl::StatusOr<Tensor> TensorFromBytes(DType dtype, const Shape& shape, Buffer bytes) {
  if (SizeOf(dtype) == 0) return absl::InvalidArgumentError("wanted a tensor, found none");
  const absl::StatusOr<int64_t> elements = CheckedElements(shape);
  if (!elements.ok()) return elements.status();
  const size_t wanted = static_cast<size_t>(*elements) * SizeOf(dtype);
  if (bytes.size() != wanted) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", DTypeName(dtype), shape.ToString(),
                                                   " wanted ", wanted, " bytes, found ",
                                                   bytes.size()));
  }
  if (dtype == DType::kBool) {  // other bytes are no values of C++'s bool
    uint8_t all = 0;
    const auto* values = static_cast<const uint8_t*>(bytes.data());
    for (size_t i = 0; i < wanted; ++i) all |= values[i];
    if (all > 1) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", DTypeName(dtype), shape.ToString(),
                                                     ": a bool that is neither 0 nor 1"));
    }
  }
  if (wanted == 0 || reinterpret_cast<uintptr_t>(bytes.data()) % SizeOf(dtype) == 0) {
    return Tensor(dtype, shape, std::move(bytes));
  }
  absl::StatusOr<Tensor> copy = AllocateTensor(dtype, shape);
  if (copy.ok()) std::memcpy(copy->mutable_raw(), bytes.data(), wanted);
  return copy;
}

absl::StatusOr<Tensor> TensorFromText(DType dtype, const Shape& shape, absl::string_view bytes) {
  Buffer copy;
  const absl::Status status = CatchAllocationErrors([&] {
    copy = Buffer::Allocate(bytes.size());
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
  return TensorFromBytes(dtype, shape, std::move(copy));
}

absl::StatusOr<Tensor> AllocateTensor(DType dtype, const Shape& shape) {
  const absl::StatusOr<int64_t> elements = CheckedElements(shape);
  if (!elements.ok()) return elements.status();
  Tensor tensor;
  const absl::Status status = CatchAllocationErrors([&] {
    tensor = Tensor(dtype, shape);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return tensor;
}

}  // namespace coxswain
