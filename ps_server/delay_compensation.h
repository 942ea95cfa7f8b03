// What a late gradient would be now, to the first order: g + lambda g g (w - w'), where w' is what
// it was computed from and w what is there now (Zheng et al., "Asynchronous stochastic gradient
// descent with delay compensation", 2017). g g stands for the diagonal of the second derivative.
#pragma once

#include "ps_server/shard.h"
#include "ps_server/staleness.h"
#include "runtime/graph/variable_access.h"

namespace coxswain::ps {

// The gradient, compensated; rows that are not among what was read stay as they are. `update` is
// valid for the shard (Shard::Validate) and kDense or kSparse.
graph::Update Compensate(const graph::Update& update, const ReadMarks::Values& read,
                         const Shard& shard, double lambda);

}  // namespace coxswain::ps
