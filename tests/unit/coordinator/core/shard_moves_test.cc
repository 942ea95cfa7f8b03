#include <catch2/catch.hpp>

#include "coordinator/core/shard_moves.h"

namespace coxswain::core {
namespace {

constexpr absl::Duration kNow = absl::Seconds(100);

TEST_CASE("pauses take no larger part of the time than they may", "[shard_moves]") {
  ShardMoves m;
  CHECK(m.Due(kNow));
  m.Begin({{1, 0}, {2, 0}}, kNow);
  m.Move({{1, 1}});
  CHECK(m.Moved(kNow + absl::Seconds(1)) == absl::Seconds(1));
  CHECK(m.shards() == 1);  // the other one could not
  m.EndPause(/*share=*/0.1, kNow + absl::Seconds(2));
  CHECK(m.seconds() == Approx(2));
  CHECK_FALSE(m.Due(kNow + absl::Seconds(21)));
  CHECK(m.Due(kNow + absl::Seconds(22)));
  m.EndPause(0.1, kNow + absl::Seconds(50));  // it was over
  CHECK(m.seconds() == Approx(2));
}

TEST_CASE("a pause that a loss has ended is none", "[shard_moves]") {
  ShardMoves m;
  m.Begin({{1, 0}}, kNow);
  m.Abort();
  m.EndPause(0.1, kNow + absl::Seconds(2));
  CHECK(m.seconds() == 0);
  CHECK(m.Due(kNow));
}

TEST_CASE("what comes for older moves is late", "[shard_moves]") {
  ShardMoves m;
  const uint64_t first = m.Begin({{1, 0}}, kNow);
  CHECK(m.IsCurrent(first));
  const uint64_t second = m.Begin({{1, 1}}, kNow);
  CHECK_FALSE(m.IsCurrent(first));
  CHECK(m.IsCurrent(second));
}

TEST_CASE("shards that could not be moved stay for good", "[shard_moves]") {
  ShardMoves m;
  m.Begin({{1, 0}}, kNow);
  m.Failed();
  m.EndPause(0.1, kNow);
  CHECK_FALSE(m.Due(kNow + absl::Hours(1000)));
}

}  // namespace
}  // namespace coxswain::core
