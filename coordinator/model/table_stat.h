// How a saved table's rows are: one pass over it, in memory that does not grow with it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/model/saved_reader.h"

namespace coxswain::model {

// Counts of numbers >= 0 by their size, fine enough to tell quantiles to one part in a thousand.
class NormCounts {
 public:
  NormCounts();
  void Add(float norm);  // not NaN
  int64_t count() const { return count_; }
  float min() const { return min_; }
  float max() const { return max_; }
  // The smallest number (to 0.1%) that at least `share` of them are not above; 0 of none.
  float Quantile(double share) const;
  // How many lie in each of `bins` equally wide ranges from min() to max().
  std::vector<int64_t> Histogram(int bins) const;

 private:
  std::vector<int64_t> counts_;
  int64_t count_ = 0;
  float min_ = 0, max_ = 0;
};

struct TableStat {
  int64_t rows = 0;  // in use
  uint64_t bytes = 0;
  NormCounts norms;       // of rows without NaN and Inf
  int64_t zero_rows = 0;  // of zeros alone
  int64_t nan_values = 0, inf_values = 0;
  bool knows_touched = false;
  int64_t never_touched = 0;  // rows that no update has changed
};

// Errors: those of reading.
absl::StatusOr<TableStat> ComputeTableStat(const SavedRows& rows);

}  // namespace coxswain::model
