// NumPy's broadcasting of shapes.
#pragma once

#include "absl/status/statusor.h"
#include "coxswain/tensor.h"

namespace coxswain {

// The shape of an element-wise result with NumPy's broadcasting; an unknown dimension stays unknown
// unless the other side fixes it (> 1).
// Errors: InvalidArgument when two dimensions differ and neither is 1.
absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b);

}  // namespace coxswain
