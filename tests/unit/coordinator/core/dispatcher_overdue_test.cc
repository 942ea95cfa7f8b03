// Closures that take too long, and how far the others may run ahead of them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "coordinator/core/dispatcher.h"

namespace coxswain::core {
namespace {

using Assignments = std::vector<Dispatcher::Assignment>;
using Ids = std::vector<ClosureId>;

constexpr absl::Duration kNow = absl::Seconds(1000);

Ids Closures(const Assignments& assignments) {
  Ids ids;
  for (const auto& a : assignments) ids.push_back(a.closure);
  return ids;
}

TEST_CASE("a closure that is overdue runs elsewhere, before the others", "[dispatcher][overdue]") {
  Dispatcher d(1);
  for (int w : {0, 1}) d.AddWorker(w);
  for (int i = 0; i < 6; ++i) d.Schedule();
  REQUIRE(Closures(d.TakeAssignments(kNow)) == Ids{1, 2});
  CHECK(d.overdue(1) == 0);
  d.Overdue(1);
  CHECK(d.overdue(1) == 1);
  CHECK_FALSE(d.IsRunning(1));
  // There is room on the worker that it was on: for others.
  Assignments next = d.TakeAssignments(kNow);
  REQUIRE(Closures(next) == Ids{3});
  CHECK(next[0].worker == 0);
  REQUIRE(d.Complete(2, 1, true));
  next = d.TakeAssignments(kNow);
  REQUIRE(Closures(next) == Ids{1});
  CHECK(next[0].worker == 1);
  CHECK(next[0].attempt == 2);
  d.Overdue(1);
  CHECK(d.overdue(1) == 2);
  // It was everywhere: anywhere will do.
  next = d.TakeAssignments(kNow);
  REQUIRE_FALSE(next.empty());
  CHECK(next[0].closure == 1);
  CHECK(next[0].attempt == 3);
  CHECK(d.Complete(1, 3, true));
  CHECK(d.overdue(1) == 0);
  CHECK(d.stats().retried == 2);
}

TEST_CASE("with one worker a closure that is overdue runs on it again", "[dispatcher][overdue]") {
  Dispatcher d(1);
  d.AddWorker(0);
  d.Schedule();
  d.TakeAssignments(kNow);
  d.Overdue(1);
  d.Overdue(1);  // it does not run
  CHECK(d.overdue(1) == 1);
  const Assignments next = d.TakeAssignments(kNow);
  REQUIRE(next.size() == 1);
  CHECK(next[0].attempt == 2);
  d.GiveUp(1);
  CHECK(d.stats().failed == 1);
  CHECK(d.idle());
  CHECK(d.low_water() == 2);
  d.GiveUp(1);
  CHECK(d.stats().failed == 1);
}

TEST_CASE("an overdue attempt that ends well after all ends its closure once",
          "[dispatcher][overdue]") {
  Dispatcher d(1);
  for (int w : {0, 1}) d.AddWorker(w);
  for (int i = 0; i < 3; ++i) d.Schedule();
  d.TakeAssignments(kNow);
  d.Overdue(1);
  SECTION("while it waits") {
    CHECK_FALSE(d.Complete(1, 1, false));  // badly does not count
    CHECK(d.Complete(1, 1, true));
    CHECK_FALSE(d.Complete(1, 1, true));
    CHECK(d.queued() == 1);
  }
  SECTION("while it runs again") {
    d.Complete(2, 1, true);
    REQUIRE(Closures(d.TakeAssignments(kNow)) == Ids{1, 3});
    CHECK(d.Complete(1, 1, true));
    CHECK(d.load(1) == 0);
    CHECK_FALSE(d.Complete(1, 2, true));
    CHECK(d.low_water() == 3);
  }
  SECTION("but not once the shards have gone back") {
    d.ForgetOverdueAttempts();
    CHECK_FALSE(d.Complete(1, 1, true));
  }
  SECTION("nor once closures run again") {
    d.Complete(2, 1, true);
    for (int w : {0, 1}) d.RemoveWorker(w, false, kNow);
    d.RunAgain({{2, 1}});
    CHECK_FALSE(d.Complete(1, 1, true));
    d.AddWorker(0);
    CHECK(Closures(d.TakeAssignments(kNow)) == Ids{1});
  }
}

TEST_CASE("closures far behind the oldest wait for it, and nothing else does",
          "[dispatcher][window]") {
  constexpr ClosureId kWindow = 10;
  Dispatcher d(100, {}, kWindow);
  d.AddWorker(0);
  for (int i = 0; i < 100; ++i) d.Schedule();
  Assignments taken = d.TakeAssignments(kNow);
  CHECK(taken.size() == kWindow);
  CHECK(d.held_back());
  for (const auto& a : taken) {
    if (a.closure != 1) d.Complete(a.closure, a.attempt, true);
  }
  CHECK(d.TakeAssignments(kNow).empty());  // 1 has not ended
  CHECK(d.held_back());
  d.Overdue(1);
  CHECK(Closures(d.TakeAssignments(kNow)) == Ids{1});  // it is never held back itself
  CHECK(d.Complete(1, 2, true));
  CHECK(d.low_water() == kWindow + 1);
  CHECK(d.TakeAssignments(kNow).size() == kWindow);
  CHECK(d.held_back());
}

// The window never ends in a deadlock: as long as somebody ends what runs, all is done.
TEST_CASE("whatever is overdue, lost and run again, a window lets all closures end",
          "[dispatcher][window]") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](int n) { return static_cast<int>(random() % n); };
    const ClosureId window = 1 + below(8);
    INFO("seed " << seed << ", window " << window);
    QuarantineOptions quarantine;
    quarantine.after = 0;
    Dispatcher d(1 + below(3), quarantine, window);
    std::set<int> there;
    std::map<ClosureId, Dispatcher::Assignment> running;
    std::set<ClosureId> complete;
    std::vector<Dispatcher::Assignment> overdue;
    int left = 120, faults = 150;
    const auto lose_all = [&] {
      for (int w : there) d.RemoveWorker(w, false, kNow);
      there.clear();
      running.clear();
    };
    for (int step = 0; step < 20000; ++step) {
      if (left > 0 && below(2) == 0) d.Schedule(), --left;
      if (there.size() < 3 && below(3) == 0) {
        const int worker = below(3);
        if (there.insert(worker).second) d.AddWorker(worker);
      }
      for (const auto& a : d.TakeAssignments(kNow)) {
        REQUIRE(complete.count(a.closure) == 0);
        REQUIRE(a.closure < d.low_water() + window);
        running[a.closure] = a;
      }
      if (faults > 0 && below(4) == 0) {
        --faults;
        switch (below(3)) {
          case 0:
            if (running.empty()) break;
            overdue.push_back(running.begin()->second);
            d.Overdue(running.begin()->first);
            running.erase(running.begin());
            break;
          case 1:
            if (there.empty()) break;
            d.RemoveWorker(*there.begin(), false, kNow);
            for (auto it = running.begin(); it != running.end();) {
              it = it->second.worker == *there.begin() ? running.erase(it) : std::next(it);
            }
            there.erase(there.begin());
            break;
          default: {
            lose_all();
            // Those from some point on, the later half first.
            std::vector<Dispatcher::Rerun> again;
            for (auto it = complete.begin(); it != complete.end();) {
              const bool goes = static_cast<int>(*it) > 60 - faults / 3;
              if (goes) again.push_back({*it, *it > 4 ? *it - 4 : 1});
              it = goes ? complete.erase(it) : std::next(it);
            }
            const auto middle = again.begin() + static_cast<std::ptrdiff_t>(again.size() / 2);
            d.RunAgain({middle, again.end()});
            d.RunAgain({again.begin(), middle});
          }
        }
      }
      if (!overdue.empty() && below(6) == 0) {
        const auto a = overdue.back();
        overdue.pop_back();
        if (d.Complete(a.closure, a.attempt, true)) {
          running.erase(a.closure);
          REQUIRE(complete.insert(a.closure).second);
        }
      }
      if (!running.empty() && below(2) == 0) {
        const auto a = std::next(running.begin(), below(static_cast<int>(running.size())))->second;
        running.erase(a.closure);
        REQUIRE(d.Complete(a.closure, a.attempt, true));
        REQUIRE(complete.insert(a.closure).second);
      }
      if (left == 0 && d.idle() && complete.size() == 120) break;
    }
    CHECK(complete.size() == 120);
    CHECK(d.idle());
    CHECK(d.low_water() == 121);
  }
}

TEST_CASE("many closures that run again are taken bit by bit as at once", "[dispatcher]") {
  const auto make = [] {
    Dispatcher d(4);
    d.AddWorker(0);
    for (int i = 0; i < 40; ++i) d.Schedule();
    for (int i = 0; i < 9; ++i) {
      for (const auto& a : d.TakeAssignments(kNow)) d.Complete(a.closure, a.attempt, true);
    }
    d.RemoveWorker(0, false, kNow);
    return d;
  };
  std::vector<Dispatcher::Rerun> all;
  for (ClosureId id : {5, 6, 9, 14, 20, 21, 33}) all.push_back({id, id - 1});
  Dispatcher whole = make(), parts = make();
  whole.RunAgain(all);
  parts.RunAgain({all[5], all[6]});
  CHECK(parts.low_water() == 21);
  parts.RunAgain({all[3], all[4]});
  parts.RunAgain({});
  parts.RunAgain({all[0], all[1], all[2]});
  for (Dispatcher* d : {&whole, &parts}) {
    CHECK(d->low_water() == 5);
    CHECK(d->runs_again_end() == 34);
    d->AddWorker(0);
    Ids order;
    while (order.size() < 11) {
      for (const auto& a : d->TakeAssignments(kNow)) {
        order.push_back(a.closure);
        REQUIRE(d->Complete(a.closure, a.attempt, true));
      }
    }
    CHECK(order == Ids{5, 6, 9, 14, 20, 21, 33, 37, 38, 39, 40});
    CHECK(d->low_water() == 41);
    CHECK(d->runs_again_end() == 0);
    CHECK(d->stats().rerun == 7);
  }
}

}  // namespace
}  // namespace coxswain::core
