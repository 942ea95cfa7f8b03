// Training on all rows whose label is 1 and on some of those whose label is 0.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "protos/dataset.pb.h"
#include "runtime/data/batch.h"

namespace coxswain::data {

bool LeavesOutNegatives(const proto::LabelSpec& label);

// Errors: InvalidArgument for what LabelSpec.keep_negatives cannot be, or cannot be combined with.
absl::Status CheckNegatives(const proto::DatasetSpec& spec);

// Takes rows of label 0 out of a batch: each stays with the probability `keep`. If none would be
// left, the first one stays. Row i is drawn by `key` and its position `begin` + i, so that the same
// rows stay whenever the batch is read again. `columns` describe the batch. Allocates per tensor.
absl::Status LeaveOutNegatives(double keep, uint64_t key, int64_t begin,
                               absl::Span<const ColumnSpec> columns, Batch* batch);

}  // namespace coxswain::data
