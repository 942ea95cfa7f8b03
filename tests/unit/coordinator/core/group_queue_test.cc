#include "coordinator/core/group_queue.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "coordinator/core/dispatcher.h"

namespace coxswain::core {
namespace {

constexpr absl::Duration kNow = absl::Seconds(1000);

void Add(GroupQueue* queue, ClosureId id, uint64_t group) {
  queue->SetGroup(id, group);
  queue->Insert(id);
}

// Closures 1.. of groups 101.., each with this number of them.
void Fill(GroupQueue* queue, int groups, int each) {
  ClosureId id = 1;
  for (int g = 0; g < groups; ++g) {
    for (int i = 0; i < each; ++i) Add(queue, id++, 101 + static_cast<uint64_t>(g));
  }
}

ClosureId Take(GroupQueue* queue, int worker) {
  const ClosureId id = queue->Pick(worker);
  if (id != 0) CHECK(queue->Erase(id));
  return id;
}

TEST_CASE("groups: each worker stays with its own, and claims the one that it takes next") {
  GroupQueue queue;
  Fill(&queue, 5, 3);
  CHECK(Take(&queue, 0) == 1);
  CHECK(queue.Next(0) == 4);
  CHECK(Take(&queue, 1) == 7);  // group 102 is worker 0's
  CHECK(queue.Next(1) == 10);
  CHECK(queue.Next(0) == 4);
  CHECK(Take(&queue, 0) == 2);
  CHECK(Take(&queue, 0) == 3);
  CHECK(Take(&queue, 0) == 4);
  CHECK(queue.Next(0) == 13);
  CHECK(Take(&queue, 1) == 8);
}

TEST_CASE("groups: no worker is idle while something waits") {
  GroupQueue queue;
  Fill(&queue, 2, 4);
  CHECK(Take(&queue, 0) == 1);
  CHECK(queue.Next(0) == 5);
  // What another one would take next is taken over, as nobody has read any of it.
  CHECK(Take(&queue, 1) == 5);
  CHECK(queue.Next(0) == 0);
  // Then the longest is shared.
  CHECK(Take(&queue, 1) == 6);
  CHECK(Take(&queue, 2) == 2);
  std::set<ClosureId> rest;
  while (!queue.closures().empty()) rest.insert(Take(&queue, 2));
  CHECK(rest == std::set<ClosureId>{3, 4, 7, 8});
  CHECK(queue.Pick(0) == 0);
  CHECK(queue.Next(0) == 0);
}

TEST_CASE("groups: what a lost worker had is free, the oldest first") {
  GroupQueue queue;
  Fill(&queue, 4, 2);
  CHECK(Take(&queue, 0) == 1);
  CHECK(queue.Next(0) == 3);
  CHECK(Take(&queue, 1) == 5);
  queue.RemoveWorker(0);
  queue.RemoveWorker(0);
  queue.Insert(1);  // comes back
  CHECK(queue.Next(1) == 1);
  CHECK(Take(&queue, 2) == 3);
  CHECK(queue.Next(2) == 7);
}

TEST_CASE("groups: any order of events leaves no closure behind and gives none twice") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    GroupQueue queue;
    std::map<ClosureId, uint64_t> waiting;
    ClosureId next = 1;
    for (int i = 0; i < 400; ++i) {
      const int worker = static_cast<int>(random() % 4);
      switch (random() % 6) {
        case 0:
          waiting[next] = 1 + next / 20;
          Add(&queue, next, waiting[next]);
          ++next;
          break;
        case 1:
          for (int k = 0; k < 10; ++k, ++next) Add(&queue, next, waiting[next] = 1 + next / 20);
          break;
        case 2:
          queue.RemoveWorker(worker);
          break;
        case 3: {
          const ClosureId ahead = queue.Next(worker);
          if (ahead != 0) CHECK(waiting.count(ahead) == 1);
          break;
        }
        default: {
          const ClosureId id = queue.Pick(worker);
          REQUIRE((id == 0) == waiting.empty());
          if (id == 0) break;
          REQUIRE(waiting.count(id) == 1);
          REQUIRE(queue.Erase(id));
          // Some come back, as those of a worker that is lost.
          if (random() % 5 == 0) {
            queue.Insert(id);
          } else {
            waiting.erase(id);
            queue.Forget(id);
          }
        }
      }
      REQUIRE(queue.closures().empty() == waiting.empty());
    }
  }
}

// Four workers, some faster than others, with 60 groups of 50 closures, of which 12 groups are
// scheduled ahead. Returns how many groups each worker took from, in all.
int GroupsRead(bool grouped) {
  Dispatcher d(2);
  for (int w = 0; w < 4; ++w) d.AddWorker(w);
  std::mt19937 random(7);
  std::set<std::pair<int, ClosureId>> read;
  std::map<ClosureId, Dispatcher::Assignment> running;
  ClosureId scheduled = 0;
  for (constexpr ClosureId kAll = 3000; d.low_water() <= kAll;) {
    while (scheduled < kAll && d.queued() + d.running() < 600) {
      d.Schedule(grouped ? 1 + scheduled / 50 : 0);
      ++scheduled;
    }
    for (const auto& a : d.TakeAssignments(kNow)) {
      running[a.closure] = a;
      read.insert({a.worker, (a.closure - 1) / 50});
    }
    // The first workers are faster.
    auto done = running.begin();
    for (auto it = running.begin(); it != running.end(); ++it) {
      if (random() % static_cast<uint32_t>(2 + it->second.worker) == 0) done = it;
    }
    REQUIRE(d.Complete(done->first, done->second.attempt, true));
    running.erase(done);
  }
  return static_cast<int>(read.size());
}

TEST_CASE("closures of a group run on one worker: each group is read about once in all") {
  CHECK(GroupsRead(/*grouped=*/true) <= 64);  // the last ones are shared
  CHECK(GroupsRead(/*grouped=*/false) > 200);
}

TEST_CASE("a closure with a group says where its worker goes on") {
  Dispatcher d(1);
  d.AddWorker(0);
  for (const uint64_t group : {7, 7, 8, 8}) d.Schedule(group);
  auto first = d.TakeAssignments(kNow);
  REQUIRE(first.size() == 1);
  CHECK(first[0].closure == 1);
  CHECK(first[0].ahead == 3);
  CHECK(d.Complete(1, 1, true));
  CHECK(d.Complete(d.TakeAssignments(kNow)[0].closure, 1, true));
  auto third = d.TakeAssignments(kNow);
  REQUIRE(third.size() == 1);
  CHECK(third[0].closure == 3);
  CHECK(third[0].ahead == 3);  // nobody knows yet
}

TEST_CASE("closures with groups stay within the window behind the oldest that is not over") {
  Dispatcher d(1, {}, /*window=*/4);
  d.AddWorker(0);
  d.AddWorker(1);
  for (ClosureId i = 0; i < 12; ++i) d.Schedule(1 + i / 6);
  std::map<int, ClosureId> at;
  for (const auto& a : d.TakeAssignments(kNow)) at[a.worker] = a.closure;
  // The second worker's group begins with closure 7, which is too far behind closure 1.
  CHECK(at == std::map<int, ClosureId>{{0, 1}, {1, 2}});
}

TEST_CASE("closures that run again do so in order, whatever their groups") {
  Dispatcher d(4);
  for (const uint64_t group : {5, 6, 5, 6}) d.Schedule(group);
  d.AddWorker(0);
  for (const auto& a : d.TakeAssignments(kNow)) CHECK(d.Complete(a.closure, a.attempt, true));
  for (const uint64_t group : {5, 6}) d.Schedule(group);
  d.RemoveWorker(0, false, kNow);
  d.RunAgain({{2, 1}, {3, 3}, {4, 4}});
  d.AddWorker(0);
  std::vector<ClosureId> order;
  while (!d.idle()) {
    for (const auto& a : d.TakeAssignments(kNow)) {
      order.push_back(a.closure);
      CHECK(d.Complete(a.closure, a.attempt, true));
    }
  }
  CHECK(order == std::vector<ClosureId>{2, 3, 4, 5, 6});
}

}  // namespace
}  // namespace coxswain::core
