#include "coordinator/api/wait_reporter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/api/wait.h"
#include "coordinator/core/controller.h"
#include "runtime/base/logging.h"

namespace coxswain {
namespace {

// The controller's loop answers at once unless it is very busy; then the wait goes on without.
constexpr absl::Duration kStatsTimeout = absl::Seconds(5);

absl::string_view Advice(const WaitFacts& facts) {
  if (!facts.known) return "the coordinator is too busy to say more";
  if (!facts.waiting_for.empty()) {
    return "start what is missing again, or end the program; `coxswain status` shows who answers";
  }
  if (facts.workers_ready == 0) {
    return "start a worker of the cluster file; `coxswain status` shows who answers";
  }
  if (!facts.working.empty()) return "`coxswain status` shows what each task does";
  return "steps are running; `coxswain status` shows what each task does";
}

}  // namespace

std::string DescribeWait(absl::string_view what, absl::Duration waited, const WaitFacts& facts) {
  std::string text =
      absl::StrCat("waiting for ", what, " since ",
                   absl::FormatDuration(absl::Trunc(waited, absl::Seconds(1))), ": ");
  if (facts.known) {
    absl::StrAppend(&text, facts.workers_ready, " of ", facts.workers, " workers are there; ");
    for (const std::string* what : {&facts.waiting_for, &facts.working}) {
      if (!what->empty()) absl::StrAppend(&text, *what, "; ");
    }
  }
  absl::StrAppend(&text, Advice(facts));
  return text;
}

void WaitReporter::CancelClosure(std::shared_ptr<std::atomic<ClosureId>> number) const {
  const std::shared_ptr<ClusterState> state = state_.lock();
  if (state != nullptr) Cluster(state).controller()->CancelClosure(std::move(number));
}

void WaitReporter::Report(absl::string_view what, absl::Duration waited) const {
  WaitFacts facts;
  {
    const std::shared_ptr<ClusterState> state = state_.lock();
    if (state == nullptr) return;  // what is waited for ends with the cluster
    const Cluster cluster(state);
    const auto stats = AskForValue<core::Controller::Stats>(
        [&](auto done) { cluster.controller()->GetStats(std::move(done)); }, kStatsTimeout);
    facts.known = stats.ok();
    if (stats.ok()) {
      facts.workers_ready = stats->workers_ready;
      facts.workers = stats->workers;
      facts.waiting_for = stats->waiting_for;
      facts.working = stats->working;
    }
  }
  LogWarning(DescribeWait(what, waited, facts));
}

}  // namespace coxswain
