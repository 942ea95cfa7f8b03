#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "coordinator/core/dispatcher.h"

namespace coxswain::core {
namespace {

using Assignments = std::vector<Dispatcher::Assignment>;

std::vector<ClosureId> Closures(const Assignments& assignments) {
  std::vector<ClosureId> ids;
  for (const auto& a : assignments) ids.push_back(a.closure);
  return ids;
}

using Ids = std::vector<ClosureId>;

// Where time does not matter.
constexpr absl::Duration kNow = absl::Seconds(1000);

const auto kAll = [](ClosureId) { return true; };

TEST_CASE("closures are numbered from 1 and start in the order of their numbers", "[dispatcher]") {
  Dispatcher d(2);
  for (ClosureId want = 1; want <= 5; ++want) CHECK(d.Schedule() == want);
  CHECK(d.TakeAssignments(kNow).empty());  // nobody to run them
  CHECK(d.queued() == 5);
  d.AddWorker(0);
  CHECK(Closures(d.TakeAssignments(kNow)) == Ids{1, 2});
  CHECK(d.load(0) == 2);
  CHECK(d.load(1) == -1);
  CHECK(d.running() == 2);
  CHECK(d.TakeAssignments(kNow).empty());  // full
  CHECK(d.Complete(2, 1, true));
  CHECK(Closures(d.TakeAssignments(kNow)) == Ids{3});
}

TEST_CASE("the emptiest worker gets the next closure", "[dispatcher]") {
  Dispatcher d(3);
  for (int w : {4, 7}) d.AddWorker(w);
  d.AddWorker(7);  // known already
  CHECK(d.workers() == 2);
  for (int i = 0; i < 4; ++i) d.Schedule();
  std::map<int, int> given;
  for (const auto& a : d.TakeAssignments(kNow)) ++given[a.worker];
  CHECK(given == std::map<int, int>{{4, 2}, {7, 2}});
  d.AddWorker(9);
  d.Schedule();
  const Assignments next = d.TakeAssignments(kNow);
  REQUIRE(next.size() == 1);
  CHECK(next[0].worker == 9);
}

TEST_CASE("a lost worker's closures go to the head of the queue, oldest first", "[dispatcher]") {
  Dispatcher d(3);
  d.AddWorker(0);
  for (int i = 0; i < 5; ++i) d.Schedule();
  REQUIRE(Closures(d.TakeAssignments(kNow)) == Ids{1, 2, 3});
  CHECK(d.Complete(2, 1, true));
  CHECK(d.RemoveWorker(0, true, kNow) == 2);
  CHECK(d.RemoveWorker(0, true, kNow) == 0);
  CHECK(d.RemoveWorker(77, true, kNow) == 0);
  CHECK(d.queued() == 4);
  CHECK(d.running() == 0);
  d.AddWorker(1);
  const Assignments again = d.TakeAssignments(kNow);
  CHECK(Closures(again) == Ids{1, 3, 4});
  CHECK(again[0].attempt == 2);
  CHECK(again[1].attempt == 2);
  CHECK(again[2].attempt == 1);
  CHECK(d.stats().retried == 2);
}

TEST_CASE("an attempt that was given up cannot complete a closure", "[dispatcher]") {
  Dispatcher d(1);
  d.AddWorker(0);
  d.Schedule();
  d.TakeAssignments(kNow);
  d.RemoveWorker(0, true, kNow);
  CHECK_FALSE(d.Complete(1, 1, true));  // waiting to run again
  CHECK_FALSE(d.Retry(1, 1));
  d.AddWorker(0);
  REQUIRE(d.TakeAssignments(kNow).size() == 1);
  CHECK_FALSE(d.Complete(1, 1, true));  // the second attempt is running
  CHECK_FALSE(d.Retry(1, 1));
  CHECK_FALSE(d.Complete(1, 3, true));
  CHECK(d.Complete(1, 2, true));
  CHECK_FALSE(d.Complete(1, 2, true));  // once
  CHECK_FALSE(d.Complete(99, 1, true));
  CHECK(d.stats().completed == 1);
  CHECK(d.idle());
}

TEST_CASE("a retried closure goes to the head of the queue", "[dispatcher]") {
  Dispatcher d(2);
  d.AddWorker(0);
  for (int i = 0; i < 4; ++i) d.Schedule();
  d.TakeAssignments(kNow);
  CHECK(d.Retry(2, 1));
  CHECK(d.load(0) == 1);
  const Assignments next = d.TakeAssignments(kNow);
  REQUIRE(next.size() == 1);
  CHECK(next[0].closure == 2);
  CHECK(next[0].attempt == 2);
}

TEST_CASE("the low-water mark stands at the oldest closure that is not over", "[dispatcher]") {
  Dispatcher d(4);
  d.AddWorker(0);
  CHECK(d.low_water() == 1);
  for (int i = 0; i < 4; ++i) d.Schedule();
  d.TakeAssignments(kNow);
  CHECK(d.Complete(2, 1, true));
  CHECK(d.Complete(3, 1, false));
  CHECK(d.low_water() == 1);
  CHECK(d.Complete(1, 1, true));
  CHECK(d.low_water() == 4);
  CHECK(d.Complete(4, 1, true));
  CHECK(d.low_water() == 5);
  d.Schedule();
  CHECK(d.low_water() == 5);
}

// Runs and completes whatever is handed out, `n` closures; returns them in the order they started.
Ids Run(Dispatcher* d, int n, absl::Duration now = kNow) {
  Ids order;
  while (static_cast<int>(order.size()) < n) {
    const Assignments taken = d->TakeAssignments(now);
    REQUIRE_FALSE(taken.empty());
    for (const auto& a : taken) {
      order.push_back(a.closure);
      REQUIRE(d->Complete(a.closure, a.attempt, true));
    }
  }
  return order;
}

TEST_CASE("closures that were complete run again before what is queued, and are counted once",
          "[dispatcher]") {
  Dispatcher d(1);
  d.AddWorker(0);
  for (int i = 0; i < 6; ++i) d.Schedule();
  REQUIRE(Run(&d, 4) == Ids{1, 2, 3, 4});
  REQUIRE(d.low_water() == 5);
  REQUIRE(d.TakeAssignments(kNow).size() == 1);  // 5 runs
  d.RemoveWorker(0, false, kNow);
  d.RunAgain({{2, 1}, {4, 1}});  // 3 changed nothing: it stays over
  CHECK(d.low_water() == 2);
  CHECK(d.runs_again(2));
  CHECK_FALSE(d.runs_again(5));
  CHECK(d.CancelQueued([](ClosureId id) { return id != 5 && id != 6; }).empty());
  d.AddWorker(0);
  CHECK(Run(&d, 4) == Ids{2, 4, 5, 6});
  CHECK(d.low_water() == 7);
  CHECK(d.stats().completed == 6);
  CHECK(d.stats().rerun == 2);
  CHECK(d.Schedule() == 7);
}

TEST_CASE("late news of an attempt from before do not end a closure that runs again",
          "[dispatcher]") {
  Dispatcher d(1);
  d.AddWorker(0);
  d.Schedule();
  const uint32_t before = d.TakeAssignments(kNow)[0].attempt;
  REQUIRE(d.Complete(1, before, true));
  d.RemoveWorker(0, false, kNow);
  d.RunAgain({{1, 1}});
  d.AddWorker(0);
  const Assignments again = d.TakeAssignments(kNow);
  REQUIRE(Closures(again) == Ids{1});
  CHECK_FALSE(d.IsCurrent(1, before));
  CHECK_FALSE(d.Complete(1, before, true));
  CHECK(d.stats().retried == 0);
  CHECK(d.Complete(1, again[0].attempt, true));
}

TEST_CASE("a closure that runs again waits for those that it waited for before", "[dispatcher]") {
  Dispatcher d(4);
  d.AddWorker(0);
  d.AddWorker(1);
  for (int i = 0; i < 4; ++i) d.Schedule();
  Run(&d, 4);
  d.RemoveWorker(0, false, kNow);
  d.RemoveWorker(1, false, kNow);
  d.RunAgain({{1, 1}, {2, 1}, {3, 3}, {4, 4}});
  d.AddWorker(0);
  d.AddWorker(1);
  const Assignments first = d.TakeAssignments(kNow);
  REQUIRE(Closures(first) == Ids{1, 2});
  CHECK(d.Complete(2, first[1].attempt, true));
  CHECK(d.TakeAssignments(kNow).empty());
  CHECK(d.Complete(1, first[0].attempt, true));
  CHECK(Run(&d, 2) == Ids{3, 4});
}

// A suspect's trial needs 4 s without a lost worker, or 5 s of waiting.
QuarantineOptions After(int workers) {
  QuarantineOptions options;
  options.after = workers;
  options.calm = absl::Seconds(4);
  options.patience = absl::Seconds(5);
  options.window = absl::Seconds(2);
  return options;
}

// Loses `losses` workers, numbered from 100, on each of which closures 1 and 2 run.
void MakeSuspect(Dispatcher* d, int losses, absl::Duration now) {
  for (int w = 100; w < 100 + losses; ++w) {
    d->AddWorker(w);
    REQUIRE(Closures(d->TakeAssignments(now)) == Ids{1, 2});
    REQUIRE(d->RemoveWorker(w, true, now) == 2);
  }
}

TEST_CASE("a closure that takes down worker after worker waits for calm, runs alone, is given up",
          "[dispatcher][quarantine]") {
  Dispatcher d(2, After(3));
  for (int i = 0; i < 3; ++i) d.Schedule();
  absl::Duration now = kNow;
  MakeSuspect(&d, 2, now);
  d.AddWorker(5);
  REQUIRE(Closures(d.TakeAssignments(now)) == Ids{3});  // it does not wait behind them
  CHECK(d.next_time() == now + absl::Seconds(4));
  CHECK(d.queued() == 2);
  now = d.next_time();
  CHECK(d.TakeAssignments(now).empty());  // worker 5 is kept, and has something yet
  CHECK(d.Complete(3, 1, true));
  REQUIRE(Closures(d.TakeAssignments(now)) == Ids{1});  // nothing beside it
  CHECK(d.RemoveWorker(5, true, now) == 1);
  d.AddWorker(6);
  // Before the verdict nothing else is tried.
  CHECK(d.TakeQuarantined(now).empty());
  CHECK(d.TakeAssignments(now).empty());
  CHECK(d.next_time() == now + absl::Seconds(2));
  now = d.next_time();
  CHECK(d.TakeQuarantined(now) == Ids{1});
  CHECK(d.low_water() == 2);
  // The other one was blamed as often, but does nothing when it is alone.
  CHECK(Run(&d, 1, now) == Ids{2});
  CHECK(d.low_water() == 4);
  CHECK(d.stats().failed == 1);
  CHECK(d.idle());
  CHECK(d.TakeAssignments(now).empty());
  CHECK(d.next_time() == absl::InfiniteDuration());
}

TEST_CASE("two closures that kill their workers are found, though at first each clears the other",
          "[dispatcher][quarantine]") {
  Dispatcher d(2, After(3));
  for (int i = 0; i < 2; ++i) d.Schedule();
  MakeSuspect(&d, 2, kNow);
  for (int w = 0; w < 8; ++w) d.AddWorker(w);
  absl::Duration now = kNow + absl::Seconds(4);
  const Assignments together = d.TakeAssignments(now);
  REQUIRE(Closures(together) == Ids{1, 2});
  for (const auto& a : together) CHECK(d.RemoveWorker(a.worker, true, now) == 1);
  CHECK(d.TakeQuarantined(now + absl::Seconds(3)).empty());
  for (ClosureId guilty : {1, 2}) {
    Assignments trial;
    while ((trial = d.TakeAssignments(now)).empty()) {
      now = d.next_time();
      REQUIRE(now < absl::InfiniteDuration());
    }
    REQUIRE(Closures(trial) == Ids{guilty});
    CHECK(d.RemoveWorker(trial[0].worker, true, now) == 1);
    CHECK(d.TakeAssignments(now).empty());
    now = d.next_time();
    CHECK(d.TakeQuarantined(now) == Ids{guilty});
  }
}

TEST_CASE("a suspect closure keeps a worker for itself while the others go on",
          "[dispatcher][quarantine]") {
  Dispatcher d(2, After(3));
  for (int i = 0; i < 2; ++i) d.Schedule();
  MakeSuspect(&d, 2, kNow);
  for (int i = 0; i < 6; ++i) d.Schedule();  // 3 to 8
  d.AddWorker(0);
  d.AddWorker(1);
  const Assignments first = d.TakeAssignments(kNow);
  REQUIRE(Closures(first) == Ids{3, 4, 5, 6});
  const absl::Duration calm = d.next_time();
  CHECK(d.TakeAssignments(calm).empty());
  // One of the two workers gets nothing new until it is empty, the other goes on.
  std::map<ClosureId, int> worker_of;
  for (const auto& a : first) worker_of[a.closure] = a.worker;
  std::vector<std::pair<ClosureId, int>> got;
  for (ClosureId id : {3, 4, 5, 6}) {
    CHECK(d.Complete(id, 1, true));
    for (const auto& a : d.TakeAssignments(calm)) got.push_back({a.closure, a.worker});
  }
  REQUIRE(got.size() == 3);
  std::sort(got.begin(), got.end());
  CHECK(got[0].first == 1);  // and 2 waits for its turn
  CHECK(d.load(got[0].second) == 1);
  CHECK(got[1].first == 7);
  CHECK(got[2].first == 8);
  CHECK(got[1].second != got[0].second);
  CHECK(got[2].second != got[0].second);
  REQUIRE(d.Complete(1, 3, true));
  const Assignments second = d.TakeAssignments(calm);
  REQUIRE(Closures(second) == Ids{2});
  REQUIRE(d.Complete(2, 3, true));
  // The worker is everybody's again.
  d.Schedule();
  d.Schedule();
  CHECK(Closures(d.TakeAssignments(calm)) == Ids{9, 10});
}

TEST_CASE("a worker that is lost together with others is no fault of the closure on trial",
          "[dispatcher][quarantine]") {
  const bool before = GENERATE(true, false);
  Dispatcher d(1, After(2));
  d.Schedule();
  d.AddWorker(100);
  REQUIRE(d.TakeAssignments(kNow).size() == 1);
  CHECK(d.RemoveWorker(100, true, kNow) == 1);
  d.AddWorker(0);
  d.AddWorker(1);
  absl::Duration now = kNow + absl::Seconds(5);
  const Assignments trial = d.TakeAssignments(now);
  REQUIRE(trial.size() == 1);
  const int other = 1 - trial[0].worker;
  if (before) d.RemoveWorker(other, true, now);
  now += absl::Milliseconds(1900);
  CHECK(d.RemoveWorker(trial[0].worker, true, now) == 1);
  now += absl::Milliseconds(1900);
  if (!before) d.RemoveWorker(other, true, now);
  CHECK(d.TakeQuarantined(now + absl::Seconds(1)).empty());
  d.AddWorker(2);
  CHECK(d.TakeAssignments(now).empty());
  // Calm since the last loss, or what it waits at most.
  CHECK(d.next_time() == kNow + absl::Milliseconds(before ? 10900 : 11900));
  CHECK(Run(&d, 1, d.next_time()) == Ids{1});
  CHECK(d.stats().failed == 0);
}

TEST_CASE("a suspect closure waits for no calm that never comes, and is cleared so often only",
          "[dispatcher][quarantine]") {
  Dispatcher d(1, After(2));
  d.Schedule();
  absl::Duration now = kNow;
  d.AddWorker(0);
  REQUIRE(d.TakeAssignments(now).size() == 1);
  d.RemoveWorker(0, true, now);
  int trials = 0;
  Ids quarantined;
  // A worker is lost each second, and sometimes it is the closure's.
  for (int second = 0; second < 60 && quarantined.empty(); ++second) {
    now += absl::Seconds(1);
    quarantined = d.TakeQuarantined(now);
    d.AddWorker(1);
    d.AddWorker(2);
    const Assignments trial = d.TakeAssignments(now);
    if (!trial.empty()) {
      ++trials;
      d.RemoveWorker(trial[0].worker, true, now);
    }
    d.RemoveWorker(trial.empty() || trial[0].worker == 2 ? 1 : 2, true, now);
  }
  CHECK(trials == 4);  // three times it was not alone in its loss
  CHECK(quarantined == Ids{1});
}

TEST_CASE("a suspect closure that is cancelled leaves its worker to the others",
          "[dispatcher][quarantine]") {
  Dispatcher d(1, After(2));
  for (int i = 0; i < 2; ++i) d.Schedule();
  d.AddWorker(0);
  REQUIRE(Closures(d.TakeAssignments(kNow)) == Ids{1});
  d.RemoveWorker(0, true, kNow);
  d.AddWorker(1);
  REQUIRE(Closures(d.TakeAssignments(kNow)) == Ids{2});
  CHECK(d.TakeAssignments(kNow + absl::Seconds(4)).empty());  // kept from now on
  CHECK(d.CancelQueued(kAll) == Ids{1});
  d.Schedule();
  CHECK(d.Complete(2, 1, true));
  CHECK(Closures(d.TakeAssignments(kNow + absl::Seconds(4))) == Ids{3});
}

TEST_CASE("a suspect closure that runs again waits for those that it waited for before",
          "[dispatcher][quarantine]") {
  Dispatcher d(1, After(2));
  for (int i = 0; i < 3; ++i) d.Schedule();
  d.AddWorker(0);
  REQUIRE(Run(&d, 1) == Ids{1});
  REQUIRE(Closures(d.TakeAssignments(kNow)) == Ids{2});
  d.RemoveWorker(0, true, kNow);
  // A PS is lost as well: 1 must run again, and 2 not before it.
  d.SetAfter(2, 2);
  d.RunAgain({{1, 1}});
  d.AddWorker(1);
  const absl::Duration calm = kNow + absl::Seconds(4);
  const Assignments first = d.TakeAssignments(calm);
  REQUIRE(Closures(first) == Ids{1});
  CHECK(d.TakeAssignments(calm + absl::Seconds(9)).empty());
  CHECK(d.Complete(1, first[0].attempt, true));
  const Assignments next = d.TakeAssignments(calm);
  CHECK(Closures(next) == Ids{3});
  CHECK(d.Complete(3, next[0].attempt, true));
  CHECK(Closures(d.TakeAssignments(calm)) == Ids{2});
}

TEST_CASE("a closure is blamed for what it broke when that is known, also on another worker",
          "[dispatcher][quarantine]") {
  Dispatcher d(2, After(3));
  for (int i = 0; i < 2; ++i) d.Schedule();
  absl::Duration now = kNow;
  d.AddWorker(0);
  for (int loss = 0; loss < 2; ++loss) {
    const Assignments both = d.TakeAssignments(now);
    REQUIRE(Closures(both) == Ids{1, 2});
    CHECK(d.RemoveWorker(loss, false, now) == 2);
    d.AddWorker(loss + 1);
    d.Blame({1, 2}, now);
  }
  CHECK(d.TakeAssignments(now).empty());  // both are suspect now
  now += absl::Seconds(4);
  const Assignments trial = d.TakeAssignments(now);
  REQUIRE(Closures(trial) == Ids{1});
  CHECK(d.RemoveWorker(2, false, now) == 1);
  d.AddWorker(3);
  d.Blame({1}, now);
  now += absl::Seconds(2);
  CHECK(d.TakeQuarantined(now) == Ids{1});
  CHECK(Run(&d, 1, now) == Ids{2});
  d.Blame({1, 2}, now);  // of those that are over, nothing is kept
  CHECK(d.idle());
  CHECK(d.TakeQuarantined(now + absl::Hours(1)).empty());
}

TEST_CASE("a worker that was asked to go blames no closure", "[dispatcher][quarantine]") {
  Dispatcher d(1, After(2));
  d.Schedule();
  for (int loss = 0; loss < 10; ++loss) {
    d.AddWorker(loss);
    REQUIRE(d.TakeAssignments(kNow).size() == 1);
    CHECK(d.RemoveWorker(loss, false, kNow) == 1);
  }
}

TEST_CASE("whatever workers are lost when, each closure is over once, and suspects run alone",
          "[dispatcher][quarantine]") {
  const uint64_t seed = GENERATE(range(1, 30));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Dispatcher d(2, After(3));
  constexpr int kClosures = 60, kWorkers = 6;
  for (int i = 0; i < kClosures; ++i) d.Schedule();
  absl::Duration now = kNow;
  std::map<ClosureId, Dispatcher::Assignment> running;
  std::map<ClosureId, int> losses;
  std::set<ClosureId> over;
  bool overlap = false;
  const auto take = [&] {
    for (ClosureId id : d.TakeQuarantined(now)) {
      CHECK(losses[id] >= 3);
      CHECK(over.insert(id).second);
    }
    for (const auto& a : d.TakeAssignments(now)) {
      CHECK(running.emplace(a.closure, a).second);
      for (const auto& [id, other] : running) {
        if (id == a.closure || other.worker != a.worker) continue;
        overlap = overlap || losses[id] >= 2 || losses[a.closure] >= 2;
      }
    }
  };
  const auto complete = [&] {
    if (running.empty()) return;
    auto it = std::next(running.begin(), static_cast<int>(random() % running.size()));
    CHECK(d.Complete(it->first, it->second.attempt, true));
    CHECK(over.insert(it->first).second);
    running.erase(it);
  };
  for (int event = 0; event < 400; ++event) {
    now += absl::Milliseconds(random() % 500);
    const int worker = static_cast<int>(random() % kWorkers);
    if (random() % 3 == 0) {
      int lost = 0;
      for (auto it = running.begin(); it != running.end();) {
        if (it->second.worker != worker) {
          ++it;
          continue;
        }
        ++losses[it->first];
        ++lost;
        it = running.erase(it);
      }
      CHECK(d.RemoveWorker(worker, true, now) == lost);
    } else {
      d.AddWorker(worker);
    }
    if (random() % 8 == 0) complete();
    take();
  }
  CHECK_FALSE(overlap);
  for (int w = 0; w < kWorkers; ++w) d.AddWorker(w);
  for (int i = 0; i < 1000 && !d.idle(); ++i) {
    take();
    if (running.empty()) {
      REQUIRE(d.next_time() < absl::InfiniteDuration());
      now = std::max(now, d.next_time());
    }
    complete();
  }
  CHECK(d.idle());
  CHECK(over.size() == kClosures);
  CHECK(d.low_water() == kClosures + 1);
}

TEST_CASE("another session's numbering goes on: what is pending runs under its old number",
          "[dispatcher]") {
  Dispatcher d(1);
  d.Restore(/*low_water=*/10, /*next=*/15, {11, 13});
  CHECK(d.low_water() == 11);  // 10 is over
  CHECK_FALSE(d.ScheduleRestored(12));
  CHECK(d.ScheduleRestored(11));
  CHECK_FALSE(d.ScheduleRestored(11));
  CHECK(d.ScheduleRestored(13));
  CHECK(d.Schedule() == 15);
  d.AddWorker(0);
  CHECK(Run(&d, 3) == Ids{11, 13, 15});
  CHECK(d.low_water() == 16);
}

TEST_CASE("cancelling the queue leaves what runs, cancelling all leaves nothing", "[dispatcher]") {
  Dispatcher d(2);
  d.AddWorker(0);
  for (int i = 0; i < 5; ++i) d.Schedule();
  d.TakeAssignments(kNow);
  CHECK(d.CancelQueued(kAll) == Ids{3, 4, 5});
  CHECK(d.queued() == 0);
  CHECK(d.running() == 2);
  CHECK(d.stats().failed == 3);
  CHECK(d.low_water() == 1);
  d.Schedule();  // 6
  Ids all = d.CancelAll();
  std::sort(all.begin(), all.end());
  CHECK(all == Ids{1, 2, 6});
  CHECK(d.idle());
  CHECK(d.low_water() == 7);
  CHECK(d.stats().failed == 6);
  CHECK(d.load(0) == 0);
  CHECK_FALSE(d.Complete(1, 1, true));
  CHECK(d.stats().completed == 0);
  d.Schedule();
  CHECK(Closures(d.TakeAssignments(kNow)) == Ids{7});  // usable afterwards
}

// What a dispatcher must do, in the plainest way.
struct Model {
  explicit Model(int depth) : in_flight(depth) {}

  struct Running {
    int worker;
    uint32_t attempt;
  };
  int in_flight;
  ClosureId last = 0;
  std::set<ClosureId> queue;  // they start in this order
  std::map<ClosureId, uint32_t> attempts;
  std::map<ClosureId, Running> running;
  std::set<int> workers;
  std::set<ClosureId> over;
  uint64_t completed = 0, failed = 0, retried = 0;

  int Load(int worker) const {
    if (workers.count(worker) == 0) return -1;
    int load = 0;
    for (const auto& [id, r] : running) load += r.worker == worker;
    return load;
  }
  ClosureId LowWater() const {
    ClosureId low = 1;
    while (over.count(low) > 0) ++low;
    return low;
  }
};

// One random history of a dispatcher, checked against the model after every event.
class History {
 public:
  History(uint64_t seed, int in_flight) : random_(seed), model_(in_flight), d_(in_flight) {}

  void Run(int events) {
    for (int i = 0; i < events; ++i) {
      INFO("event " << i);
      OneEvent();
      CheckState();
    }
    // Whatever happened, everything ends once a worker stays.
    d_.AddWorker(0);
    model_.workers.insert(0);
    for (int i = 0; i < 100000 && !d_.idle(); ++i) {
      Take();
      const auto [id, r] = *model_.running.begin();
      Complete(id, r.attempt, true, true);
    }
    CheckState();
    REQUIRE(d_.idle());
    REQUIRE(model_.over.size() == model_.last);
    REQUIRE(d_.low_water() == model_.last + 1);
  }

 private:
  uint64_t Below(uint64_t n) { return random_() % n; }

  void OneEvent() {
    const uint64_t kind = Below(100);
    const int worker = static_cast<int>(Below(5));
    if (kind < 35) {
      REQUIRE(d_.Schedule() == ++model_.last);
      model_.queue.insert(model_.last);
    } else if (kind < 45) {
      d_.AddWorker(worker);
      model_.workers.insert(worker);
    } else if (kind < 50) {
      RemoveWorker(worker);
    } else if (kind < 70) {
      Take();
    } else if (kind < 90) {
      Answer();
    } else if (kind < 97) {
      RetryOne();
    } else if (kind == 97) {
      CancelQueued();
    } else if (kind == 98 && Below(4) == 0) {
      CancelAll();
    }
  }

  void RemoveWorker(int worker) {
    Ids lost;
    for (const auto& [id, r] : model_.running) {
      if (r.worker == worker) lost.push_back(id);
    }
    for (auto id = lost.rbegin(); id != lost.rend(); ++id) {
      model_.running.erase(*id);
      model_.queue.insert(*id);
    }
    model_.workers.erase(worker);
    REQUIRE(d_.RemoveWorker(worker, false, kNow) == static_cast<int>(lost.size()));
  }

  void Take() {
    for (const auto& a : d_.TakeAssignments(kNow)) {
      REQUIRE_FALSE(model_.queue.empty());
      REQUIRE(a.closure == *model_.queue.begin());
      model_.queue.erase(model_.queue.begin());
      REQUIRE(model_.workers.count(a.worker) == 1);
      for (int w : model_.workers) REQUIRE(model_.Load(a.worker) <= model_.Load(w));
      REQUIRE(model_.Load(a.worker) < model_.in_flight);
      REQUIRE(a.attempt == ++model_.attempts[a.closure]);
      model_.retried += a.attempt > 1;
      REQUIRE(model_.over.count(a.closure) == 0);
      model_.running[a.closure] = {a.worker, a.attempt};
    }
    // Nothing waits that could run.
    bool room = false;
    for (int w : model_.workers) room = room || model_.Load(w) < model_.in_flight;
    REQUIRE((model_.queue.empty() || !room));
  }

  void Complete(ClosureId id, uint32_t attempt, bool ok, bool current) {
    REQUIRE(d_.Complete(id, attempt, ok) == current);
    if (!current) return;
    model_.running.erase(id);
    REQUIRE(model_.over.insert(id).second);
    ++(ok ? model_.completed : model_.failed);
  }

  // Of a random closure and attempt: mostly the current one, sometimes a zombie's.
  void Answer() {
    const auto [id, attempt, current] = Pick();
    Complete(id, attempt, Below(5) > 0, current);
  }

  void RetryOne() {
    const auto [id, attempt, current] = Pick();
    REQUIRE(d_.Retry(id, attempt) == current);
    if (!current) return;
    model_.running.erase(id);
    model_.queue.insert(id);
  }

  std::tuple<ClosureId, uint32_t, bool> Pick() {
    if (!model_.running.empty() && Below(3) > 0) {
      auto it = model_.running.begin();
      std::advance(it, Below(model_.running.size()));
      return {it->first, it->second.attempt, true};
    }
    const ClosureId id = Below(model_.last + 2);
    const uint32_t attempt = static_cast<uint32_t>(Below(4));
    const auto it = model_.running.find(id);
    return {id, attempt, it != model_.running.end() && it->second.attempt == attempt};
  }

  void CancelQueued() {
    const Ids wanted(model_.queue.begin(), model_.queue.end());
    REQUIRE(d_.CancelQueued(kAll) == wanted);
    model_.queue.clear();
    for (ClosureId id : wanted) REQUIRE(model_.over.insert(id).second);
    model_.failed += wanted.size();
  }

  void CancelAll() {
    std::set<ClosureId> wanted(model_.queue.begin(), model_.queue.end());
    for (const auto& [id, r] : model_.running) wanted.insert(id);
    const Ids found = d_.CancelAll();
    REQUIRE(found.size() == wanted.size());
    REQUIRE(std::set<ClosureId>(found.begin(), found.end()) == wanted);
    model_.queue.clear();
    model_.running.clear();
    for (ClosureId id : wanted) REQUIRE(model_.over.insert(id).second);
    model_.failed += wanted.size();
  }

  void CheckState() {
    REQUIRE(d_.queued() == static_cast<int64_t>(model_.queue.size()));
    REQUIRE(d_.running() == static_cast<int64_t>(model_.running.size()));
    REQUIRE(d_.idle() == (model_.queue.empty() && model_.running.empty()));
    REQUIRE(d_.workers() == static_cast<int>(model_.workers.size()));
    for (int w = 0; w < 5; ++w) {
      REQUIRE(d_.load(w) == model_.Load(w));
      REQUIRE(d_.load(w) <= model_.in_flight);
    }
    REQUIRE(d_.low_water() == model_.LowWater());
    const DispatcherStats& s = d_.stats();
    REQUIRE(s.scheduled == model_.last);
    REQUIRE(s.completed == model_.completed);
    REQUIRE(s.failed == model_.failed);
    REQUIRE(s.retried == model_.retried);
    // No closure is lost and none is there twice.
    REQUIRE(model_.queue.size() + model_.running.size() + model_.over.size() == model_.last);
  }

  std::mt19937_64 random_;
  Model model_;
  Dispatcher d_;
};

TEST_CASE("no history of workers, retries and answers loses a closure or ends one twice",
          "[dispatcher]") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    INFO("seed " << seed);
    History(seed, 1 + static_cast<int>(seed % 3)).Run(250);
  }
}

}  // namespace
}  // namespace coxswain::core
