#include "coxswain/tensor.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/tensor/limits.h"

namespace coxswain {
namespace {

size_t BytesOf(DType dtype, const Shape& shape) {
  const absl::StatusOr<int64_t> elements = CheckedElements(shape);
  if (!elements.ok()) throw AllocationError(std::string(elements.status().message()));
  return static_cast<size_t>(*elements) * SizeOf(dtype);
}

}  // namespace

Tensor::Tensor(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)) {
  const size_t bytes = BytesOf(dtype_, shape_);
  try {
    buffer_ = Buffer::Allocate(bytes);
  } catch (const AllocationError& error) {
    throw AllocationError(
        absl::StrCat("a tensor ", DTypeName(dtype_), shape_.ToString(), ": ", error.what()));
  }
}

Tensor::Tensor(DType dtype, Shape shape, Buffer buffer)
    : dtype_(dtype), shape_(std::move(shape)), buffer_(std::move(buffer)) {
  COX_CHECK(buffer_.size() >= bytes(), "buffer of ", buffer_.size(), " bytes for ", bytes());
}

Tensor Tensor::Zeros(DType dtype, Shape shape) {
  Tensor t(dtype, std::move(shape));
  std::memset(t.mutable_raw(), 0, t.bytes());
  return t;
}

Tensor Tensor::Reshaped(Shape shape) const {
  COX_CHECK(shape.num_elements() == num_elements(), "reshape of ", shape_.ToString(), " to ",
            shape.ToString());
  Tensor t(*this);
  t.shape_ = std::move(shape);
  return t;
}

Tensor Tensor::SliceRows(int64_t begin, int64_t end) const {
  COX_CHECK(rank() >= 1 && begin >= 0 && begin <= end && end <= dim(0), "rows ", begin, "..", end,
            " of ", shape_.ToString());
  Shape shape = shape_;
  shape.set_dim(0, 1);
  const size_t row = static_cast<size_t>(shape.num_elements()) * SizeOf(dtype_);
  shape.set_dim(0, end - begin);
  return Tensor(
      dtype_, std::move(shape),
      buffer_.Slice(row * static_cast<size_t>(begin), row * static_cast<size_t>(end - begin)));
}

std::string Tensor::ToString() const {
  if (!has_value()) return "none";
  std::string text = absl::StrCat(DTypeName(dtype_), shape_.ToString(), "{");
  if (const Device on = device(); on.type != DeviceType::kCpu) {
    return absl::StrCat(text, "on ", DeviceTypeName(on.type), ":", on.index, "}");
  }
  const int64_t shown = std::min<int64_t>(num_elements(), 8);
  for (int64_t i = 0; i < shown; ++i) {
    if (i > 0) text += ", ";
    switch (dtype_) {
      case DType::kF32:
        absl::StrAppend(&text, data<float>()[i]);
        break;
      case DType::kF64:
        absl::StrAppend(&text, data<double>()[i]);
        break;
      case DType::kI32:
        absl::StrAppend(&text, data<int32_t>()[i]);
        break;
      case DType::kI64:
        absl::StrAppend(&text, data<int64_t>()[i]);
        break;
      case DType::kBool:
        absl::StrAppend(&text, data<bool>()[i] ? "true" : "false");
        break;
      case DType::kBF16:
        absl::StrAppend(&text, data<BFloat16>()[i].ToFloat());
        break;
      case DType::kInvalid:
        break;
    }
  }
  return text + (shown < num_elements() ? ", ...}" : "}");
}

void Tensor::CheckType(DType wanted) const {
  COX_CHECK(dtype_ == wanted, "tensor is ", DTypeName(dtype_), ", asked for ", DTypeName(wanted));
  CheckHost();
}

void Tensor::CheckHost() const {
  COX_CHECK(buffer_.device().type == DeviceType::kCpu, "the values of ", ToString(),
            " were asked for on the host");
}

absl::Status Tensor::IsOf(DType wanted) const {
  if (dtype_ == wanted && device().type == DeviceType::kCpu) return absl::OkStatus();
  if (dtype_ == wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted values on the host, found ", ToString()));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "wanted a tensor of ", DTypeName(wanted), ", found ",
      has_value() ? absl::StrCat(DTypeName(dtype_), shape_.ToString()) : "one without a value"));
}

absl::Status Tensor::CheckCount(const Shape& shape, int64_t count) {
  if (shape.IsFullyKnown() && shape.num_elements() == count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("wanted the values of a tensor ", shape.ToString(), ", found ", count));
}

}  // namespace coxswain
