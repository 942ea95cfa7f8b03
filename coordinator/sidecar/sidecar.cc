// What is new; one checkpoint, from its links to its report; the session that evaluates it.
#include "coordinator/sidecar/sidecar.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/saved_side_tables.h"
#include "coordinator/model/unreplaced.h"
#include "coordinator/runner/run_state.h"
#include "runtime/base/status.h"

namespace coxswain::sidecar {
namespace {

// Of this checkpoint, and not of the cluster: trying again is in vain.
bool IsOfCheckpoint(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsFailedPrecondition(status) ||
         absl::IsInvalidArgument(status) || absl::IsNotFound(status);
}

// What keeps the files of a checkpoint from being read is of the checkpoint, too: a bad block of
// the disk is there the next time.
absl::Status OfCheckpoint(const absl::Status& status) {
  return status.ok() || IsOfCheckpoint(status) ? status : absl::DataLossError(status.message());
}

}  // namespace

bool IsFinished(const checkpoint::Manifest& manifest) {
  if (!manifest.closures.empty()) return false;
  const auto state = runner::ParseRunState(manifest.job_state);
  return state.ok() && state->finished;
}

Sidecar::Sidecar(env::FileSystem* files, std::string checkpoints, SideDirectory directory,
                 Hooks hooks)
    : files_(files),
      checkpoints_(std::move(checkpoints)),
      directory_(std::move(directory)),
      hooks_(std::move(hooks)) {
  if (last()) seen_ = {last()->number, last()->identity};
}

void Sidecar::Interrupt() {
  absl::MutexLock lock(&mutex_);
  interrupted_ = true;
  if (session_ != nullptr) session_->Interrupt();
}

absl::StatusOr<std::vector<model::SeenCheckpoint>> Sidecar::FindNewer() const {
  ASSIGN_OR_RETURN(
      auto newer, model::NewerCheckpoints(files_, checkpoints_, seen_, [this](uint64_t number) {
        return IdentityOf(files_,
                          absl::StrCat(checkpoints_, "/", checkpoint::CheckpointName(number)));
      }));
  std::reverse(newer.begin(), newer.end());
  return newer;
}

absl::Status Sidecar::TakeInputs() {
  ASSIGN_OR_RETURN(const bool others, directory_.TakeInputs(checkpoints_));
  if (!others) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  session_.reset();
  return absl::OkStatus();
}

absl::StatusOr<int> Sidecar::Look() {
  const absl::Status inputs = TakeInputs();
  if (absl::IsNotFound(inputs)) return 0;  // the job has not begun
  RETURN_IF_ERROR(inputs);
  ASSIGN_OR_RETURN(const std::vector<model::SeenCheckpoint> newer, FindNewer());
  int evaluated = 0;
  for (const model::SeenCheckpoint& found : newer) {
    // It is looked at again when one of its files has come, or was put right.
    PassedOver& bad = passed_over_[found.number];
    const std::string files =
        absl::StrCat(found.identity, "\n",
                     model::FilesIdentity(absl::StrCat(checkpoints_, "/",
                                                       checkpoint::CheckpointName(found.number))));
    if (bad.files == files) continue;
    bad.files.clear();
    // A checkpoint may be of joined tables that were not there before it was.
    const absl::Status newer_inputs = TakeInputs();
    if (absl::IsNotFound(newer_inputs)) return evaluated;
    RETURN_IF_ERROR(newer_inputs);
    ASSIGN_OR_RETURN(const bool good, EvaluateOne(found));
    if (good) {
      ++evaluated;
    } else {
      passed_over_[found.number].files = files;
    }
  }
  return evaluated;
}

void Sidecar::PassOver(const model::SeenCheckpoint& found, const absl::Status& why) {
  const std::string name = checkpoint::CheckpointName(found.number);
  const std::string what = absl::StrCat(name, " is not evaluated: ", why.message());
  std::string& told = passed_over_[found.number].told;
  if (told != what) hooks_.on_note(what);
  told = what;
  const auto manifest = checkpoint::ReadManifest(files_, absl::StrCat(checkpoints_, "/", name));
  if (manifest.ok() && IsFinished(*manifest)) end_passed_over_ = absl::DataLossError(what);
}

absl::StatusOr<bool> Sidecar::EvaluateOne(const model::SeenCheckpoint& found) {
  const auto taken = directory_.Take(checkpoints_, found.number);
  if (absl::IsUnavailable(taken.status()) || IsOfCheckpoint(taken.status())) {
    PassOver(found, taken.status());
    return false;
  }
  RETURN_IF_ERROR(taken.status());
  const auto manifest = checkpoint::ReadManifest(files_, *taken);
  const auto evaluation = manifest.ok()
                              ? Measure(*taken, *manifest)
                              : absl::StatusOr<runner::Evaluation>(OfCheckpoint(manifest.status()));
  if (!evaluation.ok()) {
    RETURN_IF_ERROR(directory_.LetGo());
    const auto detail = GetDetail(evaluation.status());
    const bool by_user = detail && detail->cause == ErrorCause::kConfiguration;
    if (by_user || !IsOfCheckpoint(evaluation.status())) return evaluation.status();
    PassOver(found, evaluation.status());
    return false;
  }
  EvaluatedCheckpoint report;
  report.number = found.number;
  report.identity = IdentityOf(files_, *taken);
  report.job = manifest->job;
  report.steps = manifest->steps_done();
  report.written = absl::FormatTime(absl::RFC3339_sec, manifest->written, absl::UTCTimeZone());
  report.part = evaluation->part;
  report.examples = evaluation->examples;
  report.held_out = held_out_;
  report.metrics = evaluation->metrics;
  report.intervals = evaluation->intervals;
  report.finished = IsFinished(*manifest);
  RETURN_IF_ERROR(directory_.Report(&report));
  seen_ = {report.number, report.identity};
  passed_over_.clear();
  end_passed_over_ = absl::OkStatus();
  hooks_.on_evaluated(report, *evaluation);
  return true;
}

absl::Status Sidecar::OpenSession(const std::string& side_tables) {
  {
    absl::MutexLock lock(&mutex_);
    if (interrupted_) return absl::CancelledError("interrupted");
    if (session_ != nullptr && side_tables_ == side_tables) return absl::OkStatus();
    session_.reset();  // before another one takes its cluster
  }
  ASSIGN_OR_RETURN(Opened opened, hooks_.open(directory_.inputs(), side_tables));
  held_out_ = opened.held_out;
  directory_.set_by(opened.by);
  side_tables_ = side_tables;
  absl::MutexLock lock(&mutex_);
  session_ = std::move(opened.session);
  return interrupted_ ? absl::CancelledError("interrupted") : absl::OkStatus();
}

absl::StatusOr<runner::Evaluation> Sidecar::Measure(const std::string& taken,
                                                    const checkpoint::Manifest& manifest) {
  RETURN_IF_ERROR(model::CheckInputsFit(directory_.inputs(), manifest, taken));
  RETURN_IF_ERROR(OfCheckpoint(checkpoint::VerifyCheckpoint(files_, taken, manifest)));
  RETURN_IF_ERROR(OpenSession(model::SideTablesOf(manifest)));
  std::shared_ptr<EvaluationSession> session;
  {
    absl::MutexLock lock(&mutex_);
    session = session_;
  }
  auto evaluation = session->Evaluate(taken);
  // What is left of a cluster that lost its tasks is no use.
  if (!evaluation.ok() && !IsOfCheckpoint(evaluation.status())) {
    absl::MutexLock lock(&mutex_);
    session_.reset();
  }
  return evaluation;
}

}  // namespace coxswain::sidecar
