// Training that goes on from a saved model, or from a checkpoint, with other data: what both have
// by name begins with the model's values.
//
// A table's rows go by what they stand for: by the texts of its vocabulary, which keep their ids
// (KeepIds) and have new ones behind them; by the id of a hash table, a bucket or an index. Dense
// variables go by name and shape, and layers on features by the features. What the optimizer keeps
// beside them (slots, and the number of updates behind them) comes too, where it was saved and the
// job's optimizer is of the same kind. Of a checkpoint the inputs beside it (saved_inputs.h) tell
// which values rows are of, and what layers are on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/job/variable_inputs.h"
#include "coordinator/model/layer_fit.h"
#include "coordinator/model/name_map.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/model/saved_reader.h"
#include "coxswain/strategy.h"
#include "protos/dataset.pb.h"
#include "runtime/data/dataset.h"

namespace coxswain::model {

// What training goes on from.
struct InitialModel {
  std::string directory = {};  // empty: initial values are the job's
  NameMap names = {};
  bool slots = true;  // of optimizers, where it has them
};

struct WarmStart {
  struct Rows {
    std::string variable;
    std::string old_name;  // in the model, where it is another; else empty
    int64_t taken = 0;     // rows; 1 of a dense variable
    int64_t fresh = 0;     // that the model does not have
    // Of a layer: the inputs whose weights begin anew, because the model does not have them.
    std::vector<std::string> missing = {};
  };
  std::string from;  // directory of the model or the checkpoint
  std::vector<Rows> taken;
  std::vector<std::string> fresh;          // variables that begin with initial values: "name: why"
  std::vector<std::string> other_numbers;  // features whose weights begin anew: "name: why"
  std::vector<std::string> left;           // of the model, which the job does not have
  int64_t with_slots = 0;                  // variables whose optimizers go on
  // Variables that were taken and whose optimizers begin anew, by reason.
  std::map<std::string, std::vector<std::string>> fresh_slots;

  std::string ToString() const;  // for people, several lines
};

// Before the data is read. Fills in spec->known for each feature that the model learned in the way
// in which the job would: its values keep their ids, its numbers their normalisation. Nothing for a
// checkpoint without inputs of its job. Fills in spec->trained, too, unless files come while the
// job runs: which rows the model was trained on, and what drew their parts. Errors: NotFound where
// `directory` has neither a model nor a checkpoint; those of ReadLearned.
absl::StatusOr<EarlierModel> KeepIds(const std::string& directory, proto::DatasetSpec* spec,
                                     const NameMap& names = {});

// What a job begins with. Thread model: one thread, the strategy's.
class WarmSource {
 public:
  // `job` and `data` outlive it. Errors: as KeepIds.
  static absl::StatusOr<WarmSource> Open(const InitialModel& from, const job::JobSpec& job,
                                         const data::Dataset& data);

  // Of a variable that is about to be created: how many updates are behind the slots that it will
  // begin with (kernels::kEarlierSteps). Errors: DataLoss.
  absl::StatusOr<int64_t> EarlierSteps(const VariableInfo& info) const;

  // When the variables have been created. Errors: InvalidArgument for an entry of the names that
  // names nothing in the model or nothing in the job; DataLoss; those of the cluster.
  absl::StatusOr<WarmStart> TakeOver(ParameterServerStrategy* strategy) const;

 private:
  friend class Taker;
  WarmSource(const InitialModel& from, SavedSource source, const job::JobSpec& job,
             const data::Dataset& data)
      : from_(from), source_(std::move(source)), job_(&job), data_(&data) {}
  // What the model's layers are on, and its classes.
  void ReadInputs();
  void CompareClasses(const std::string& saved_feature);
  void CompareNumbers(const job::JobSpec& saved);
  void CompareValues(const job::JobSpec& saved);
  // Why the weights of the number that a variable is of are none of the model's; empty: it is of
  // no number, or they are.
  std::string OtherNumber(const VariableInfo& info) const;

  // What a variable of the job begins with.
  struct Match {
    std::string saved;        // the variable of the model
    bool there = false;       // it has one of this name
    std::string fresh;        // why nothing of it is taken; empty: it is
    std::string fresh_slots;  // why its slots are not; empty: they are, or nobody has any
    int64_t steps = 0;        // behind the slots that are taken
    std::string optimizer;    // of these; empty: none is taken
    bool weights = false;     // the model's values are averages, and its weights are taken too
    LayerFit layer = {};      // of a layer on features
  };
  // `averages`: the variable has moving averages.
  absl::StatusOr<Match> Find(const VariableInfo& info, bool averages) const;
  // Of a variable that is on features in the job or in the model: fills in match->layer, and where
  // nothing fits, why.
  void MatchLayer(const VariableInfo& info, const SavedVariable& saved, Match* match) const;
  // Whether one of its axes stands for the label's classes.
  bool OfClasses(const VariableInfo& info) const;
  absl::Status MatchSlots(const VariableInfo& info, bool averages, Match* match) const;
  // Why columns, or rows, of a table stand for other things; empty: they do not.
  std::string OtherColumns(const VariableInfo& info, const std::string& saved) const;
  std::string OtherRows(const VariableInfo& info, const SavedRows& rows) const;

  InitialModel from_;
  SavedSource source_;
  const job::JobSpec* job_;
  const data::Dataset* data_;
  job::InputsByVariable inputs_;        // of the job's layers
  job::InputsByVariable saved_inputs_;  // of the model's
  std::string no_inputs_;               // why these are not known; empty: they are
  std::string other_classes_;  // why those of the label are not the model's; empty: they are
  // Numbers of the job that are others than those of their names in the model, and why.
  std::map<std::string, std::string> other_numbers_;
  // The same of categorical features, whose values become ids in another way, or are made of
  // others.
  std::map<std::string, std::string> other_values_;
};

}  // namespace coxswain::model
