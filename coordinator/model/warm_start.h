// Training that goes on from a saved model, or from a checkpoint, with other data: what both have
// by name begins with the model's values.
//
// A table's rows go by what they stand for: by the texts of its vocabulary, which keep their ids
// (KeepIds) and have new ones behind them; by the id of a hash table, a bucket or an index. Dense
// variables go by name and shape. Optimizer slots begin anew.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/name_map.h"
#include "coxswain/strategy.h"
#include "protos/dataset.pb.h"
#include "runtime/data/dataset.h"

namespace coxswain::model {

// What training goes on from.
struct InitialModel {
  std::string directory;  // empty: initial values are the job's
  NameMap names;
};

struct WarmStart {
  struct Rows {
    std::string variable;
    std::string old_name;  // in the model, where it is another; else empty
    int64_t taken = 0;     // rows; 1 of a dense variable
    int64_t fresh = 0;     // that the model does not have
  };
  std::string from;  // directory of the model or the checkpoint
  std::vector<Rows> taken;
  std::vector<std::string> fresh;  // variables that begin with initial values: "name: why"
  std::vector<std::string> left;   // of the model, which the job does not have

  std::string ToString() const;  // for people, several lines
};

// Before the data is read. Fills in spec->known for each feature that the model learned in the way
// in which the job would: its values keep their ids, its numbers their normalisation. Nothing for a
// checkpoint, which knows no features. Errors: NotFound where `directory` has neither a model nor
// a checkpoint; those of ReadLearned.
absl::Status KeepIds(const std::string& directory, proto::DatasetSpec* spec,
                     const NameMap& names = {});

// When the variables have been created. Errors: as above; InvalidArgument for an entry of `names`
// that names nothing in the model or nothing in the job; DataLoss; those of the cluster.
absl::StatusOr<WarmStart> TakeOver(const std::string& directory, const job::JobSpec& job,
                                   const data::Dataset& data, ParameterServerStrategy* strategy,
                                   const NameMap& names = {});

}  // namespace coxswain::model
