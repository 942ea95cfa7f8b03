// The session's start and its text; points of training; evaluations; writing.
#include "coordinator/cli/summaries.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "runtime/base/status.h"
#include "runtime/env/file_system.h"

namespace coxswain::cli {
namespace {

constexpr absl::Duration kPointEvery = absl::Seconds(1);
constexpr double kLeastSeconds = 0.2;  // for a number of examples per second, after the first one
constexpr int kSessionStart = 1;       // tensorflow.SessionLog.START
constexpr int kText = 7;               // tensorflow.DT_STRING

// All versions of TensorBoard take a plain number, which newer ones turn into a tensor by
// themselves.
void AddValue(const std::string& tag, double value, proto::TfEvent* event) {
  proto::TfSummary::Value* const added = event->mutable_summary()->add_value();
  added->set_tag(tag);
  added->set_simple_value(static_cast<float>(value));
}

bool SameEvaluation(const runner::Evaluation& a, const runner::Evaluation& b) {
  return a.part == b.part && a.steps == b.steps && a.metrics == b.metrics;
}

}  // namespace

absl::Status Summaries::Begin(const std::string& directory, int64_t step) {
  RETURN_IF_ERROR(env::NewRealFileSystem()->MakeDirs(directory));
  ASSIGN_OR_RETURN(EventFile file, EventFile::Create(directory, now_()));
  absl::MutexLock lock(&mu_);
  file_ = std::move(file);
  last_step_ = step;
  Write(Start(step));
  return absl::OkStatus();
}

void Summaries::GoOn(const runner::TrainingMeter::Reading& trained,
                     const std::vector<runner::Evaluation>& evaluations) {
  absl::MutexLock lock(&mu_);
  since_ = {trained.examples, trained.seconds};
  proto::TfEvent event = NewEvent(trained.steps);
  AddValue("train/loss", trained.recent_loss, &event);
  Write(std::move(event));
  // The state of a job is later than its shards: it may know evaluations of later steps.
  for (const runner::Evaluation& evaluation : evaluations) {
    if (evaluation.steps >= trained.steps) {
      WriteEvaluation(evaluation);
    } else {
      evaluated_steps_ = evaluation.steps;
    }
  }
}

// As Markdown, in which TensorBoard shows a text, a line that is indented is code.
void Summaries::AddText(const std::string& tag, const std::string& text) {
  absl::MutexLock lock(&mu_);
  proto::TfEvent event = NewEvent(last_step_);
  proto::TfSummary::Value* const value = event.mutable_summary()->add_value();
  value->set_tag(tag);
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value->mutable_tensor()->set_dtype(kText);
  value->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  value->mutable_tensor()->add_string_val(
      absl::StrCat("    ", absl::StrReplaceAll(text, {{"\n", "\n    "}})));
  Write(std::move(event));
}

void Summaries::ShowRates(std::vector<NamedRate> rates) {
  absl::MutexLock lock(&mu_);
  rates_ = std::move(rates);
}

void Summaries::AddProgress(const runner::Progress& progress) {
  absl::MutexLock lock(&mu_);
  if (!file_) return;
  if (progress.phase != runner::Progress::Phase::kTraining) return WriteProgress();
  if (progress.steps > last_step_) waiting_ = progress;
  if (progress.trained || now_() - last_point_ >= kPointEvery) WriteProgress();
}

void Summaries::AddCounters(const runner::RunCounters& counters, int workers) {
  absl::MutexLock lock(&mu_);
  counters_ = Counters{counters, workers};
}

void Summaries::WriteProgress() {
  if (!waiting_) return;
  const runner::Progress p = *std::exchange(waiting_, std::nullopt);
  proto::TfEvent event = NewEvent(p.steps);
  AddValue("train/loss", p.loss, &event);
  const double seconds = p.seconds - since_.seconds;
  if (seconds >= kLeastSeconds || (seconds > 0 && last_point_ == absl::InfinitePast())) {
    AddValue("train/examples_per_second",
             static_cast<double>(p.examples - since_.examples) / seconds, &event);
    since_ = {p.examples, p.seconds};
  }
  for (const NamedRate& rate : rates_) {
    AddValue(absl::StrCat("learning_rate/", rate.name), rate.After(p.updates) * p.rate_factor,
             &event);
  }
  if (counters_) {
    const FailureStats& failures = counters_->run.failures;
    AddValue("cluster/workers", counters_->workers, &event);
    AddValue("cluster/workers_lost", static_cast<double>(failures.workers_lost), &event);
    AddValue("cluster/parameter_servers_lost", static_cast<double>(failures.ps_lost), &event);
    AddValue("cluster/closures_retried", static_cast<double>(counters_->run.retried), &event);
    AddValue("cluster/closures_rerun", static_cast<double>(failures.closures_rerun), &event);
  }
  last_point_ = now_();
  Write(std::move(event));
}

void Summaries::AddEvaluation(const runner::Evaluation& evaluation) {
  absl::MutexLock lock(&mu_);
  WriteProgress();
  WriteEvaluation(evaluation);
}

void Summaries::WriteEvaluation(const runner::Evaluation& evaluation) {
  if (evaluated_ && SameEvaluation(*evaluated_, evaluation)) return;
  if (evaluation.steps > evaluated_steps_) {
    proto::TfEvent event = NewEvent(evaluation.steps);
    AddValue("train/mean_loss", evaluation.loss, &event);
    Write(std::move(event));
  }
  WriteMetrics(evaluation.part, evaluation.steps, evaluation.metrics);
  evaluated_steps_ = evaluation.steps;
  evaluated_ = evaluation;
}

void Summaries::AddMetrics(const std::string& part, int64_t steps,
                           const std::map<std::string, double>& metrics) {
  absl::MutexLock lock(&mu_);
  WriteMetrics(part, steps, metrics);
}

void Summaries::WriteMetrics(const std::string& part, int64_t steps,
                             const std::map<std::string, double>& metrics) {
  proto::TfEvent event = NewEvent(steps);
  for (const auto& [name, value] : metrics) {
    if (!std::isnan(value)) AddValue(absl::StrCat(part, "/", name), value, &event);
  }
  if (event.summary().value_size() > 0) Write(std::move(event));
}

void Summaries::Finish() {
  absl::MutexLock lock(&mu_);
  WriteProgress();
  file_.reset();
}

proto::TfEvent Summaries::NewEvent(int64_t step) const {
  proto::TfEvent event;
  event.set_wall_time(absl::ToDoubleSeconds(now_() - absl::UnixEpoch()));
  event.set_step(step);
  return event;
}

proto::TfEvent Summaries::Start(int64_t step) const {
  proto::TfEvent event = NewEvent(step);
  event.mutable_session_log()->set_status(kSessionStart);
  return event;
}

void Summaries::Write(proto::TfEvent event) {
  if (!file_) return;
  std::vector<proto::TfEvent> events;
  if (event.has_summary() && event.step() < last_step_) events.push_back(Start(event.step()));
  if (event.has_summary()) last_step_ = event.step();
  events.push_back(std::move(event));
  const absl::Status written = file_->Append(events);
  if (written.ok()) return;
  file_.reset();
  warn_(absl::StrCat("warning: no more summaries for TensorBoard: ", written.message()));
}

}  // namespace coxswain::cli
