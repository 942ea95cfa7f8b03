#include "runtime/tensor/tensor.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"

namespace coxswain {

Tensor::Tensor(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)) {
  buffer_ = Buffer::Allocate(static_cast<size_t>(shape_.num_elements()) * SizeOf(dtype_));
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
}

void Tensor::CheckCount(int64_t count) const {
  COX_CHECK(count == num_elements(), count, " values for shape ", shape_.ToString());
}

}  // namespace coxswain
