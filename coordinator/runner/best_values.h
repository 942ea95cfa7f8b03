// The values of the best evaluation, for jobs that stop early: kept in memory and, where there is a
// directory of checkpoints, in a file in it, so that a resumed job has them too.
//
// Thread model: one thread, that of the strategy.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/strategy.h"
#include "runtime/env/file_system.h"

namespace coxswain::runner {

class BestValues {
 public:
  // `directory`: of the checkpoints; empty: memory alone. `strategy` must outlive the object.
  BestValues(ParameterServerStrategy* strategy, std::string directory);

  // Keeps what the variables hold now; `steps` names the file. Returns the file's name, empty
  // without a directory. Files that no checkpoint names any more are removed.
  absl::StatusOr<std::string> Keep(int64_t steps);
  // Assigns the kept values: those in memory, or else those of the file (empty: there are none, and
  // nothing happens). Errors: NotFound, DataLoss.
  absl::Status Restore(const std::string& file);

 private:
  struct Value {
    std::shared_ptr<const VariableInfo> info;
    Tensor values;
    Tensor ids;  // of a hash table's rows
  };

  absl::StatusOr<Value> Read(const std::shared_ptr<const VariableInfo>& info);
  absl::Status Assign(const Value& value);
  absl::StatusOr<std::string> WriteFile(int64_t steps);
  void RemoveOld(const std::string& newest);

  ParameterServerStrategy* strategy_;
  const std::string directory_;
  std::unique_ptr<env::FileSystem> files_;
  std::vector<Value> values_;
  std::string last_;
};

}  // namespace coxswain::runner
