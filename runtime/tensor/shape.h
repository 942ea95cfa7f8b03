// A tensor's dimensions. In a graph a dimension may be unknown (-1), as a batch's size is; a
// tensor's own shape is always fully known.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace coxswain {

constexpr int64_t kUnknownDim = -1;

class Shape {
 public:
  Shape() = default;  // a scalar
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(absl::Span<const int64_t> dims) : dims_(dims.begin(), dims.end()) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int i) const { return dims_[i]; }
  void set_dim(int i, int64_t value) { dims_[i] = value; }
  void Append(int64_t dim) { dims_.push_back(dim); }
  absl::Span<const int64_t> dims() const { return dims_; }

  bool IsFullyKnown() const;
  // Product of the dimensions, 1 for a scalar. Only for a fully known shape.
  int64_t num_elements() const;
  // True when a tensor of the fully known shape `other` may stand where this shape is declared.
  bool Accepts(const Shape& other) const;

  bool operator==(const Shape& other) const { return dims_ == other.dims_; }
  bool operator!=(const Shape& other) const { return !(*this == other); }
  std::string ToString() const;  // "[?,64]"

 private:
  absl::InlinedVector<int64_t, 4> dims_;
};

// The shape of an element-wise result with NumPy's broadcasting; an unknown dimension stays unknown
// unless the other side fixes it (> 1).
// Errors: InvalidArgument when two dimensions differ and neither is 1.
absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b);

}  // namespace coxswain
