// Tables whose initial rows come from a file (`initializer: {kind: file}`), matched by the values
// that they stand for. Rows that the file lacks have the initial values that they would have
// without it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coxswain/strategy.h"
#include "runtime/data/dataset.h"

namespace coxswain::model {

struct InitialRows {
  std::string table, path;
  int64_t taken = 0;     // rows
  int64_t buckets = 0;   // rows of unknown values that the file has behind its words
  int64_t missing = 0;   // values of the vocabulary that the file lacks; 0 for hash tables
  int64_t unused = 0;    // words of the file that have no row
  int64_t repeated = 0;  // words of the file whose row an earlier one has filled

  std::string ToString() const;  // for messages, one line
};

// To be called when the variables have been created, and before training. Errors: those of
// RowsFile; InvalidArgument for a table whose rows do not stand for values; those of the cluster.
absl::StatusOr<std::vector<InitialRows>> TakeRowsOfFiles(const job::JobSpec& job,
                                                         const data::Dataset& data,
                                                         ParameterServerStrategy* strategy);

}  // namespace coxswain::model
