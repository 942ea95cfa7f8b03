// The program of a workload of tickets (Workload::TicketSteps): which of them wait, are scheduled,
// and are done.
#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/status.h"
#include "tests/sim/job.h"

namespace coxswain::sim {
namespace {

constexpr char kDone[] = "{\"done\":[";

int64_t TicketOf(const core::ClosureSpec& spec) { return spec.arguments[0].data<int64_t>()[0]; }

}  // namespace

// Of the tickets that are done; what is not is in the checkpoint's closures, or is scheduled anew.
std::string CoordinatorProcess::TicketState() const {
  return absl::StrCat(kDone, absl::StrJoin(tickets_.done, ","), "]}");
}

void CoordinatorProcess::ReadTickets() {
  absl::string_view state = manifest_.job_state;
  if (resumed_ && absl::ConsumePrefix(&state, kDone) && absl::ConsumeSuffix(&state, "]}")) {
    for (const absl::string_view text : absl::StrSplit(state, ',', absl::SkipEmpty())) {
      int64_t ticket = 0;
      if (absl::SimpleAtoi(text, &ticket)) tickets_.done.insert(ticket);
    }
  }
  for (int64_t t = 0; t < job_->workload_->closures(); ++t) {
    if (tickets_.done.count(t) == 0) tickets_.waiting.push_back(t);
  }
}

core::Controller::ResultFn CoordinatorProcess::TicketTeller(const core::ClosureSpec& spec) {
  const ClosureId id = spec.resumed != 0 ? spec.resumed : static_cast<ClosureId>(++next_);
  open_.insert(id);
  return Guard([this, id, ticket = TicketOf(spec)](const absl::StatusOr<std::vector<Tensor>>& r) {
    OnTicketDone(id, ticket, r.status());
  });
}

// What is over since the shards were cut runs again.
void CoordinatorProcess::ScheduleResumedTicket(core::ClosureSpec spec) {
  const int64_t ticket = TicketOf(spec);
  tickets_.done.erase(ticket);
  std::erase(tickets_.waiting, ticket);
  auto done = TicketTeller(spec);
  controller_->Schedule(std::move(spec), std::move(done));
}

void CoordinatorProcess::ScheduleTickets() {
  if (!all_resumed_) return;
  const SyncStep kind = *job_->workload_->TicketSteps();
  while (open_.size() < static_cast<size_t>(job_->options_.window) && !tickets_.waiting.empty()) {
    // One that is short comes last: when nothing may come back any more.
    if (tickets_.waiting.size() < kind.count && kind.backup > 0 && !open_.empty()) break;
    const size_t most = kind.closures();
    std::vector<core::ClosureSpec> step;
    std::vector<core::Controller::ResultFn> done;
    while (step.size() < most && !tickets_.waiting.empty()) {
      step.push_back(job_->workload_->Closure(tickets_.waiting.front()));
      tickets_.waiting.pop_front();
      done.push_back(TicketTeller(step.back()));
    }
    SyncStep of = kind;
    of.backup = static_cast<uint32_t>(step.size() - std::min<size_t>(step.size(), kind.count));
    controller_->ScheduleStep(std::move(step), of, std::move(done));
  }
  if (!open_.empty() || !tickets_.waiting.empty()) return;
  trained_ = true;
  place_.world->Note(kNoteJob, 4, 0,
                     [&] { return absl::StrCat(place_.life->name, " has trained"); });
}

void CoordinatorProcess::OnTicketDone(ClosureId id, int64_t ticket, const absl::Status& status) {
  if (open_.erase(id) == 0) {
    place_.world->Violation(absl::StrCat("closure ", id, " is reported twice"));
    return;
  }
  const auto detail = GetDetail(status);
  if (detail && detail->cause == ErrorCause::kSurplus) {
    ++job_->totals.surplus;
    tickets_.waiting.push_back(ticket);
  } else if (!status.ok()) {
    Exit(absl::StrCat("closure ", id), status);
    return;
  } else if (!tickets_.done.insert(ticket).second) {
    place_.world->Violation(absl::StrCat("ticket ", ticket, " is used twice"));
    return;
  }
  ScheduleTickets();
}

}  // namespace coxswain::sim
