// How many rows find a row in each side table.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"

namespace coxswain::data {

struct JoinCounts {
  int64_t rows = 0;  // of all files, those of the test part, too
  // By side table (DatasetSpec.joins): rows whose key the table lacks, or that have none.
  std::vector<int64_t> without;
};

// Reads the files of a spec once more, and nothing but the keys; nothing where it has no joins.
// Errors: those of reading them.
absl::StatusOr<JoinCounts> CountJoins(proto::DatasetSpec spec);

}  // namespace coxswain::data
