// The gradients of a synchronous step's closures as one.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "runtime/graph/variable_access.h"

namespace coxswain::ps {

// Of one update of a function, of one shard: what each closure has for it, at least one, in the
// order of the closures, which is that of the sums; so the result does not depend on which one came
// first. Rows come in the order in which they are named first. All are valid for their shard
// (Shard::Validate) and of one kind, kDense or kSparse. Sums are divided by `divisor`.
graph::Update CombineGradients(absl::Span<const graph::Update* const> updates, int64_t divisor);

}  // namespace coxswain::ps
