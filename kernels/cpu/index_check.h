// Checks of indices and offsets, before a kernel follows them.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "coxswain/tensor.h"

namespace coxswain::kernels {

// InvalidArgument unless all values of `ids` (i32 or i64, any shape) are in [0, bound); the message
// names the first that is not, its position, and the bound as `bound_name`.
absl::Status CheckIndices(const Tensor& ids, int64_t bound, absl::string_view bound_name);

// InvalidArgument unless 0 <= offsets[0] <= offsets[1] <= ... <= entries.
absl::Status CheckOffsets(absl::Span<const int32_t> offsets, int64_t entries);

}  // namespace coxswain::kernels
