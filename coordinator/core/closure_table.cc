// In the order of a closure's life: scheduling, end, cancellation; workers; sending, reports,
// deadlines; then lost shards and checkpoints.
#include "coordinator/core/closure_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coxswain/status.h"
#include "runtime/base/stable_hash.h"

namespace coxswain::core {

ClosureTable::ClosureTable(const ClosureTableOptions& options)
    : most_timeouts_(options.most_timeouts),
      dispatcher_(std::max(1, options.in_flight), options.quarantine, options.window),
      deadlines_(options.deadlines),
      log_(options.max_log_closures, options.max_log_bytes) {}

void ClosureTable::Resume(const checkpoint::Manifest& manifest) {
  std::vector<ClosureId> pending;
  steps_scheduled_ = std::max(manifest.position, manifest.steps);
  steps_left_out_ = steps_scheduled_ - manifest.steps;
  for (const checkpoint::CheckpointClosure& closure : manifest.closures) {
    pending.push_back(closure.id);
    resumed_.emplace(closure.id, closure);
    steps_scheduled_ -= closure.steps;
  }
  steps_ = steps_scheduled_ - steps_left_out_;
  for (const checkpoint::DatasetProgress& data : manifest.data) progress_[data.dataset] = data;
  dispatcher_.Restore(manifest.low_water, manifest.next_closure, pending);
  log_.Trim(manifest.low_water);
}

uint64_t ClosureTable::OwnSeed(uint64_t seed, ClosureId id, bool updates) const {
  return updates ? SeedOfUpdates(seed, steps_scheduled_) : Mix64(Mix64(seed) + 2 * id.number() + 1);
}

absl::StatusOr<ClosureId> ClosureTable::Schedule(ClosureSpec spec, bool updates) {
  Closure closure;
  ClosureId id = spec.resumed;
  closure.after = dispatcher_.low_water();
  if (id != 0) {
    if (!dispatcher_.ScheduleRestored(id, spec.group)) {
      return absl::InvalidArgumentError(
          absl::StrCat("closure ", id, " is none that the checkpoint wants to run again"));
    }
    closure.after = resumed_.extract(id).mapped().after;
    dispatcher_.SetAfter(id, closure.after);
  } else if (dispatcher_.restored_left() > 0) {
    // Otherwise shards may lack these closures for ever, and no closure after them would ever be
    // dropped.
    return absl::FailedPreconditionError(absl::StrCat(
        dispatcher_.restored_left(), " closures of the checkpoint that was resumed from must be ",
        "scheduled before any other; CheckpointManager::RunPending does that"));
  } else {
    id = dispatcher_.Schedule(spec.group);
    // Its program has seen the results of all closures that run again, and may depend on them.
    if (const ClosureId end = dispatcher_.runs_again_end(); end > closure.after) {
      closure.after = end;
      dispatcher_.SetAfter(id, end);
    }
  }
  if (spec.resumed == 0) spec.seed = OwnSeed(spec.seed, id, updates);
  if (!updates) spec.sync = {};
  if (spec.sync.free) {
    spec.sync.after = 0;
  } else if (spec.resumed != 0 && spec.sync && spec.sync.first != last_step_.first) {
    Follow(spec.plan, &spec.sync);
  } else if (spec.sync) {
    spec.sync.after = last_step_.after;
  }
  if (spec.sync && !spec.sync.free) {
    closure.after = std::max(closure.after, last_step_start_);
    dispatcher_.SetAfter(id, closure.after);
  }
  if (updates) {
    // A free step is one update.
    const bool begun =
        spec.sync.free && std::exchange(last_free_, spec.sync.first) == spec.sync.first;
    spec.position = begun ? position_ - 1 : position_;
    if (!begun) position_ += spec.steps;
    steps_scheduled_ += spec.steps;
    // The checkpoint that it comes from has counted its examples, as the next one will while it is
    // open.
    if (spec.resumed != 0 && spec.dataset != 0) {
      progress_[spec.dataset].scheduled.Remove(spec.ticket);
    }
  }
  closure.updates = updates;
  closure.spec = std::move(spec);
  if (closure.spec.deadline != absl::InfiniteDuration()) {
    expiring_.insert({closure.spec.deadline, id});
  }
  Opened(closure.spec.plan);
  Enter(id, closure);
  closures_.emplace(id, std::move(closure));
  return id;
}

void ClosureTable::NumberStep(std::vector<ClosureSpec>* step) {
  SyncStep sync = step->front().sync;
  sync.first = dispatcher_.next_id();
  sync.count = static_cast<uint32_t>(step->size()) - sync.backup;
  if (!sync.free) Follow(step->front().plan, &sync);
  for (ClosureSpec& spec : *step) spec.sync = sync;
}

void ClosureTable::Follow(PlanId plan, SyncStep* step) {
  // The last one may not have been scheduled after all.
  const bool known = last_step_plan_ == plan && last_step_.first < step->first;
  step->after = known ? last_step_.first : ClosureId(0);
  // It may run ahead of two steps; where the last one is of another function, of none, for the
  // parameter servers do not know of both. A step with backups runs ahead of one: what it may do
  // without would only wait in front of what is needed.
  const bool two = known && last_step_.after != 0 && step->backup == 0;
  last_step_start_ = two ? last_step_.after : known ? last_step_.first : step->first;
  last_step_ = *step;
  last_step_plan_ = plan;
}

void ClosureTable::Enter(ClosureId id, const Closure& closure) {
  const ClosureSpec& spec = closure.spec;
  if (spec.sync) {
    sync_.Add(spec.sync);
    dispatcher_.gate().SetStep(id, spec.sync);
  }
  if (closure.updates && spec.max_staleness) {
    dispatcher_.gate().Bound(id, spec.position, *spec.max_staleness);
  }
}

ClosureTable::Closure* ClosureTable::Find(ClosureId id) {
  const auto it = closures_.find(id);
  return it == closures_.end() ? nullptr : &it->second;
}

std::string ClosureTable::Describe(ClosureId id) const {
  const auto it = closures_.find(id);
  return it == closures_.end() ? absl::StrCat("closure ", id)
                               : DescribeClosure(id, it->second.spec);
}

std::optional<ClosureTable::Closure> ClosureTable::End(ClosureId id, const absl::Status& status) {
  const auto it = closures_.find(id);
  if (it == closures_.end()) return std::nullopt;
  Closure closure = std::move(it->second);
  closures_.erase(it);
  const PlanId plan = closure.spec.plan;
  const auto detail = GetDetail(status);
  const bool surplus = detail && detail->cause == ErrorCause::kSurplus;
  if (closure.spec.sync && !status.ok() && !surplus) sync_.Remove(closure.spec.sync.first);
  if (!expiring_.empty()) {
    expiring_.erase({closure.spec.deadline, id});
    expiring_.erase({closure.spec.deadline + kExpiryGrace, id});
  }
  if (closure.done) {
    const bool expired = closure.expired && absl::IsDeadlineExceeded(status);
    CountExamples(closure, expired || absl::IsCancelled(status));
  } else {
    --rerun_open_;
  }
  if (status.ok() && closure.updates) {
    if (closure.done) steps_ += closure.spec.steps;
    log_.Add(id, {std::move(closure.spec), closure.after});
  }
  // Of a surplus one, the examples are scheduled again, as another closure.
  if (!status.ok() && closure.updates) {
    steps_left_out_ += closure.spec.steps - (surplus ? 0 : closure.first_step);
  }
  Closed(plan);
  return closure;
}

// The remaining examples of a cancelled closure count as unused. A step that was begun on another
// worker before may be applied in part; it counts as unused too, as the program is told.
void ClosureTable::CountExamples(const Closure& closure, bool cancelled) {
  const ClosureSpec& spec = closure.spec;
  if (spec.dataset == 0 || !closure.updates) return;
  Ticket used = spec.ticket;
  if (cancelled) {
    used.end = used.begin + used.size() * closure.first_step / std::max<uint32_t>(1, spec.steps);
  }
  progress_[spec.dataset].scheduled.Add(used);
}

void ClosureTable::Closed(PlanId plan) {
  const auto it = open_by_plan_.find(plan);
  if (--it->second > 0) return;
  open_by_plan_.erase(it);
  unused_.push_back(plan);
}

std::vector<PlanId> ClosureTable::TakeUnused() {
  std::vector<PlanId> unused = std::exchange(unused_, {});
  for (const PlanId plan : log_.TakeGone()) unused.push_back(plan);
  unused.erase(std::remove_if(unused.begin(), unused.end(), [this](PlanId p) { return Uses(p); }),
               unused.end());
  return unused;
}

std::vector<ClosureTable::ResultFn> ClosureTable::CancelAll() {
  dispatcher_.CancelAll();
  sync_.Clear();
  rerun_open_ = 0;
  expiring_.clear();
  auto closures = std::exchange(closures_, {});
  std::vector<ClosureId> ids;
  for (const auto& [id, closure] : closures) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  std::vector<ResultFn> waiting;
  for (ClosureId id : ids) {
    Closure& closure = closures[id];
    Closed(closure.spec.plan);
    if (closure.done) waiting.push_back(std::move(closure.done));
  }
  return waiting;
}

// A step is logged as a whole or not at all, and ends as a whole: also one of a checkpoint, of
// which some closures are still to be scheduled again.
bool ClosureTable::MayEndEarly(const SyncStep& step) const {
  for (ClosureId id = step.first; id < step.end(); ++id) {
    if (dispatcher_.IsRunning(id)) return false;  // since before shards went back, for instance
  }
  return !sync_.HasBegun(step.first) && !dispatcher_.AwaitsRestored(step.first, step.end());
}

std::vector<ClosureId> ClosureTable::CancelQueued(uint64_t owner) {
  return dispatcher_.CancelQueued([&](ClosureId id) {
    const Closure* closure = Find(id);
    if (closure == nullptr || closure->spec.owner != owner) return false;
    return !closure->spec.sync || MayEndEarly(closure->spec.sync);
  });
}

std::map<int, std::vector<ClosureId>> ClosureTable::CancelRunning(uint64_t owner) {
  std::map<int, std::vector<ClosureId>> by_worker;
  for (const auto& [id, worker] : dispatcher_.Running()) {
    Closure* closure = Find(id);
    if (closure == nullptr || closure->spec.owner != owner || dispatcher_.runs_again(id)) continue;
    if (closure->spec.sync) continue;
    by_worker[worker].push_back(id);
    closure->cancelled = true;
  }
  return by_worker;
}

ClosureTable::Cancellation ClosureTable::Cancel(ClosureId id) {
  Cancellation cancellation;
  Closure* const closure = Find(id);
  if (closure == nullptr || dispatcher_.runs_again(id)) return cancellation;
  const SyncStep step = closure->spec.sync;
  if (step && !MayEndEarly(step)) return cancellation;
  const ClosureId begin = step ? step.first : id, end = step ? step.end() : ClosureId(id + 1);
  for (ClosureId one = begin; one < end; ++one) {
    if (dispatcher_.CancelQueued(one)) cancellation.over.push_back(one);
  }
  if (const std::optional<int> worker = dispatcher_.WorkerOf(id)) {
    cancellation.worker = worker;
    closure->cancelled = true;
  }
  return cancellation;
}

Effect ClosureTable::EffectOf(const Closure& closure) {
  const bool begun = closure.attempts > 0 || closure.spec.resumed != 0;
  return closure.updates && begun ? Effect::kUnknown : Effect::kNothing;
}

std::vector<ClosureId> ClosureTable::TakeExpired(absl::Duration now) {
  std::vector<ClosureId> expired;
  while (!expiring_.empty() && expiring_.begin()->first <= now) {
    const auto [when, id] = *expiring_.begin();
    expiring_.erase(expiring_.begin());
    const absl::Duration deadline = closures_.at(id).spec.deadline;
    // What adds nothing would be looked at for ever.
    const absl::Duration again = deadline + kExpiryGrace;
    if (when == deadline && again > when) expiring_.insert({again, id});
    expired.push_back(id);
  }
  return expired;
}

std::vector<ClosureId> ClosureTable::TakeCancelled() {
  return dispatcher_.CancelQueued([&](ClosureId id) {
    const Closure* closure = Find(id);
    return closure != nullptr && closure->cancelled;
  });
}

void ClosureTable::AddWorker(int worker, const std::vector<ClosureId>& broken, absl::Duration now) {
  dispatcher_.AddWorker(worker);
  if (!broken.empty()) dispatcher_.Blame(broken, now);
}

int ClosureTable::RemoveWorker(int worker, bool blame, absl::Duration now) {
  return dispatcher_.RemoveWorker(worker, blame, now);
}

std::vector<ClosureId> ClosureTable::WayLost(int worker, const absl::Status& status) {
  std::vector<ClosureId> closures;
  for (const auto& [id, runs_on] : dispatcher_.Running()) {
    if (runs_on != worker) continue;
    closures.push_back(id);
    closures_.at(id).way_lost = status;
  }
  return closures;
}

std::vector<Dispatcher::Assignment> ClosureTable::TakeAssignments(absl::Duration now) {
  auto assignments = dispatcher_.TakeAssignments(now);
  for (const auto& a : assignments) {
    Closure& closure = closures_.at(a.closure);
    closure.worker = a.worker;
    ++closure.attempts;
    if (closure.spec.sync) sync_.Begin(closure.spec.sync.first);
  }
  return assignments;
}

function::ClosureRequest ClosureTable::RequestFor(const Dispatcher::Assignment& assignment) const {
  const Closure& closure = closures_.at(assignment.closure);
  const ClosureSpec& spec = closure.spec;
  function::ClosureRequest request;
  request.closure = assignment.closure;
  request.plan = spec.plan;
  request.attempt = assignment.attempt;
  request.seed = spec.seed;
  request.dataset = spec.dataset;
  request.ticket = spec.ticket;
  if (const auto ahead = closures_.find(assignment.ahead);
      ahead != closures_.end() && ahead->second.spec.dataset == spec.dataset) {
    request.ahead = ahead->second.spec.ticket;
  }
  request.steps = spec.steps;
  request.first_step = closure.first_step;
  request.sync = spec.sync;
  request.sync.after = Awaits(closure);
  request.arguments = spec.arguments;
  return request;
}

void ClosureTable::Sent(ClosureId id, absl::Duration now) {
  closures_.at(id).begun = deadlines_.Clock(now);
}

std::vector<ClosureId> ClosureTable::TakeQuarantined(absl::Duration now) {
  return dispatcher_.TakeQuarantined(now);
}

void ClosureTable::Measure(Closure* closure, uint32_t steps_done, bool overdue,
                           absl::Duration now) {
  const absl::Duration clock = deadlines_.Clock(now);
  const uint32_t steps = steps_done > closure->first_step ? steps_done - closure->first_step : 1;
  const absl::Duration begun =
      overdue ? closure->overdue_begun.value_or(closure->begun) : closure->begun;
  deadlines_.Measure(closure->spec.plan, (clock - begun) / steps);
  closure->begun = clock;
}

void ClosureTable::Progress(ClosureId id, uint32_t attempt, uint32_t steps_done,
                            absl::Duration now) {
  if (steps_done == 0 || !dispatcher_.IsCurrent(id, attempt)) return;
  Closure& closure = closures_.at(id);
  Measure(&closure, steps_done, /*overdue=*/false, now);
  closure.first_step = std::min(steps_done, closure.spec.steps - 1);
}

bool ClosureTable::Done(ClosureId id, uint32_t attempt, uint32_t steps_done, absl::Duration now) {
  const bool overdue = !dispatcher_.IsCurrent(id, attempt);
  if (!dispatcher_.Complete(id, attempt, true)) return false;
  if (overdue) Measure(&closures_.at(id), steps_done, overdue, now);
  return true;
}

std::optional<std::vector<SyncTable::Done>> ClosureTable::DoneInStep(ClosureId id, uint32_t attempt,
                                                                     std::vector<Tensor> results,
                                                                     absl::Duration now) {
  if (!dispatcher_.Settle(id, attempt)) return std::nullopt;
  auto over = sync_.Finish(closures_.at(id).spec.sync, id, std::move(results));
  if (!over.empty()) EndStep(over, now);
  return over;
}

void ClosureTable::EndStep(const std::vector<SyncTable::Done>& over, absl::Duration now) {
  const bool free = closures_.at(over[0].closure).spec.sync.free;
  for (const SyncTable::Done& done : over) dispatcher_.Conclude(done.closure);
  if (free) return;
  // Those that waited for this step begin now.
  for (const auto& [running, worker] : dispatcher_.Running()) {
    Closure& closure = closures_.at(running);
    if (closure.spec.sync) closure.begun = deadlines_.Clock(now);
  }
}

std::optional<ClosureTable::Choice> ClosureTable::ChooseInStep() {
  std::optional<SyncTable::Choice> chosen = sync_.Choose();
  if (!chosen) return std::nullopt;
  Choice choice{chosen->step, std::move(chosen->chosen), {}, {}};
  std::map<ClosureId, int> running;
  for (const auto& [id, worker] : dispatcher_.Running()) running[id] = worker;
  for (ClosureId id = choice.step.first; id < choice.step.end(); ++id) {
    const bool taken = std::binary_search(choice.chosen.begin(), choice.chosen.end(), id);
    if (taken || !closures_.contains(id)) continue;
    choice.surplus.push_back(id);
    if (const auto it = running.find(id); it != running.end()) {
      choice.to_cancel[it->second].push_back(id);
    }
    dispatcher_.Drop(id);
  }
  return choice;
}

std::vector<SyncTable::Done> ClosureTable::StepApplied(ClosureId first, absl::Duration now) {
  std::vector<SyncTable::Done> over = sync_.Conclude(first);
  if (!over.empty()) EndStep(over, now);
  return over;
}

void ClosureTable::StopSteps() {
  dispatcher_.gate().StopStepsAt(std::max(dispatcher_.low_water(), sync_.begun_end()));
}

void ClosureTable::ResumeSteps() { dispatcher_.ResumeSteps(); }

std::vector<ClosureTable::Overdue> ClosureTable::FindOverdue(absl::Duration now) const {
  std::vector<Overdue> overdue;
  for (const auto& [id, worker] : dispatcher_.Running()) {
    const Closure& closure = closures_.at(id);
    if (IsParked(closure)) continue;
    const absl::Duration allowed = deadlines_.Allowed(closure.spec.plan, dispatcher_.overdue(id));
    if (deadlines_.Clock(now) - closure.begun > allowed) overdue.push_back({id, worker, allowed});
  }
  return overdue;
}

ClosureTable::Lateness ClosureTable::TookTooLong(ClosureId id) {
  Closure& closure = closures_.at(id);
  if (!closure.overdue_begun) closure.overdue_begun = closure.begun;
  const int times = dispatcher_.overdue(id) + 1;
  if (closure.cancelled || times >= most_timeouts_) {
    dispatcher_.GiveUp(id);
    return {closure.cancelled ? Late::kCancelled : Late::kGivenUp, times};
  }
  dispatcher_.Overdue(id);
  return {Late::kRunsAgain, times};
}

std::optional<ClosureId> ClosureTable::held_back_by() const {
  if (!dispatcher_.held_back()) return std::nullopt;
  return dispatcher_.low_water();
}

void ClosureTable::BeginAnew(bool in_order) {
  for (const ClosureId id : sync_.BeginAnew()) dispatcher_.Unsettle(id);
  for (auto& [id, closure] : closures_) {
    closure.first_step = 0;
    if (in_order && closure.after > 0) dispatcher_.SetAfter(id, closure.after);
  }
}

void ClosureTable::RunAgain(ClosureId first, ClosureId end) {
  std::vector<Dispatcher::Rerun> again;
  for (auto& [id, entry] : log_.Take(first, end)) {
    again.push_back({id, entry.after});
    Closure closure;
    closure.spec = std::move(entry.spec);
    closure.updates = true;
    closure.after = entry.after;
    const PlanId plan = closure.spec.plan;
    Enter(id, closure);
    if (!closures_.emplace(id, std::move(closure)).second) continue;
    ++rerun_open_;
    Opened(plan);
  }
  dispatcher_.RunAgain(again);
}

void ClosureTable::BeginCountingLost(std::vector<LostUpdates::Shard> shards, ClosureId first,
                                     LostUpdates::KeysOf keys_of) {
  lost_updates_.Begin(std::move(shards), first, std::move(keys_of));
}

std::optional<int64_t> ClosureTable::CountLost(int64_t most) {
  if (!lost_updates_.Count(log_, most)) return std::nullopt;
  const int64_t lost = lost_updates_.lost();
  lost_updates_.Commit(log_);
  return lost;
}

void ClosureTable::Trim(ClosureId first) {
  log_.Trim(first);
  lost_updates_.Trim(first);
}

// A program that was resumed schedules them one after the other. Until then no shard has them.
void ClosureTable::AddResumed(checkpoint::Manifest* manifest) const {
  if (resumed_.empty()) return;
  for (const auto& [id, closure] : resumed_) {
    manifest->closures.push_back(closure);
    manifest->steps += closure.steps;
    manifest->position += closure.steps;
  }
  std::sort(manifest->closures.begin(), manifest->closures.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
}

// The closures that some shard may lack.
absl::Status ClosureTable::Describe(const std::function<std::string(PlanId)>& name_of,
                                    checkpoint::Manifest* manifest) const {
  if (!log_.Covers(manifest->low_water)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("closures that it would have to run again, from ", manifest->low_water,
                     " on, are more than the log keeps"));
  }
  manifest->next_closure = dispatcher_.next_id();
  manifest->steps = steps_scheduled_ - steps_left_out_;
  manifest->position = steps_scheduled_;
  std::map<DatasetId, checkpoint::DatasetProgress> all_data = progress_;
  std::map<ClosureId, std::pair<const ClosureSpec*, ClosureId>> closures;
  for (const auto& [id, closure] : closures_) {
    if (!closure.updates) continue;
    const ClosureSpec& spec = closure.spec;
    if (spec.dataset != 0) all_data[spec.dataset].scheduled.Add(spec.ticket);
    closures[id] = {&spec, closure.after};
  }
  const auto& logged = log_.entries();
  for (auto it = logged.lower_bound(manifest->low_water); it != logged.end(); ++it) {
    closures[it->first] = {&it->second.spec, it->second.after};
  }
  for (auto& [id, data] : all_data) {
    data.dataset = id;
    manifest->data.push_back(std::move(data));
  }
  for (const auto& [id, closure] : closures) {
    const ClosureSpec& spec = *closure.first;
    checkpoint::CheckpointClosure c;
    c.id = id;
    c.function = name_of(spec.plan);
    c.has_ticket = spec.dataset != 0;
    c.ticket = spec.ticket;
    c.steps = spec.steps;
    c.seed = spec.seed;
    c.after = closure.second;
    c.sync = spec.sync;
    c.sync.after = 0;
    c.arguments = spec.arguments;
    manifest->closures.push_back(std::move(c));
  }
  AddResumed(manifest);
  return absl::OkStatus();
}

}  // namespace coxswain::core
