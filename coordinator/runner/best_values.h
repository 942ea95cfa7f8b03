// The values of the best evaluation, for jobs that stop early. Where there is a directory of
// checkpoints they are a checkpoint: links to its files, in the directory "best-000001200" beside
// it, which stays when the checkpoint goes, so that a resumed job has them too and no row passes
// through this process. Else they are in memory.
//
// Thread model: one thread, that of the strategy.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/strategy.h"
#include "runtime/env/file_system.h"

namespace coxswain::runner {

// Whether BestValues::Keep makes such a name beside the checkpoints, left it unfinished, or did so
// in an earlier version of this program.
bool IsBestValuesName(absl::string_view name);

class BestValues {
 public:
  // `directory`: of the checkpoints; empty: memory. `save` writes a checkpoint of what the
  // variables hold, and returns when it is there. `job`: the name that its checkpoints have.
  // `strategy` must outlive the object.
  BestValues(ParameterServerStrategy* strategy, std::string directory, std::string job,
             std::function<absl::Status()> save);

  // Without a directory of checkpoints.
  bool in_memory() const { return directory_.empty(); }
  // Keeps what the variables hold now, while nothing trains; `steps` names the directory. Returns
  // its name, empty without a directory of checkpoints. What no checkpoint names any more is
  // removed, but nothing that this job has not made. Errors: FailedPrecondition where something
  // else has the name. Then these values are better than those that are kept, while there are none
  // of later steps.
  absl::StatusOr<std::string> Keep(int64_t steps);
  // Whether the values of this name are there as they were written. Errors: as Restore.
  absl::Status Verify(const std::string& name) const;
  // Assigns the kept values: those in memory, or else those of this name (empty: there are none,
  // and nothing happens; nor does it where those of `steps`, which the variables hold, are better
  // and could not be kept). It may be a file "best-000001200.safetensors", of an earlier version of
  // this program. Errors: NotFound, DataLoss.
  absl::Status Restore(const std::string& name, int64_t steps);

 private:
  struct Value {
    std::shared_ptr<const VariableInfo> info;
    Tensor values;
    Tensor ids;  // of a hash table's rows
  };

  absl::StatusOr<Value> Read(const std::shared_ptr<const VariableInfo>& info);
  absl::Status Assign(const Value& value);
  absl::Status KeepInMemory();
  absl::Status LinkNewest(const std::string& name);
  bool IsOfJob(const std::string& name) const;
  absl::Status RestoreCheckpoint(const std::string& path);
  absl::Status ReadFile(const std::string& path);
  void RemoveOld(const std::string& newest);

  ParameterServerStrategy* strategy_;
  const std::string directory_, job_;
  const std::function<absl::Status()> save_;
  std::unique_ptr<env::FileSystem> files_;
  std::vector<Value> values_;
  std::string last_;
  int64_t unkept_steps_ = -1;  // of the last call of Keep, if that failed
};

}  // namespace coxswain::runner
