// The files of a job that follows directories (dataset.follow): each time that some have come they
// are one data set, which is one epoch; when that is trained, workers let go of it.
//
// Thread model: that of JobRunner.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/model.h"
#include "coordinator/runner/run_state.h"
#include "coxswain/strategy.h"
#include "runtime/data/stream/followed_files.h"

namespace coxswain::runner {

// The data set of a job that follows, before anything has come: its columns, and the test part.
proto::DatasetSpec SpecBeforeFiles(proto::DatasetSpec spec);

class Arrivals {
 public:
  // `strategy` outlives it.
  Arrivals(ParameterServerStrategy* strategy, const job::JobSpec& job);

  // Errors: those of FollowedFiles::Check, with the job's line.
  absl::Status Check() const;
  // Before training, with the state that the job goes on from: makes the data sets again that
  // `pending` closures are of, and those of epochs that are not finished. These are joined with the
  // tables that they began with, from those that `inputs` (model::kInputsFolder) keeps if they were
  // replaced since. Errors: those of making them, such as FailedPrecondition for a file that is not
  // what it was.
  absl::Status Resume(const RunState& state, const std::vector<Ticket>& pending,
                      const std::string& inputs);

  // Where files have come that no epoch has: makes their data set and its function, so that Await
  // has them at once. To be called again and again from when all of the epoch before is scheduled
  // until it is trained: it looks as often as Await does. What goes wrong Await tells.
  void Prepare(model::Model* model);
  // Waits for files that no epoch has; makes them the next one. False: there are no more, as the
  // end is there or nothing has come for too long. `add` is told of the epoch before anything of
  // it can be scheduled; `stop` says when to give up. Errors: Cancelled then; those of
  // FollowedFiles::LookForNew, but for directories that cannot be listed for a time; those of
  // reading, but for those of content where train.on_error ignores them.
  absl::StatusOr<bool> Await(const std::function<void(FollowedEpoch)>& add,
                             const std::function<bool()>& stop);
  bool Has(int64_t epoch) const { return epoch < next_ && epochs_.count(epoch) > 0; }
  // Null: there is no such epoch.
  const data::Dataset* Data(int64_t epoch) const {
    const auto found = epochs_.find(epoch);
    return found == epochs_.end() ? nullptr : &found->second.data.data();
  }
  // What trains on an epoch that there is.
  absl::StatusOr<const RemoteFunction*> TrainFunction(model::Model* model, int64_t epoch);
  // A function of its own that does. None: there is no such epoch.
  absl::StatusOr<std::optional<RemoteFunction>> Define(model::Model* model, int64_t epoch) const;
  // What is scheduled from now on is defined anew: the strategy's learning rates are others.
  void DefineAgain();
  // All that was scheduled of epochs before this one is over.
  void Release(int64_t before);

 private:
  struct Epoch {
    PerWorkerDataset data;
    std::optional<RemoteFunction> train;
  };

  absl::Status Make(int64_t number, const std::vector<data::FollowedFile>& files);
  absl::Status Make(int64_t number, proto::DatasetSpec spec);
  absl::Duration look_again() const;
  // Without files where train.on_error leaves all of them out.
  absl::StatusOr<FollowedEpoch> MakeNext(std::vector<data::FollowedFile> files);
  // Tries each alone, and tells of those that cannot be read.
  absl::Status LeaveOutBad(std::vector<data::FollowedFile>* files);

  ParameterServerStrategy* const strategy_;
  const job::JobSpec& job_;
  data::FollowedFiles files_;
  absl::Duration looked_ = -absl::InfiniteDuration();      // by the clock of Env, when Prepare did
  int64_t next_ = 0;                                       // epoch
  std::optional<absl::StatusOr<FollowedEpoch>> prepared_;  // that one, before Await
  std::map<int64_t, Epoch> epochs_;
};

// The epochs of a job.
struct Epochs {
  EpochSizes sizes = EpochSizes::Same(1, 0);  // once the data is there
  std::unique_ptr<Arrivals> arrivals;         // null: all files are there
};

}  // namespace coxswain::runner
