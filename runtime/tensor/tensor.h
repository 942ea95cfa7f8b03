// A tensor: dtype, shape and a handle on a buffer, row-major and dense.
//
// Copying a tensor copies the handle. It may be changed in place only by its only owner
// (`Unique()`). Thread model: a value; concurrent readers are fine.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/tensor/buffer.h"
#include "runtime/tensor/dtype.h"
#include "runtime/tensor/shape.h"

namespace coxswain {

class Tensor {
 public:
  Tensor() = default;  // no value: dtype kInvalid
  // Uninitialised host memory of that size.
  Tensor(DType dtype, Shape shape);
  // `buffer` must hold at least the bytes that dtype and shape need.
  Tensor(DType dtype, Shape shape, Buffer buffer);

  template <typename T>
  static Tensor Scalar(T value) {
    Tensor t(DTypeOf<T>::value, Shape{});
    *t.mutable_data<T>() = value;
    return t;
  }
  // Errors: InvalidArgument when the shape has another number of elements, or unknown ones.
  template <typename T>
  static absl::StatusOr<Tensor> FromVector(const std::vector<T>& values, Shape shape) {
    if (absl::Status s = CheckCount(shape, static_cast<int64_t>(values.size())); !s.ok()) return s;
    return FromVector<T>(values).Reshaped(std::move(shape));
  }
  // A vector.
  template <typename T>
  static Tensor FromVector(const std::vector<T>& values) {
    Tensor t(DTypeOf<T>::value, Shape{static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), t.mutable_data<T>());
    return t;
  }
  static Tensor Zeros(DType dtype, Shape shape);

  bool has_value() const { return dtype_ != DType::kInvalid; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int i) const { return shape_.dim(i); }
  int64_t num_elements() const { return shape_.num_elements(); }
  size_t bytes() const { return static_cast<size_t>(num_elements()) * SizeOf(dtype_); }
  Device device() const { return buffer_.device(); }
  const Buffer& buffer() const { return buffer_; }
  bool Unique() const { return buffer_.Unique(); }

  // The values in row-major order, good as long as this tensor: for what somebody else has made,
  // such as a closure's results. Errors: InvalidArgument when the dtype is another one.
  template <typename T>
  absl::StatusOr<absl::Span<const T>> As() const {
    if (absl::Status s = IsOf(DTypeOf<T>::value); !s.ok()) return s;
    return absl::Span<const T>(static_cast<const T*>(buffer_.data()),
                               static_cast<size_t>(num_elements()));
  }

  // Host memory. For code that knows the dtype, as kernels do: T must match it (a mismatch is a bug
  // and ends the process).
  template <typename T>
  const T* data() const {
    CheckType(DTypeOf<T>::value);
    return static_cast<const T*>(buffer_.data());
  }
  template <typename T>
  T* mutable_data() {
    CheckType(DTypeOf<T>::value);
    return static_cast<T*>(buffer_.data());
  }
  template <typename T>
  absl::Span<const T> values() const {
    return {data<T>(), static_cast<size_t>(num_elements())};
  }
  const void* raw() const { return buffer_.data(); }
  void* mutable_raw() { return buffer_.data(); }

  // The same bytes under another shape with as many elements.
  Tensor Reshaped(Shape shape) const;
  // Rows [begin, end) of the first dimension, sharing the bytes.
  Tensor SliceRows(int64_t begin, int64_t end) const;

  std::string ToString() const;  // "f32[2,3]{1, 2, 3, ...}", at most 8 values

 private:
  void CheckType(DType wanted) const;
  absl::Status IsOf(DType wanted) const;
  static absl::Status CheckCount(const Shape& shape, int64_t count);

  DType dtype_ = DType::kInvalid;
  Shape shape_;
  Buffer buffer_;
};

}  // namespace coxswain
