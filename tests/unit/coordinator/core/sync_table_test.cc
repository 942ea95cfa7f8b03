// Synchronous steps and bounded staleness at the coordinator: which closures may start where, and
// when they are over.
#include "coordinator/core/sync_table.h"

#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "coordinator/core/closure_table.h"
#include "coordinator/core/staleness_bound.h"
#include "coxswain/status.h"

namespace coxswain::core {
namespace {

using Ids = std::vector<ClosureId>;

constexpr absl::Duration kNow = absl::Seconds(1000);
constexpr PlanId kTrains = 1, kOther = 2;

struct Table : ClosureTable {
  explicit Table(int workers, int in_flight = 2, const ClosureTableOptions& with = {})
      : ClosureTable([&] {
          ClosureTableOptions options = with;
          options.in_flight = in_flight;
          return options;
        }()) {
    for (int w = 0; w < workers; ++w) AddWorker(w, {}, kNow);
  }
  Ids Step(int closures, PlanId plan = kTrains, uint64_t owner = 1, const SyncStep& kind = {}) {
    std::vector<ClosureSpec> step(static_cast<size_t>(closures));
    for (ClosureSpec& spec : step) {
      spec.sync = kind;
      spec.plan = plan;
      spec.owner = owner;
    }
    NumberStep(&step);
    Ids ids;
    for (ClosureSpec& spec : step) {
      const auto id = Schedule(std::move(spec), true);
      REQUIRE(id.ok());
      Find(*id)->done = [](auto) {};
      ids.push_back(*id);
    }
    return ids;
  }
  // What is sent now.
  Ids Send() {
    Ids sent;
    for (const auto& a : TakeAssignments(kNow)) {
      attempts[a.closure] = a.attempt;
      workers_of[a.closure] = a.worker;
      requests[a.closure] = RequestFor(a);
      Sent(a.closure, kNow);
      sent.push_back(a.closure);
    }
    return sent;
  }
  // The closures that are over when this one has done its part.
  Ids Finish(ClosureId id) {
    auto over = DoneInStep(id, attempts.at(id), {}, kNow);
    REQUIRE(over);
    Ids ids;
    for (const SyncTable::Done& done : *over) {
      ids.push_back(done.closure);
      REQUIRE(End(done.closure, absl::OkStatus()));
    }
    return ids;
  }
  std::map<ClosureId, uint32_t> attempts;
  std::map<ClosureId, int> workers_of;
  std::map<ClosureId, function::ClosureRequest> requests;
};

TEST_CASE("the closures of a step are over together, and low water does not stop within it",
          "[sync]") {
  Table t(2);
  CHECK(t.Step(3) == Ids{1, 2, 3});
  CHECK(t.Send() == Ids{1, 2, 3});
  CHECK(t.requests[2].sync.first == 1);
  CHECK(t.requests[2].sync.count == 3);
  CHECK(t.requests[2].sync.after == 0);
  CHECK(t.Finish(1).empty());
  CHECK(t.Finish(3).empty());
  CHECK(t.low_water() == 1);
  CHECK(t.open() == 3);
  CHECK(t.log().size() == 0);
  CHECK_FALSE(t.DoneInStep(1, t.attempts[1], {}, kNow));  // told again
  CHECK(t.Finish(2) == Ids{1, 2, 3});
  CHECK(t.low_water() == 4);
  CHECK(t.log().size() == 3);
  CHECK(t.empty());
}

TEST_CASE("the next two steps are with the workers before the present one is over, no later one is",
          "[sync]") {
  Table t(2, 6);
  for (int step = 0; step < 4; ++step) t.Step(2);
  CHECK(t.Send() == Ids{1, 2, 3, 4, 5, 6});
  CHECK(t.requests[3].sync.after == 1);
  CHECK(t.requests[5].sync.after == 3);
  CHECK(t.Send().empty());
  t.Finish(1);
  CHECK(t.Send().empty());
  t.Finish(2);
  CHECK(t.Send() == Ids{7, 8});
  CHECK(t.requests[8].sync.after == 5);
}

TEST_CASE("of steps with backups only the next one is with the workers", "[sync]") {
  const SyncStep kind{.backup = 1};
  Table t(3, 6);
  for (int step = 0; step < 3; ++step) t.Step(3, kTrains, 1, kind);
  CHECK(t.Send() == Ids{1, 2, 3, 4, 5, 6});
}

TEST_CASE("a step of another function begins when the one before is over", "[sync]") {
  Table t(1, 4);
  t.Step(1);
  for (int step = 0; step < 4; ++step) t.Step(1, kOther);
  CHECK(t.Send() == Ids{1});
  t.Finish(1);
  CHECK(t.Send() == Ids{2, 3, 4});
  CHECK(t.requests[2].sync.after == 0);  // the parameter servers need not know of the other one
  CHECK(t.requests[3].sync.after == 2);
}

TEST_CASE("a closure of the present step finds room where closures of the next one wait",
          "[sync]") {
  Table t(2, 1);
  t.Step(2);
  t.Step(2);
  REQUIRE(t.Send() == Ids{1, 2});
  const int first = t.workers_of[1], second = t.workers_of[2];
  t.Finish(1);
  REQUIRE(t.Send() == Ids{3});
  REQUIRE(t.workers_of[3] == first);
  t.RemoveWorker(second, false, kNow);
  // Its only worker has no room, but for closures that wait for this one.
  CHECK(t.Send() == Ids{2});
  CHECK(t.workers_of[2] == first);
  CHECK(t.Send().empty());  // the fourth is of the next step: it must wait for room
  CHECK(t.Finish(2) == Ids{1, 2});
}

TEST_CASE("a closure that took too long finds room beside those that wait for it, too", "[sync]") {
  Table t(2, 1);
  t.Step(2);
  t.Step(2);
  REQUIRE(t.Send() == Ids{1, 2});
  t.Finish(1);
  REQUIRE(t.Send() == Ids{3});
  CHECK(t.TookTooLong(2).fate == ClosureTable::Late::kRunsAgain);
  CHECK(t.Send() == Ids{2, 4});
  CHECK(t.workers_of[2] == t.workers_of[3]);
  CHECK(t.workers_of[2] != t.workers_of[4]);
}

TEST_CASE("closures that wait leave the worker on which a suspect one is tried", "[sync]") {
  ClosureTableOptions options;
  options.quarantine.after = 3;
  options.quarantine.calm = options.quarantine.patience = options.quarantine.window =
      absl::ZeroDuration();
  Table t(1, 4, options);
  t.Step(2);
  t.Step(2);
  absl::Duration now = kNow;
  // The worker dies again and again; then its closures are tried one by one.
  for (int loss = 0; loss < 2; ++loss) {
    t.Send();
    t.RemoveWorker(0, true, now);
    now += absl::Seconds(100);
    t.AddWorker(0, {}, now);
  }
  Ids over;
  for (int turn = 0; turn < 20 && over.size() < 4; ++turn) {
    now += absl::Seconds(100);
    for (const auto& a : t.TakeAssignments(now)) {
      t.attempts[a.closure] = a.attempt;
      t.requests[a.closure] = t.RequestFor(a);
      t.Sent(a.closure, now);
    }
    for (const auto& [id, attempt] : std::map(t.attempts)) {
      const ClosureId after = t.requests[id].sync.after;
      if (!t.IsCurrent(id, attempt) || (after != 0 && t.steps_open().IsOpen(after))) continue;
      for (const ClosureId done : t.Finish(id)) over.push_back(done);
    }
  }
  CHECK(over == Ids{1, 2, 3, 4});
}

TEST_CASE("time in which a closure waits for the step before does not count", "[sync]") {
  ClosureTableOptions options;
  options.deadlines.fixed = absl::Seconds(10);
  Table t(1, 4, options);
  t.Step(1);
  t.Step(1);
  REQUIRE(t.Send() == Ids{1, 2});
  t.Tick(kNow, true);
  absl::Duration now = kNow;
  for (int i = 0; i < 40; ++i) t.Tick(now += absl::Milliseconds(500), true);
  const auto late = t.FindOverdue(now);
  REQUIRE(late.size() == 1);
  CHECK(late[0].closure == 1);
  auto over = t.DoneInStep(1, t.attempts[1], {}, now);
  REQUIRE(over);
  t.End(1, absl::OkStatus());
  CHECK(t.FindOverdue(now).empty());  // its time begins now
  for (int i = 0; i < 40; ++i) t.Tick(now += absl::Milliseconds(500), true);
  REQUIRE(t.FindOverdue(now).size() == 1);
  CHECK(t.FindOverdue(now)[0].closure == 2);
}

TEST_CASE("a step is cancelled as a whole, or not at all", "[sync]") {
  Table t(1, 1);
  t.Step(2);
  t.Step(2);
  REQUIRE(t.Send() == Ids{1});
  CHECK(t.CancelQueued(1) == Ids{3, 4});  // not the second: its step has begun
  CHECK(t.CancelRunning(1).empty());
  for (const ClosureId id : {3, 4}) {
    t.End(static_cast<ClosureId>(id), absl::CancelledError(""));
  }
  t.Finish(1);
  CHECK(t.Send() == Ids{2});
  t.Step(1);
  CHECK(t.Finish(2) == Ids{1, 2});
  CHECK(t.Send() == Ids{5});
  CHECK(t.requests[5].sync.after == 0);
}

// Cancels the step of this closure, of which none has begun.
void CancelStep(Table* t, ClosureId id, const Ids& whole) {
  const auto cancelled = t->Cancel(id);
  CHECK(cancelled.over == whole);
  CHECK_FALSE(cancelled.worker);
  for (const ClosureId over : cancelled.over) t->End(over, absl::CancelledError(""));
}

TEST_CASE("a step waits for the one before the last where the last one was cancelled", "[sync]") {
  Table t(2, 1);
  for (int step = 0; step < 3; ++step) t.Step(2);
  REQUIRE(t.Send() == Ids{1, 2});
  CancelStep(&t, 3, {3, 4});
  CHECK(t.Finish(1).empty());  // so the first step is applied nowhere yet
  CHECK(t.Send() == Ids{5});
  CHECK(t.requests[5].sync.after == 1);
  t.Finish(2);
  CHECK(t.Send() == Ids{6});
  CHECK(t.requests[6].sync.after == 0);
}

TEST_CASE("time in which a closure waits for a step before a cancelled one does not count",
          "[sync]") {
  ClosureTableOptions options;
  options.deadlines.fixed = absl::Seconds(10);
  Table t(1, 1, options);
  for (int step = 0; step < 3; ++step) t.Step(step == 0 ? 2 : 1);
  REQUIRE(t.Send() == Ids{1});
  CancelStep(&t, 3, {3});
  t.AddWorker(1, {}, kNow);
  REQUIRE(t.Send() == Ids{2});
  t.Finish(1);
  REQUIRE(t.Send() == Ids{4});
  t.Tick(kNow, true);
  absl::Duration now = kNow;
  for (int i = 0; i < 40; ++i) t.Tick(now += absl::Milliseconds(500), true);
  const auto late = t.FindOverdue(now);
  REQUIRE(late.size() == 1);
  CHECK(late[0].closure == 2);
}

TEST_CASE("what is scheduled after a cancellation waits for the step that is under way", "[sync]") {
  Table t(2, 1);
  t.Step(2);
  t.Step(2);
  REQUIRE(t.Send() == Ids{1, 2});
  for (const ClosureId id : t.CancelQueued(1)) t.End(id, absl::CancelledError(""));
  CHECK(t.Step(2) == Ids{5, 6});
  t.Finish(2);
  CHECK(t.Send() == Ids{5});
  CHECK(t.requests[5].sync.after == 1);
}

TEST_CASE("a step that a later one waits for cannot be cancelled", "[sync]") {
  SyncTable steps;
  for (const ClosureId first : {1, 2, 3}) steps.Add({.first = first, .count = 1});
  steps.Add({.first = 4, .count = 1, .free = true});
  steps.Begin(1);
  CHECK_FALSE(steps.HasBegun(2));
  steps.Begin(3);  // the second is suspected, and to be tried alone
  CHECK(steps.HasBegun(2));
  CHECK_FALSE(steps.HasBegun(4));
  steps.Begin(4);
  CHECK(steps.HasBegun(4));
  CHECK(steps.NewestOpen(4) == 3);  // free ones are waited for by none
  steps.Remove(3);
  CHECK(steps.NewestOpen(3) == 2);
  CHECK(steps.NewestOpen(0) == 0);
  steps.BeginAnew();
  CHECK_FALSE(steps.HasBegun(2));
}

TEST_CASE("after all shards went back, what was done of a step is done again", "[sync]") {
  Table t(1, 4);
  t.Step(2);
  REQUIRE(t.Send() == Ids{1, 2});
  t.Finish(1);
  t.Finish(2);
  t.Step(2);
  REQUIRE(t.Send() == Ids{3, 4});
  CHECK(t.Finish(3).empty());
  t.RemoveWorker(0, false, kNow);
  t.ForgetOverdueAttempts();
  t.BeginAnew(true);
  t.RunAgain(1, 3);
  t.AddWorker(0, {}, kNow);
  // The second step was scheduled when the first one was over, and so it is again.
  CHECK(t.Send() == Ids{1, 2});
  CHECK(t.requests[1].sync.after == 0);
  CHECK(t.Finish(2).empty());
  CHECK(t.Finish(1) == Ids{1, 2});
  CHECK(t.Send() == Ids{3, 4});
  CHECK(t.Finish(4).empty());
  CHECK(t.Finish(3) == Ids{3, 4});
}

TEST_CASE("while a checkpoint is due, steps that have begun end and none begins", "[sync]") {
  Table t(1, 1);
  t.Step(2);
  t.Step(2);
  REQUIRE(t.Send() == Ids{1});
  t.StopSteps();
  t.Finish(1);
  CHECK(t.Send() == Ids{2});
  CHECK_FALSE(t.steps_open().none_begun());
  t.Finish(2);
  CHECK(t.steps_open().none_begun());
  CHECK(t.Send().empty());
  t.ResumeSteps();
  CHECK(t.Send() == Ids{3});
}

TEST_CASE("while a checkpoint is due, a closure that was late before all went back does not begin",
          "[sync]") {
  Table t(2, 1);
  t.Step(1);
  REQUIRE(t.Send() == Ids{1});
  REQUIRE(t.TookTooLong(1).fate == ClosureTable::Late::kRunsAgain);
  for (const int worker : {0, 1}) t.RemoveWorker(worker, false, kNow);
  t.ForgetOverdueAttempts();
  t.BeginAnew(true);
  t.StopSteps();
  REQUIRE(t.steps_open().none_begun());
  for (const int worker : {0, 1}) t.AddWorker(worker, {}, kNow);
  CHECK(t.Send().empty());
  t.ResumeSteps();
  CHECK(t.Send() == Ids{1});
}

TEST_CASE(
    "while a checkpoint is due, a suspected closure of a step that has not begun is not tried",
    "[sync]") {
  ClosureTableOptions options;
  options.quarantine.after = 3;
  options.quarantine.calm = options.quarantine.patience = options.quarantine.window =
      absl::ZeroDuration();
  Table t(1, 4, options);
  t.Step(1);
  absl::Duration now = kNow;
  for (int loss = 0; loss < 2; ++loss) {
    t.Send();
    t.RemoveWorker(0, true, now);
    now += absl::Seconds(100);
    t.AddWorker(0, {}, now);
  }
  REQUIRE(t.TakeAssignments(now).size() <= 1);  // it is suspected by now, and set aside
  t.RemoveWorker(0, false, now);
  t.BeginAnew(true);
  t.AddWorker(0, {}, now);
  t.StopSteps();
  REQUIRE(t.steps_open().none_begun());
  now += absl::Seconds(100);
  CHECK(t.TakeAssignments(now).empty());
  CHECK(t.TakeAssignments(now).empty());
  t.ResumeSteps();
  CHECK(t.TakeAssignments(now).size() == 1);
}

TEST_CASE("a checkpoint knows the steps that it lacks, and a resumed job makes the same ones",
          "[sync]") {
  Table t(1, 1);
  t.Step(2);
  t.Step(3);
  checkpoint::Manifest manifest;
  manifest.low_water = t.low_water();
  REQUIRE(t.Describe([](PlanId) { return std::string("f"); }, &manifest).ok());
  REQUIRE(manifest.closures.size() == 5);
  CHECK(manifest.closures[3].sync.first == 3);
  CHECK(manifest.closures[3].sync.count == 3);
  Table resumed(1, 8);
  resumed.Resume(manifest);
  for (const checkpoint::CheckpointClosure& closure : manifest.closures) {
    ClosureSpec spec;
    spec.plan = kTrains;
    spec.resumed = closure.id;
    spec.sync = closure.sync;
    const auto id = resumed.Schedule(std::move(spec), true);
    REQUIRE(id.ok());
    resumed.Find(*id)->done = [](auto) {};
  }
  CHECK(resumed.Step(1) == Ids{6});
  CHECK(resumed.Step(1) == Ids{7});
  CHECK(resumed.Send() == Ids{1, 2, 3, 4, 5, 6});
  CHECK(resumed.requests[4].sync.after == 1);
  CHECK(resumed.requests[4].sync.count == 3);
  resumed.Finish(2);
  CHECK(resumed.Finish(1) == Ids{1, 2});
  CHECK(resumed.Send() == Ids{7});
  CHECK(resumed.requests[6].sync.after == 3);
}

TEST_CASE("no closure starts while the oldest is more steps behind than it may be", "[bounded]") {
  StalenessBound bound;
  CHECK(bound.MayStart(7));
  bound.Add(1, 0, 2);
  bound.Add(2, 1, 2);
  bound.Add(4, 2, 2);  // 3 changes nothing
  bound.Add(5, 3, 2);
  CHECK(bound.MayStart(1));
  CHECK(bound.MayStart(3));
  CHECK(bound.MayStart(4));
  CHECK_FALSE(bound.MayStart(5));
  bound.Remove(2);
  CHECK_FALSE(bound.MayStart(5));  // the oldest is what counts
  bound.Remove(1);
  CHECK(bound.MayStart(5));
}

TEST_CASE(
    "closures wait for the oldest by their bound, and those that only read do not count, and wait "
    "only behind others",
    "[bounded]") {
  Table t(2, 4);
  const auto schedule = [&](bool updates, uint32_t steps) {
    ClosureSpec spec;
    spec.plan = kTrains;
    spec.steps = steps;
    spec.max_staleness = 3;
    return t.Schedule(std::move(spec), updates).value();
  };
  CHECK(schedule(true, 1) == 1);
  CHECK(schedule(true, 3) == 2);   // 1 step ahead
  CHECK(schedule(true, 1) == 3);   // 4 steps
  CHECK(schedule(false, 1) == 4);  // reads
  CHECK(t.Send() == Ids{1, 2});
  REQUIRE(t.Done(2, t.attempts[2], 3, kNow));
  CHECK(t.Send().empty());
  REQUIRE(t.Done(1, t.attempts[1], 1, kNow));
  CHECK(t.Send() == Ids{3, 4});
}

constexpr SyncStep kOneBackup{.backup = 1}, kFree{.free = true};

// The step that takes closures, with those of the others that are over.
ClosureTable::Choice MustChoose(Table* t) {
  auto choice = t->ChooseInStep();
  REQUIRE(choice);
  for (const ClosureId id : choice->surplus) {
    const absl::Status surplus =
        WithDetail(absl::CancelledError("not wanted"), {ErrorCause::kSurplus, true, "", 0});
    REQUIRE(t->End(id, surplus));
  }
  return *choice;
}

TEST_CASE("a step with backups takes those that are done first, and the others are over",
          "[sync][backup]") {
  Table t(3, 1);
  CHECK(t.Step(3, kTrains, 1, kOneBackup) == Ids{1, 2, 3});
  CHECK(t.Send() == Ids{1, 2, 3});
  CHECK(t.requests[1].sync.count == 2);
  CHECK(t.requests[1].sync.backup == 1);
  CHECK(t.Finish(3).empty());
  CHECK_FALSE(t.ChooseInStep());
  CHECK(t.Finish(1).empty());  // all have to hear first which ones they are
  const auto choice = MustChoose(&t);
  CHECK(choice.chosen == Ids{1, 3});
  CHECK(choice.surplus == Ids{2});
  CHECK(choice.to_cancel == std::map<int, Ids>{{t.workers_of[2], {2}}});
  CHECK_FALSE(t.ChooseInStep());
  CHECK_FALSE(t.DoneInStep(2, t.attempts[2], {}, kNow));  // it is over, whatever is told of it
  CHECK(t.low_water() == 1);
  const auto over = t.StepApplied(1, kNow);
  REQUIRE(over.size() == 2);
  CHECK(over[0].closure == 1);
  CHECK(over[1].closure == 3);
  CHECK(t.low_water() == 4);
  CHECK(t.StepApplied(1, kNow).empty());
}

TEST_CASE("of more closures that are done than a step takes it takes the first ones",
          "[sync][backup]") {
  Table t(3, 1);
  t.Step(3, kTrains, 1, kOneBackup);
  t.Send();
  for (const ClosureId id : {3, 2, 1}) CHECK(t.Finish(id).empty());  // while nothing can be told
  const auto choice = MustChoose(&t);
  CHECK(choice.chosen == Ids{1, 2});
  CHECK(choice.surplus == Ids{3});
  CHECK(choice.to_cancel.empty());
  CHECK(t.StepApplied(1, kNow).size() == 2);
  CHECK(t.low_water() == 4);
}

TEST_CASE("shards that go back before a choice is applied leave a step of what was chosen",
          "[sync][backup]") {
  Table t(3, 1);
  t.Step(3, kTrains, 1, kOneBackup);
  t.Send();
  t.Finish(2);
  t.Finish(3);
  CHECK(MustChoose(&t).surplus == Ids{1});
  t.BeginAnew(/*in_order=*/true);
  CHECK(t.StepApplied(1, kNow).empty());  // an answer from before
  CHECK(t.Send() == Ids{2, 3});
  t.Finish(2);
  CHECK_FALSE(t.ChooseInStep());
  t.Finish(3);
  CHECK(MustChoose(&t).chosen == Ids{2, 3});
  CHECK(t.StepApplied(1, kNow).size() == 2);
}

TEST_CASE("a checkpoint's step with backups starts when all of its closures are scheduled again",
          "[sync][backup]") {
  Table t(1, 8);
  t.Step(3, kTrains, 1, kOneBackup);
  t.Step(3, kTrains, 1, kOneBackup);
  checkpoint::Manifest manifest;
  manifest.low_water = t.low_water();
  REQUIRE(t.Describe([](PlanId) { return std::string("f"); }, &manifest).ok());
  REQUIRE(manifest.closures.size() == 6);
  Table resumed(1, 8);
  resumed.Resume(manifest);
  const auto schedule = [&](size_t i) {
    ClosureSpec spec;
    spec.plan = kTrains;
    spec.resumed = manifest.closures[i].id;
    spec.sync = manifest.closures[i].sync;
    const auto id = resumed.Schedule(std::move(spec), true);
    REQUIRE(id.ok());
    resumed.Find(*id)->done = [](auto) {};
  };
  schedule(0);
  schedule(1);
  // These two are as many as the step takes: it would be over without the third.
  CHECK(resumed.Send().empty());
  schedule(2);
  CHECK(resumed.Send() == Ids{1, 2, 3});
  schedule(3);
  CHECK(resumed.Send().empty());
  schedule(4);
  schedule(5);
  CHECK(resumed.Send() == Ids{4, 5, 6});
}

TEST_CASE("free steps begin without one another, and each is over as a whole", "[sync][free]") {
  Table t(2, 3);
  CHECK(t.Step(2, kTrains, 1, kFree) == Ids{1, 2});
  CHECK(t.Step(2, kTrains, 1, kFree) == Ids{3, 4});
  CHECK(t.Step(2, kTrains, 1, kFree) == Ids{5, 6});
  CHECK(t.Send() == Ids{1, 2, 3, 4, 5, 6});
  for (const auto& [id, request] : t.requests) CHECK(request.sync.after == 0);
  CHECK(t.Finish(5).empty());
  CHECK(t.Finish(6) == Ids{5, 6});
  CHECK(t.Finish(1).empty());
  CHECK(t.Finish(2) == Ids{1, 2});
  CHECK(t.low_water() == 3);
  CHECK_FALSE(t.steps_open().used());  // a checkpoint need not wait for any
  CHECK(t.steps_open().any());
}

TEST_CASE("all of a free step may start where its first closure may, and no later step",
          "[sync][free]") {
  ClosureTableOptions options;
  options.window = 2;
  Table t(1, 8, options);
  t.Step(3, kTrains, 1, kFree);
  t.Step(3, kTrains, 1, kFree);
  CHECK(t.Send() == Ids{1, 2, 3});
  for (const ClosureId id : {1, 2, 3}) t.Finish(id);
  CHECK(t.Send() == Ids{4, 5, 6});
}

}  // namespace
}  // namespace coxswain::core
