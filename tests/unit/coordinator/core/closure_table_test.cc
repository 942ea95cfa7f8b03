#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/core/closure_table.h"

namespace coxswain::core {
namespace {

using Ids = std::vector<ClosureId>;

constexpr absl::Duration kNow = absl::Seconds(1000);
constexpr PlanId kAdds = 1, kReads = 2;

ClosureSpec Spec(PlanId plan, Ticket ticket = {}, uint32_t steps = 1, uint64_t owner = 1) {
  ClosureSpec spec;
  spec.plan = plan;
  spec.ticket = ticket;
  spec.dataset = ticket.size() > 0 ? 1 : 0;
  spec.steps = steps;
  spec.owner = owner;
  return spec;
}

Ticket Examples(int64_t begin, int64_t end) { return {Part::kTraining, 0, begin, end}; }

// A table with one worker, and callers that only count.
struct Table : ClosureTable {
  explicit Table(const ClosureTableOptions& options = {}) : ClosureTable(options) {
    AddWorker(0, {}, kNow);
  }
  ClosureId Run(ClosureSpec spec) {
    const bool updates = spec.plan == kAdds;
    const auto id = Schedule(std::move(spec), updates);
    REQUIRE(id.ok());
    Find(*id)->done = [this](auto) { ++told; };
    return *id;
  }
  // Sends what can be sent; the attempts by closure.
  std::map<ClosureId, uint32_t> Send() {
    std::map<ClosureId, uint32_t> attempts;
    for (const auto& a : TakeAssignments(kNow)) {
      attempts[a.closure] = a.attempt;
      Sent(a.closure, kNow);
    }
    return attempts;
  }
  // Ends well.
  void Finish(ClosureId id, uint32_t attempt) {
    REQUIRE(Done(id, attempt, 1, kNow));
    REQUIRE(End(id, absl::OkStatus()));
  }
  checkpoint::Manifest Described(ClosureId low_water) const {
    checkpoint::Manifest manifest;
    manifest.low_water = low_water;
    const absl::Status status = Describe([](PlanId) { return std::string("f"); }, &manifest);
    INFO(status.ToString());
    REQUIRE(status.ok());
    return manifest;
  }
  int told = 0;
};

TEST_CASE("a closure with updates goes to the log when it ends well, others do not",
          "[closure_table]") {
  Table t;
  const ClosureId adds = t.Run(Spec(kAdds)), reads = t.Run(Spec(kReads));
  auto attempts = t.Send();
  t.Finish(adds, attempts[adds]);
  t.Finish(reads, attempts[reads]);
  CHECK(t.log().size() == 1);
  CHECK(t.steps() == 1);
  CHECK(t.empty());
  CHECK(t.low_water() == 3);
  const ClosureId fails = t.Run(Spec(kAdds));
  attempts = t.Send();
  CHECK(t.Failed(fails, attempts[fails]));
  CHECK(t.End(fails, absl::InternalError("broken")));
  CHECK_FALSE(t.End(fails, absl::InternalError("broken")));
  CHECK(t.log().size() == 1);
}

TEST_CASE("what runs again is taken from the log, keeps its number and is told to nobody",
          "[closure_table]") {
  ClosureTableOptions options;
  options.in_flight = 4;
  Table t(options);
  for (int i = 0; i < 3; ++i) t.Run(Spec(kAdds));
  for (const auto& [id, attempt] : t.Send()) t.Finish(id, attempt);
  CHECK(t.low_water() == 4);
  t.RemoveWorker(0, false, kNow);
  t.RunAgain(2, 4);
  CHECK(t.low_water() == 2);
  CHECK(t.rerun_open() == 2);
  CHECK(t.log().size() == 1);
  t.AddWorker(0, {}, kNow);
  for (int turn = 0; turn < 2; ++turn) {
    for (const auto& [id, attempt] : t.Send()) {
      CHECK(t.Find(id)->done == nullptr);
      CHECK(attempt > 1);
      t.Finish(id, attempt);
    }
  }
  CHECK(t.rerun_open() == 0);
  CHECK(t.log().size() == 3);
  CHECK(t.steps() == 3);  // each once
  CHECK(t.stats().rerun == 2);
}

TEST_CASE("a checkpoint names closures that are open, and those of the log from its mark on",
          "[closure_table]") {
  Table t;
  for (int i = 0; i < 4; ++i) t.Run(Spec(kAdds, Examples(10 * i, 10 * i + 10)));
  t.Run(Spec(kReads));
  auto attempts = t.Send();
  t.Finish(1, attempts[1]);
  t.Finish(2, attempts[2]);
  const checkpoint::Manifest manifest = t.Described(2);
  Ids named;
  for (const auto& closure : manifest.closures) named.push_back(closure.id);
  CHECK(named == Ids{2, 3, 4});
  CHECK(manifest.steps == 4);
  CHECK(manifest.next_closure == 6);
  REQUIRE(manifest.data.size() == 1);
  CHECK(manifest.data[0].scheduled.ranges() ==
        std::vector<data::ScheduledExamples::Range>{{0, 0, 40}});
}

TEST_CASE("of a cancelled closure only the steps count that were applied", "[closure_table]") {
  Table t;
  const ClosureId id = t.Run(Spec(kAdds, Examples(0, 40), /*steps=*/4));
  const auto attempts = t.Send();
  t.Progress(id, attempts.at(id), 3, kNow);
  CHECK(t.CancelRunning(1) == std::map<int, Ids>{{0, {id}}});
  CHECK(t.Failed(id, attempts.at(id)));
  CHECK(t.End(id, absl::CancelledError("")));
  const checkpoint::Manifest manifest = t.Described(2);
  REQUIRE(manifest.data.size() == 1);
  CHECK(manifest.data[0].scheduled.ranges() ==
        std::vector<data::ScheduledExamples::Range>{{0, 0, 30}});
}

TEST_CASE("only the owner's closures are cancelled, one that comes back from a lost worker too",
          "[closure_table]") {
  ClosureTableOptions options;
  options.in_flight = 1;
  Table t(options);
  const ClosureId runs = t.Run(Spec(kAdds)), queued = t.Run(Spec(kAdds));
  const ClosureId others = t.Run(Spec(kAdds, {}, 1, /*owner=*/2));
  t.Send();
  CHECK(t.CancelQueued(1) == Ids{queued});
  t.CancelRunning(1);
  CHECK(t.TakeCancelled().empty());
  CHECK(t.RemoveWorker(0, false, kNow) == 1);
  CHECK(t.TakeCancelled() == Ids{runs});
  CHECK(t.Find(others) != nullptr);
}

TEST_CASE("a closure that takes too long runs again, and is given up in the end",
          "[closure_table]") {
  ClosureTableOptions options;
  options.deadlines.fixed = absl::Seconds(2);
  options.most_timeouts = 2;
  Table t(options);
  t.Tick(kNow, true);
  const ClosureId id = t.Run(Spec(kAdds));
  t.Send();
  CHECK(t.FindOverdue(kNow + absl::Seconds(1)).empty());
  const auto overdue = t.FindOverdue(kNow + absl::Seconds(3));
  REQUIRE(overdue.size() == 1);
  CHECK(overdue[0].closure == id);
  CHECK(t.TookTooLong(id).fate == ClosureTable::Late::kRunsAgain);
  CHECK(t.Send().at(id) == 2);
  // The first attempt may still end well; then it counts.
  const auto late = t.TookTooLong(id);
  CHECK(late.fate == ClosureTable::Late::kGivenUp);
  CHECK(late.times == 2);
  CHECK(t.End(id, absl::DeadlineExceededError("")));
  CHECK(t.empty());
}

TEST_CASE("a plan is used until its last closure is neither open nor logged", "[closure_table]") {
  Table t;
  const ClosureId reads = t.Run(Spec(kReads)), adds = t.Run(Spec(kAdds));
  auto attempts = t.Send();
  CHECK(t.Uses(kReads));
  CHECK(t.TakeUnused().empty());
  t.Finish(reads, attempts[reads]);
  CHECK_FALSE(t.Uses(kReads));
  CHECK(t.TakeUnused() == std::vector<PlanId>{kReads});
  t.Finish(adds, attempts[adds]);
  CHECK(t.Uses(kAdds));
  CHECK(t.TakeUnused().empty());
  t.RemoveWorker(0, false, kNow);
  t.RunAgain(1, 3);
  CHECK(t.Uses(kAdds));
  t.AddWorker(0, {}, kNow);
  attempts = t.Send();
  t.Finish(adds, attempts[adds]);
  CHECK(t.TakeUnused().empty());
  t.Trim(3);  // a checkpoint has it
  CHECK_FALSE(t.Uses(kAdds));
  CHECK(t.TakeUnused() == std::vector<PlanId>{kAdds});
  CHECK(t.TakeUnused().empty());
}

TEST_CASE("all that wait are told when all is cancelled, in order", "[closure_table]") {
  Table t;
  for (int i = 0; i < 3; ++i) t.Run(Spec(kAdds));
  t.Send();
  const auto waiting = t.CancelAll();
  CHECK(waiting.size() == 3);
  CHECK(t.empty());
  CHECK_FALSE(t.Uses(kAdds));
  CHECK(t.open() == 0);
}

TEST_CASE("the steps of closures that failed are not among those of a checkpoint",
          "[closure_table]") {
  Table t;
  for (int i = 0; i < 3; ++i) t.Run(Spec(kAdds, {}, /*steps=*/4));
  auto attempts = t.Send();
  REQUIRE(attempts.size() == 2);
  REQUIRE(t.Done(1, attempts[1], 4, kNow));
  REQUIRE(t.End(1, absl::OkStatus()));
  t.Progress(2, attempts[2], 1, kNow);  // one of four
  REQUIRE(t.Failed(2, attempts[2]));
  REQUIRE(t.End(2, absl::InternalError("broken")));
  const checkpoint::Manifest manifest = t.Described(3);
  CHECK(manifest.steps == 9);  // 4 + 1, and 4 of the one that is open
  CHECK(manifest.steps_done() == 5);
  CHECK(manifest.position == 12);
  // What closures draw depends on the position, which goes on after a resume.
  Table resumed;
  resumed.Resume(manifest);
  CHECK(resumed.steps() == 5);
  ClosureSpec open = Spec(kAdds, {}, 4);
  open.resumed = 3;
  resumed.Run(open);
  CHECK(resumed.Described(3).steps == 9);
  const ClosureId next = t.Run(Spec(kAdds)), same = resumed.Run(Spec(kAdds));
  CHECK(t.Find(next)->spec.seed == resumed.Find(same)->spec.seed);
}

TEST_CASE("closures of the checkpoint come before any other, under their numbers",
          "[closure_table]") {
  checkpoint::Manifest manifest;
  manifest.low_water = 5;
  manifest.next_closure = 9;
  manifest.steps = 20;
  checkpoint::CheckpointClosure pending;
  pending.id = 6;
  pending.steps = 1;
  manifest.closures.push_back(pending);
  Table t;
  t.Resume(manifest);
  CHECK(t.steps() == 19);
  CHECK(absl::IsFailedPrecondition(t.Schedule(Spec(kAdds), true).status()));
  ClosureSpec resumed = Spec(kAdds);
  resumed.resumed = 7;
  CHECK(absl::IsInvalidArgument(t.Schedule(resumed, true).status()));
  resumed.resumed = 6;
  CHECK(t.Run(resumed) == 6);
  CHECK(t.Run(Spec(kAdds)) == 9);
}

// A resumed program schedules them one after the other, and a checkpoint may be due at any time:
// what is in no checkpoint runs never again once the program is killed once more.
TEST_CASE("a checkpoint has the closures of the one before that are not scheduled again yet",
          "[closure_table]") {
  checkpoint::Manifest before;
  before.low_water = 5;
  before.next_closure = 9;
  before.steps = 20;
  for (const ClosureId id : {5, 6, 8}) {
    checkpoint::CheckpointClosure pending;
    pending.id = id;
    pending.function = "f";
    pending.steps = 2;
    pending.seed = 100 + id.number();
    pending.after = 4;
    before.closures.push_back(pending);
  }
  Table t;
  t.Resume(before);
  ClosureSpec resumed = Spec(kAdds, {}, 2);
  resumed.resumed = 6;
  resumed.seed = 106;
  t.Run(resumed);
  const checkpoint::Manifest manifest = t.Described(5);
  REQUIRE(manifest.closures.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(manifest.closures[i].id == before.closures[i].id);
    CHECK(manifest.closures[i].seed == before.closures[i].seed);
    CHECK(manifest.closures[i].steps == 2);
    CHECK(manifest.closures[i].after == 4);
  }
  CHECK(manifest.steps == 20);
  CHECK(manifest.next_closure == 9);
}

TEST_CASE("what a closure with updates draws depends on its place among these alone",
          "[closure_table]") {
  const auto seed_of = [](Table* t, PlanId plan) {
    ClosureSpec spec = Spec(plan);
    spec.seed = 7;
    return t->Find(t->Run(spec))->spec.seed;
  };
  Table quiet, read;
  const uint64_t first = seed_of(&quiet, kAdds), second = seed_of(&quiet, kAdds);
  CHECK(first != second);
  CHECK(seed_of(&read, kAdds) == first);
  const uint64_t one = seed_of(&read, kReads), other = seed_of(&read, kReads);
  CHECK(std::set<uint64_t>{first, second, one, other}.size() == 4);
  CHECK(seed_of(&read, kAdds) == second);

  // And so after a resumption.
  Table resumed;
  checkpoint::Manifest manifest = read.Described(1);
  manifest.low_water = 1;
  resumed.Resume(manifest);
  for (const checkpoint::CheckpointClosure& pending : manifest.closures) {
    ClosureSpec spec = Spec(kAdds);
    spec.resumed = pending.id;
    spec.seed = pending.seed;
    const uint64_t seed = resumed.Find(resumed.Run(spec))->spec.seed;
    CHECK(seed == (pending.id == 1 ? first : second));
  }
  CHECK(manifest.closures.size() == 2);
  CHECK(seed_of(&resumed, kAdds) == seed_of(&quiet, kAdds));
}

TEST_CASE("a closure that ends early has changed nothing only if it was not begun") {
  Table table;
  const ClosureId adds = table.Run(Spec(kAdds, {}, 3)), reads = table.Run(Spec(kReads));
  const auto effect = [&](ClosureId id) { return ClosureTable::EffectOf(*table.Find(id)); };
  CHECK(effect(adds) == Effect::kNothing);
  table.Find(adds)->spec.resumed = 7;  // shards may have it from the session before
  CHECK(effect(adds) == Effect::kUnknown);
  table.Find(adds)->spec.resumed = 0;
  table.Send();
  CHECK(effect(adds) == Effect::kUnknown);
  CHECK(effect(reads) == Effect::kNothing);
}

TEST_CASE("a closure is cancelled where it waits, or its worker is to be asked") {
  ClosureTableOptions options;
  options.in_flight = 1;
  Table table(options);
  const ClosureId runs = table.Run(Spec(kAdds)), waits = table.Run(Spec(kAdds));
  table.Send();
  CHECK(table.Cancel(waits).over == Ids{waits});
  REQUIRE(table.End(waits, absl::CancelledError("")));
  CHECK(table.Cancel(waits).over.empty());
  const ClosureTable::Cancellation asked = table.Cancel(runs);
  CHECK(asked.over.empty());
  CHECK(asked.worker == 0);
  // It comes back to the queue when its worker is lost, and ends there.
  table.RemoveWorker(0, /*blame=*/false, kNow);
  CHECK(table.TakeCancelled() == Ids{runs});
}

TEST_CASE("of a synchronous step all closures are cancelled, or none") {
  ClosureTableOptions options;
  options.in_flight = 1;
  Table table(options);
  const auto step = [&] {
    std::vector<ClosureSpec> specs(2, Spec(kAdds));
    table.NumberStep(&specs);
    Ids ids;
    for (ClosureSpec& spec : specs) ids.push_back(table.Run(std::move(spec)));
    return ids;
  };
  const Ids begun = step(), waits = step();
  table.Send();  // one of the first step
  for (const ClosureId id : begun) {
    CHECK(table.Cancel(id).over.empty());
    CHECK_FALSE(table.Cancel(id).worker);
  }
  CHECK(table.Cancel(waits[1]).over == waits);
}

TEST_CASE("closures expire in the order of their deadlines, once more when they are still there") {
  Table table;
  ClosureSpec late = Spec(kAdds), soon = Spec(kAdds);
  late.deadline = kNow + absl::Seconds(10);
  soon.deadline = kNow + absl::Seconds(5);
  CHECK(table.next_expiry() == absl::InfiniteDuration());
  const ClosureId first = table.Run(late), second = table.Run(soon);
  table.Run(Spec(kAdds));  // patient
  CHECK(table.next_expiry() == soon.deadline);
  CHECK(table.TakeExpired(kNow).empty());
  CHECK(table.TakeExpired(soon.deadline) == Ids{second});
  CHECK(table.TakeExpired(soon.deadline).empty());
  CHECK(table.next_expiry() == soon.deadline + ClosureTable::kExpiryGrace);
  CHECK(table.TakeExpired(soon.deadline + ClosureTable::kExpiryGrace) == Ids{second});
  CHECK(table.next_expiry() == late.deadline);
  REQUIRE(table.End(first, absl::OkStatus()));
  CHECK(table.next_expiry() == absl::InfiniteDuration());
}

TEST_CASE("a closure whose deadline is before all time expires once") {
  Table table;
  ClosureSpec never = Spec(kAdds);
  never.deadline = -absl::InfiniteDuration();
  const ClosureId id = table.Run(never);
  CHECK(table.TakeExpired(kNow) == Ids{id});
  CHECK(table.TakeExpired(kNow).empty());
  CHECK(table.next_expiry() == absl::InfiniteDuration());
}

}  // namespace
}  // namespace coxswain::core
