// Tables whose rows begin as those of a file (`initializer: {kind: file}`), by the values that they
// stand for. Rows that the file lacks begin as they would without it.
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
  int64_t taken = 0;    // rows
  int64_t missing = 0;  // values of the vocabulary that the file lacks; of hash tables 0
  int64_t unused = 0;   // words of the file that no row is for, or that came before

  std::string ToString() const;  // for people, one line
};

// When the variables have been created and before anything is trained. Errors: those of RowsFile;
// InvalidArgument for a table whose rows stand for no values; those of the cluster.
absl::StatusOr<std::vector<InitialRows>> TakeRowsOfFiles(const job::JobSpec& job,
                                                         const data::Dataset& data,
                                                         ParameterServerStrategy* strategy);

}  // namespace coxswain::model
