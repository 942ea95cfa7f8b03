// Histories of rows to predict, as training and evaluation have them: of a history in an order
// (`by`) the last `max_values`.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/job/job_spec.h"
#include "runtime/data/batch.h"

namespace coxswain::predict {

// Immutable, thread-safe.
class NewestValues {
 public:
  NewestValues() = default;
  // Of batches of these columns.
  NewestValues(const job::JobSpec& job, absl::Span<const data::ColumnSpec> columns);

  // The batch with lists that are no longer than they may be. Tensors that need no change are
  // shared.
  data::Batch Of(data::Batch batch) const;

 private:
  struct Limit {
    size_t values = 0, offsets = 0;  // columns of a batch
    int64_t most = 0;
  };
  std::vector<Limit> limits_;
};

}  // namespace coxswain::predict
