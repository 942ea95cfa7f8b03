// Gradients that are NaN or infinite: the error of whoever finds one.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "coxswain/tensor.h"

namespace coxswain::kernels {

// Of the whole gradient of a variable that is no table. Errors: InvalidArgument with the detail
// NotFinite, if a number of `gradient` (f32, f64 or bf16) is NaN or infinite.
absl::Status CheckWholeGradient(const std::string& variable, const Tensor& gradient);

}  // namespace coxswain::kernels
