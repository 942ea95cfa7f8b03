// Which files an epoch is made of; the data sets of epochs, which are made, waited for and let go.
#include "coordinator/runner/arrivals.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/model/saved_side_tables.h"
#include "coordinator/model/visits.h"
#include "runtime/base/logging.h"
#include "runtime/base/mistake.h"
#include "runtime/base/status.h"
#include "runtime/data/dataset_options.h"
#include "runtime/data/file_error.h"
#include "runtime/data/hash.h"
#include "runtime/data/side_table_files.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/env/env.h"

namespace coxswain::runner {
namespace {

constexpr absl::Duration kLookAgain = absl::Milliseconds(500);
constexpr absl::Duration kAskStoreAgain = absl::Seconds(5);  // a look is requests, which cost
constexpr int kMostAttempts = 3;  // at an epoch whose joined tables are replaced meanwhile
constexpr absl::Duration kStopAgain = absl::Milliseconds(50);

// What holds of the data set of one epoch. It has an order and a number of its own, so that two
// with the same rows are two.
proto::DatasetSpec SpecOfEpoch(const job::JobSpec& job, int64_t number,
                               const std::vector<data::FollowedFile>& files) {
  proto::DatasetSpec spec = job.dataset;
  spec.clear_paths();
  for (const data::FollowedFile& file : files) spec.add_paths(file.path);
  spec.mutable_split()->clear_test_paths();
  spec.set_seed(data::HashPair(job.dataset.seed(), static_cast<uint64_t>(number)));
  // One ends while the next begins.
  const int64_t memory = data::SizesOf(spec.stream()).memory;
  spec.mutable_stream()->set_memory(std::max<int64_t>(1, memory / 2));
  return spec;
}

// Else an epoch whose tables are replaced while the job does not run could not be gone on with: a
// part of its rows was joined with the tables before. If those are not kept, making it says so.
void JoinTablesOf(int64_t epoch, const std::string& version, const std::string& inputs,
                  proto::DatasetSpec* spec) {
  if (version.empty()) return;
  const auto now = data::SideTableReading::Read(*spec);
  if (now.ok() && now->files() != nullptr && now->files()->version == version) return;
  proto::DatasetSpec kept = *spec;
  if (!model::UseSavedSideTables(inputs, version, &kept).ok()) return;
  LogWarning("dataset.follow: a joined table was replaced: epoch ", epoch + 1,
             " goes on with the tables that it began with");
  *spec = std::move(kept);
}

// An error of what is in these files, which their writer is to blame for, and not of the job or of
// other files that it reads.
bool IsOfContent(const absl::Status& status, const std::vector<data::FollowedFile>& files) {
  if (!absl::IsInvalidArgument(status) && !absl::IsOutOfRange(status) &&
      !absl::IsDataLoss(status) && !absl::IsNotFound(status)) {
    return false;
  }
  const std::optional<std::string> of = data::FileOf(status);
  return of && std::any_of(files.begin(), files.end(),
                           [&of](const data::FollowedFile& file) { return file.path == *of; });
}

// The error that ends the job: files that are no good are a failure of the job, which goes on
// without them, and so is whatever comes when it has trained. Else it is a mistake in the job or
// in what else it reads.
absl::Status WhyNoEpoch(const absl::Status& made, const std::vector<data::FollowedFile>& files,
                        bool trained) {
  const bool of_content = IsOfContent(made, files);
  const auto detail = GetDetail(made);
  const bool mistake = detail && detail->cause == ErrorCause::kConfiguration;
  if (!of_content && !(mistake && trained)) return made;
  // A file without a column may be whole.
  const bool may_be_torn = of_content && !absl::IsNotFound(made);
  const absl::Status said(made.code(),
                          may_be_torn ? absl::StrCat(made.message(), "; ", data::kWholeFilesHint)
                                      : std::string(made.message()));
  return WithDetail(said, {ErrorCause::kApplication, false, "", 0});
}

}  // namespace

proto::DatasetSpec SpecBeforeFiles(proto::DatasetSpec spec) {
  spec.clear_paths();
  return spec;
}

Arrivals::Arrivals(ParameterServerStrategy* strategy, const job::JobSpec& job)
    : strategy_(strategy),
      job_(job),
      files_({job.dataset.paths().begin(), job.dataset.paths().end()}, job.follow.end) {}

absl::Status Arrivals::Check() const {
  return AsMistake(Annotate(files_.Check(), job_.Where("dataset.path")));
}

absl::Status Arrivals::Make(int64_t number, const std::vector<data::FollowedFile>& files) {
  return Make(number, SpecOfEpoch(job_, number, files));
}

absl::Status Arrivals::Make(int64_t number, proto::DatasetSpec spec) {
  data::DatasetOptions options;
  options.spec = std::move(spec);
  options.batch_size = job_.train.batch_size;
  for (int attempt = 1;; ++attempt) {
    PerWorkerDataset& made = epochs_[number].data;
    ASSIGN_OR_RETURN(made, strategy_->CreatePerWorkerDataset(options));
    const data::SideTableFilesPtr read = made.data().side_tables().Get();
    if (read == nullptr) return absl::OkStatus();
    // All workers that there are have read the tables, too.
    const auto now = data::SideTableReading::Read(options.spec);
    if (now.ok() && now->files()->version == read->version) return absl::OkStatus();
    if (!now.ok() || attempt == kMostAttempts) {
      return now.ok() ? absl::FailedPreconditionError("the joined tables change all the time")
                      : now.status();
    }
    LogInfo("dataset.follow: a joined table was replaced while workers read it: they read again");
    strategy_->Release(made);
  }
}

absl::Status Arrivals::Resume(const RunState& state, const std::vector<Ticket>& pending,
                              const std::string& inputs) {
  std::set<int64_t> wanted;
  for (const Ticket& ticket : pending) wanted.insert(ticket.epoch);
  next_ = std::ssize(state.followed);
  for (int64_t epoch = state.epochs_finished; epoch < next_; ++epoch) wanted.insert(epoch);
  for (const FollowedEpoch& epoch : state.followed) {
    for (const data::FollowedFile& file : epoch.files) files_.Take(file);
  }
  for (const int64_t epoch : wanted) {
    if (epoch >= next_) {
      return absl::DataLossError(absl::StrCat("the checkpoint has closures of epoch ", epoch,
                                              " of a job that has ", next_));
    }
    const FollowedEpoch& there = state.followed[static_cast<size_t>(epoch)];
    for (const data::FollowedFile& file : there.files) {
      RETURN_IF_ERROR(data::CheckUnchanged(file.path, file.identity, /*same_machine=*/false));
    }
    proto::DatasetSpec spec = SpecOfEpoch(job_, epoch, there.files);
    JoinTablesOf(epoch, there.side_tables, inputs, &spec);
    RETURN_IF_ERROR(Make(epoch, std::move(spec)));
    const int64_t examples = epochs_[epoch].data.num_examples(Part::kTraining);
    if (examples == there.examples) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(there.files[0].path, ": changed since training began: wanted ", there.examples,
                     " rows in it and what came with it, found ", examples));
  }
  strategy_->ReleaseOthers();
  return absl::OkStatus();
}

absl::Status Arrivals::LeaveOutBad(std::vector<data::FollowedFile>* files) {
  std::vector<data::FollowedFile> good;
  for (const data::FollowedFile& file : *files) {
    const absl::Status made = Make(next_, {file});
    if (!made.ok() && !IsOfContent(made, {file})) return made;
    if (made.ok()) {
      good.push_back(file);
      strategy_->Release(epochs_[next_].data);
    } else {
      LogWarning("dataset.follow: a file is left out (train.on_error: ignore): ", made.message());
      files_.LeaveOut(file);
    }
    epochs_.erase(next_);
  }
  *files = std::move(good);
  return absl::OkStatus();
}

absl::StatusOr<FollowedEpoch> Arrivals::MakeNext(std::vector<data::FollowedFile> files) {
  absl::Status made = Make(next_, files);
  if (IsOfContent(made, files) && job_.train.on_error == ErrorPolicy::kIgnore) {
    made = LeaveOutBad(&files);
    if (made.ok() && files.empty()) return FollowedEpoch{};
    if (made.ok()) made = Make(next_, files);
  }
  if (!made.ok()) return WhyNoEpoch(made, files, /*trained=*/next_ > 0);
  return FollowedEpoch{epochs_[next_].data.num_examples(Part::kTraining), std::move(files)};
}

absl::Duration Arrivals::look_again() const {
  return files_.remote() ? kAskStoreAgain : kLookAgain;
}

void Arrivals::Prepare(model::Model* model) {
  const absl::Duration now = strategy_->cluster().env()->Monotonic();
  if (prepared_ || now - looked_ < look_again()) return;
  looked_ = now;
  absl::StatusOr<data::FollowedFiles::Look> look = files_.LookForNew();
  if (!look.ok() || look->files.empty()) return;  // an error is found again by the next look
  prepared_ = MakeNext(std::move(look->files));
  if (prepared_->ok() && (*prepared_)->files.empty()) prepared_.reset();
  if (!prepared_ || !prepared_->ok()) return;
  const absl::Status defined = TrainFunction(model, next_).status();
  if (!defined.ok()) prepared_ = defined;
}

absl::StatusOr<bool> Arrivals::Await(const std::function<void(FollowedEpoch)>& add,
                                     const std::function<bool()>& stop) {
  const auto take = [&](absl::StatusOr<FollowedEpoch> made) -> absl::StatusOr<bool> {
    RETURN_IF_ERROR(made.status());
    add(*std::move(made));
    ++next_;
    return true;
  };
  env::Env* const env = strategy_->cluster().env();
  const absl::Duration begun = env->Monotonic();
  bool told = false;
  while (true) {
    if (stop()) return absl::CancelledError("interrupted");
    if (prepared_) return take(*std::exchange(prepared_, std::nullopt));
    absl::StatusOr<data::FollowedFiles::Look> look = files_.LookForNew();
    if (absl::IsUnavailable(look.status())) {
      if (!std::exchange(told, true)) LogWarning("dataset.follow: ", look.status().message());
    } else if (!look.ok()) {
      return look.status();
    } else if (!look->files.empty()) {
      absl::StatusOr<FollowedEpoch> made = MakeNext(std::move(look->files));
      if (!made.ok() || !made->files.empty()) return take(std::move(made));
      continue;
    } else if (look->ended) {
      return false;
    }
    const double waited = absl::ToDoubleSeconds(env->Monotonic() - begun);
    if (job_.follow.idle_seconds > 0 && waited >= job_.follow.idle_seconds) {
      // Nobody knows whether nothing has come.
      if (!look.ok()) return Annotate(look.status(), "dataset.follow_idle is over, and");
      return false;
    }
    // Nothing tells when a file comes, on whatever file system that is.
    for (absl::Duration left = look_again(); left > absl::ZeroDuration() && !stop();
         left -= kStopAgain) {
      absl::SleepFor(kStopAgain);
    }
  }
}

absl::StatusOr<const RemoteFunction*> Arrivals::TrainFunction(model::Model* model, int64_t epoch) {
  const auto it = epochs_.find(epoch);
  if (it == epochs_.end()) return nullptr;
  if (!it->second.train) {
    ASSIGN_OR_RETURN(it->second.train, Define(model, epoch));
  }
  return &*it->second.train;
}

absl::StatusOr<std::optional<RemoteFunction>> Arrivals::Define(model::Model* model,
                                                               int64_t epoch) const {
  const auto it = epochs_.find(epoch);
  if (it == epochs_.end()) return std::nullopt;
  ASSIGN_OR_RETURN(RemoteFunction defined,
                   model->DefineTrain(it->second.data, model::FirstVisitOf(epoch)));
  return defined;
}

void Arrivals::DefineAgain() {
  for (auto& [number, epoch] : epochs_) epoch.train.reset();
}

void Arrivals::Release(int64_t before) {
  while (!epochs_.empty() && epochs_.begin()->first < before) {
    const PerWorkerDataset data = epochs_.begin()->second.data;
    epochs_.erase(epochs_.begin());  // with its function
    strategy_->Release(data);
  }
}

}  // namespace coxswain::runner
