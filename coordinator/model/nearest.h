// The rows of a table that point in about the same direction as given vectors.
//
// Thread model: thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/model/row_scan.h"
#include "coordinator/model/saved_reader.h"
#include "runtime/env/compute_pool.h"

namespace coxswain::model {

struct NearestQuery {
  std::vector<float> vector;                          // as long as a row
  std::vector<int64_t> exclude;                       // ids that are no answer
  std::function<bool(int64_t id)> answers = nullptr;  // which others are; null: all
};

struct Neighbour {
  int64_t id = 0;
  float cosine = 0;
};

// The `top` (at least 1) rows by cosine for each query, best first, of equal ones the lower id
// first. Rows that have no direction (zeros, or not finite) are no answer, and a query without one
// has no answers. One pass over the table for all queries, by matrix products: memory is that of
// the queries, their answers, and a few blocks.
// Errors: InvalidArgument for a vector of another length; those of reading.
absl::StatusOr<std::vector<std::vector<Neighbour>>> NearestRows(
    const RowScan& rows, const std::vector<NearestQuery>& queries, int64_t top,
    env::ComputePool* pool);
absl::StatusOr<std::vector<std::vector<Neighbour>>> NearestRows(
    const SavedRows& rows, const std::vector<NearestQuery>& queries, int64_t top,
    env::ComputePool* pool);

}  // namespace coxswain::model
