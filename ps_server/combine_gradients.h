// Combines the gradients of a synchronous step's closures into one.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "runtime/graph/variable_access.h"

namespace coxswain::ps {

// `updates` has each closure's gradient for one update of one shard, at least one, in the order of
// the closures. Sums are taken in this order, so the result does not depend on which gradient
// arrived first. Rows are in the order of their first occurrence. All gradients must be valid for
// their shard (Shard::Validate) and of the same kind, kDense or kSparse. Sums are divided by
// `divisor`.
graph::Update CombineGradients(absl::Span<const graph::Update* const> updates, int64_t divisor);

}  // namespace coxswain::ps
