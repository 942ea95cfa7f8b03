#include <catch2/catch.hpp>
#include <vector>

#include "coordinator/core/worker_table.h"

namespace coxswain::core {
namespace {

constexpr absl::Duration kNow = absl::Seconds(100);
constexpr absl::Duration kLong = absl::Hours(1);

TEST_CASE("the answer to a set-up that another one, or a loss, has overtaken does not count",
          "[worker_table]") {
  WorkerTable workers;
  workers.Resize(2);
  const auto first = workers.SetUp(0);
  CHECK(workers.IsCurrent(0, first));
  CHECK_FALSE(workers.IsCurrent(1, first));
  const auto second = workers.SetUp(0);
  CHECK_FALSE(workers.IsCurrent(0, first));
  workers.Lost(0, kNow);
  CHECK_FALSE(workers.IsCurrent(0, second));
  const auto third = workers.SetUp(0);
  workers.LetGo(0);
  CHECK_FALSE(workers.IsCurrent(0, third));
  // A worker that leaves and another one in its place.
  const auto old = workers.SetUp(1);
  workers.Resize(1);
  CHECK_FALSE(workers.IsCurrent(1, old));
  workers.Resize(2);
  workers.Replace(1);
  CHECK_FALSE(workers.IsCurrent(1, old));
}

TEST_CASE("a worker that is lost twice before it is back is lost once", "[worker_table]") {
  WorkerTable workers;
  workers.Resize(1);
  CHECK_FALSE(workers.Ready(0, 1, kNow).away);
  CHECK(workers.ready(0));
  CHECK(workers.Lost(0, kNow));
  CHECK_FALSE(workers.ready(0));
  CHECK_FALSE(workers.Lost(0, kNow + absl::Seconds(1)));
  const auto arrival = workers.Ready(0, 1, kNow + absl::Seconds(3));
  REQUIRE(arrival.away);
  CHECK(*arrival.away == absl::Seconds(3));
  CHECK_FALSE(workers.Ready(0, 1, kNow).away);
}

TEST_CASE("a worker that joins is news once", "[worker_table]") {
  WorkerTable workers;
  workers.Resize(2);
  workers.Replace(1);
  CHECK_FALSE(workers.Ready(0, 1, kNow).joined);
  CHECK(workers.Ready(1, 1, kNow).joined);
  CHECK_FALSE(workers.Ready(1, 1, kNow).joined);
}

TEST_CASE("what a way to a PS was lost by is told in the same layout, to the next set-up only",
          "[worker_table]") {
  using Ids = std::vector<ClosureId>;
  WorkerTable workers;
  workers.Resize(1);
  workers.Ready(0, 1, kNow);
  workers.WayLost(0, {3, 4}, 1);
  CHECK_FALSE(workers.ready(0));
  workers.WayLost(0, {5}, 1);
  CHECK(workers.Ready(0, 1, kNow).broken == Ids{3, 4, 5});
  CHECK(workers.Ready(0, 1, kNow).broken.empty());
  workers.WayLost(0, {6}, 1);
  CHECK(workers.Ready(0, 2, kNow).broken.empty());  // shards have moved since
  workers.WayLost(0, {7}, 2);
  workers.Lost(0, kNow);
  CHECK(workers.Ready(0, 2, kNow).broken.empty());  // it was the worker
}

TEST_CASE("the wait after a lost way doubles, is bounded, and begins anew with a closure that ends",
          "[worker_table]") {
  WorkerTable workers;
  workers.Resize(1);
  const absl::Duration first = workers.WayLost(0, {}, 1).wait;
  CHECK(workers.WayLost(0, {}, 1).wait == 2 * first);
  int said = 0;
  absl::Duration last;
  for (int i = 3; i <= 64; ++i) {
    const auto lost = workers.WayLost(0, {}, 1);
    CHECK(lost.times == i);
    said += lost.say ? 1 : 0;
    last = lost.wait;
  }
  CHECK(last == 32 * first);
  CHECK(said == 5);  // 4, 8, 16, 32, 64
  workers.Completed(0);
  CHECK(workers.WayLost(0, {}, 1).wait == first);
}

TEST_CASE("a worker rests when one closure after the other takes too long, each time for longer",
          "[worker_table]") {
  WorkerTable workers;
  workers.Resize(1);
  workers.Ready(0, 1, kNow);
  CHECK_FALSE(workers.TimedOut(0, kLong));
  workers.Answered(0);
  CHECK_FALSE(workers.TimedOut(0, kLong));
  const auto rest = workers.TimedOut(0, kLong);
  REQUIRE(rest);
  CHECK(rest->timeouts == 2);
  CHECK_FALSE(workers.ready(0));
  CHECK(workers.new_streams(0));
  CHECK_FALSE(workers.TimedOut(0, kLong));  // it rests already
  workers.Ready(0, 1, kNow);
  CHECK_FALSE(workers.new_streams(0));
  const auto longer = workers.TimedOut(0, kLong);
  REQUIRE(longer);
  CHECK(longer->time == 4 * rest->time);
  workers.Ready(0, 1, kNow);
  CHECK(workers.TimedOut(0, rest->time)->time == rest->time);
}

}  // namespace
}  // namespace coxswain::core
