// What a parameter server tells Prometheus.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"
#include "protos/control.pb.h"
#include "ps_server/shard_store.h"
#include "runtime/metrics/family.h"

namespace coxswain::ps {

// Of more variables than this the largest have samples of their own, the others one together.
constexpr size_t kMostVariables = 200;
constexpr absl::string_view kOtherVariables = "(others)";

// `status` has its shards; `saving`: it writes a checkpoint.
metrics::Families PsFamilies(absl::string_view prefix, const proto::TaskStatus& status,
                             const WorkDone& done, bool saving);

}  // namespace coxswain::ps
