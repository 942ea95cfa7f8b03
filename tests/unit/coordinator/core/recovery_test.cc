// The parts that recovery from lost parameter servers is made of.

#include <catch2/catch.hpp>

#include "coordinator/core/closure_log.h"
#include "coordinator/core/ps_recovery.h"
#include "coordinator/core/shard_map.h"

namespace coxswain::core {
namespace {

const std::set<int> kNone;

TEST_CASE("shards are restored when all lost PS are back", "[recovery]") {
  PsRecovery r(absl::Seconds(10));
  CHECK(r.running());
  r.Lost(1, absl::Seconds(100));
  r.Lost(2, absl::Seconds(101));
  CHECK_FALSE(r.running());
  CHECK_FALSE(r.Decide(absl::Seconds(102), {0}));
  r.Back(1);
  CHECK_FALSE(r.Decide(absl::Seconds(103), {0, 1}));
  r.Back(2);
  const auto decision = r.Decide(absl::Seconds(104), {0, 1, 2});
  REQUIRE(decision);
  CHECK(decision->gone == kNone);
  r.Begin();
  CHECK(r.restoring());
  CHECK_FALSE(r.Decide(absl::Seconds(105), {0, 1, 2}));
  r.Finish();
  CHECK(r.running());
  CHECK(r.lost() == 0);
}

TEST_CASE("a lost PS is given up after a while, if there is another", "[recovery]") {
  PsRecovery r(absl::Seconds(10));
  r.Lost(0, absl::Seconds(100));
  CHECK(r.Deadline() == absl::Seconds(110));
  CHECK_FALSE(r.TimeIsOver(absl::Seconds(109)));
  CHECK(r.TimeIsOver(absl::Seconds(110)));
  CHECK_FALSE(r.Decide(absl::Seconds(110), {}));  // nobody to take its shards
  const auto decision = r.Decide(absl::Seconds(110), {1});
  REQUIRE(decision);
  CHECK(decision->gone == std::set<int>{0});
}

TEST_CASE("a PS whose connection broke has lost nothing, until restoring began", "[recovery]") {
  PsRecovery r(absl::Seconds(10));
  r.Lost(0, absl::Seconds(100));
  r.Lost(1, absl::Seconds(100));
  CHECK_FALSE(r.begun());
  CHECK_FALSE(r.Intact(0));
  CHECK(r.Intact(1));
  CHECK(r.running());
}

TEST_CASE("the time of lost PS stands still while none is there", "[recovery]") {
  PsRecovery r(absl::Seconds(10));
  const absl::Duration begin = absl::Seconds(100);
  CHECK_FALSE(r.OneThere(begin));
  r.Lost(0, begin);
  r.Lost(1, begin + absl::Seconds(3));
  r.Lost(2, begin + absl::Seconds(4));
  r.AllAway(begin + absl::Seconds(4));
  r.AllAway(begin + absl::Seconds(5));
  const absl::Duration back = begin + absl::Seconds(60);
  CHECK(r.TimeIsOver(back));  // a job that nothing can go on from need not wait
  CHECK(r.OneThere(back));
  CHECK_FALSE(r.OneThere(back));
  CHECK(r.LostAt(1) == begin + absl::Seconds(3));
  CHECK_FALSE(r.Intact(1));
  // 4 of its 10 seconds were over.
  CHECK_FALSE(r.Decide(back + absl::Seconds(5.9), {1}));
  CHECK_FALSE(r.Decide(back + absl::Seconds(6), {1}));  // 2 has ten
  CHECK(r.Deadline() == back + absl::Seconds(10));
  r.Back(0);
  const auto decision = r.Decide(back + absl::Seconds(10), {0, 1});
  REQUIRE(decision);
  CHECK(decision->gone == std::set<int>{2});
  CHECK(r.since() == begin);
}

TEST_CASE("a PS that is lost while others are restored is waited for too", "[recovery]") {
  PsRecovery r(absl::Seconds(10));
  r.Lost(0, absl::Seconds(100));
  r.Back(0);
  REQUIRE(r.Decide(absl::Seconds(101), {0, 1}));
  r.Begin();
  r.Lost(1, absl::Seconds(102));
  CHECK(r.begun());
  CHECK_FALSE(r.restoring());
  CHECK_FALSE(r.Decide(absl::Seconds(103), {0}));
  r.Back(1);
  CHECK(r.Decide(absl::Seconds(103), {0, 1}));
  CHECK(r.since() == absl::Seconds(100));
  CHECK(r.lost() == 2);
}

TEST_CASE("shards move while no PS is lost, and a loss meanwhile is an ordinary one",
          "[recovery]") {
  PsRecovery r(absl::Seconds(10));
  r.Move(absl::Seconds(5));
  CHECK(r.restoring());
  CHECK(r.begun());
  CHECK(r.lost() == 0);
  CHECK(r.since() == absl::Seconds(5));
  r.Finish();
  CHECK(r.running());
  r.Move(absl::Seconds(20));
  r.Lost(1, absl::Seconds(21));
  CHECK_FALSE(r.restoring());
  CHECK(r.since() == absl::Seconds(21));
  CHECK_FALSE(r.Decide(absl::Seconds(22), {0}));
  CHECK(r.Decide(absl::Seconds(31), {0})->gone == std::set<int>{1});
  r.Begin();
  r.Finish();
  // The moves alone failed: what they left is restored at once.
  r.Move(absl::Seconds(40));
  r.Again();
  CHECK(r.Decide(absl::Seconds(40), {0, 1})->gone.empty());
}

TEST_CASE("shards are there while a move is prepared, and a loss meanwhile is waited for",
          "[recovery]") {
  PsRecovery r(absl::Seconds(10));
  CHECK(r.phase() == Phase::kRunning);
  r.Drain();
  CHECK(r.phase() == Phase::kDraining);
  CHECK(r.running());
  CHECK(r.moving());
  r.Stay();
  CHECK(r.phase() == Phase::kRunning);
  CHECK_FALSE(r.moving());
  r.Drain();
  r.Save();
  CHECK(r.running());
  r.Move(absl::Seconds(1));
  CHECK(r.phase() == Phase::kMoving);
  CHECK(r.restoring());
  CHECK_FALSE(r.running());
  r.Finish();
  r.Drain();
  r.Lost(0, absl::Seconds(2));
  CHECK(r.phase() == Phase::kWaiting);
  CHECK_FALSE(r.moving());
}

proto::ShardSpec ShardOf(ShardId id, int64_t rows, int ps) {
  proto::ShardSpec shard;
  shard.set_id(id);
  shard.set_rows(rows);
  shard.set_ps(ps);
  return shard;
}

TEST_CASE("a PS that cannot read what it is given is given up after a while, if there is another",
          "[recovery]") {
  PsRecovery r(absl::Seconds(10));
  const absl::Duration begin = absl::Seconds(100);
  CHECK(r.CannotReadFor(begin) == absl::ZeroDuration());
  r.Lost(1, begin);
  r.Back(1);
  for (int second = 0; second < 10; ++second) {
    const absl::Duration now = begin + absl::Seconds(second);
    const auto decision = r.Decide(now, {0, 1});
    REQUIRE(decision);
    CHECK(decision->gone == kNone);
    CHECK(decision->there == std::set<int>{0, 1});
    r.Begin();
    r.CannotRead(1, now);
    CHECK(r.CannotReadFor(now) == absl::Seconds(second));
    r.Again();
  }
  const auto decision = r.Decide(begin + absl::Seconds(10), {0, 1});
  REQUIRE(decision);
  CHECK(decision->gone == std::set<int>{1});
  CHECK(decision->there == std::set<int>{0});
  // Where there is no other, it is tried for longer.
  CHECK(r.Decide(begin + absl::Seconds(10), {1})->there == std::set<int>{1});
  CHECK(r.Decide(begin + absl::Seconds(10), {1})->gone == kNone);
  // One that is started again may be able to.
  r.Lost(1, begin + absl::Seconds(11));
  r.Back(1);
  CHECK(r.Decide(begin + absl::Seconds(12), {0, 1})->gone == kNone);
}

TEST_CASE("lost PS are waited for twice as long each time that one is lost that took their shards",
          "[recovery]") {
  PsRecovery r(absl::Seconds(10));
  r.Lost(1, absl::Seconds(100));
  r.LostWhileTaking();
  CHECK(r.Deadline() == absl::Seconds(120));
  CHECK_FALSE(r.TimeIsOver(absl::Seconds(119)));
  CHECK(r.TimeIsOver(absl::Seconds(120)));
  r.LostWhileTaking();
  CHECK(r.Deadline() == absl::Seconds(140));
  for (int i = 0; i < 40; ++i) r.LostWhileTaking();
  CHECK(r.Deadline() == absl::Seconds(740));
  r.Finish();
  r.Lost(1, absl::Seconds(1000));
  CHECK(r.Deadline() == absl::Seconds(1010));
}

TEST_CASE("shards go to those that have room, and when nobody has, the lost PS is waited for",
          "[recovery]") {
  PsRecovery r(absl::Seconds(10));
  const std::set<int> there = {0, 1};
  const auto decide = [&](int second) { return r.Decide(absl::Seconds(second), there); };
  const auto refuse = [&](const std::set<int>& ps, int second) {
    return r.NoRoom(ps, there, "it is full", absl::Seconds(second));
  };
  r.Lost(2, absl::Seconds(100));
  CHECK(decide(110)->full == kNone);
  r.Begin();
  CHECK_FALSE(r.lacks_room());
  CHECK(refuse({0}, 110) == absl::Seconds(1));
  CHECK(r.lacks_room());
  r.Again();
  CHECK(r.ToString(absl::Seconds(110)) == "/job:ps/task:2 (lost 10s ago); it is full");
  CHECK(decide(111)->full == std::set<int>{0});
  r.Begin();
  CHECK(refuse({1}, 111) == absl::Seconds(2));
  r.Again();
  CHECK_FALSE(decide(119));
  CHECK(decide(120)->full == kNone);  // all may have room again
  // One that comes back has its own.
  r.Begin();
  refuse({0, 1}, 120);
  r.Again();
  CHECK_FALSE(decide(121));
  r.Back(2);
  const auto decision = r.Decide(absl::Seconds(121), {0, 1, 2});
  REQUIRE(decision);
  CHECK(decision->gone == kNone);
  CHECK(decision->full == kNone);
  r.Begin();
  r.Finish();
  CHECK_FALSE(r.lacks_room());
  CHECK(r.ToString(absl::Seconds(123)).empty());
}

TEST_CASE("a PS that has no memory for its own shards is given up after a while, if others have",
          "[recovery]") {
  PsRecovery r(absl::Seconds(10));
  const std::set<int> there = {0, 1};
  const auto refuse = [&](int second) {
    const absl::Duration pause = r.NoRoom({1}, there, "1 is full", absl::Seconds(second));
    r.Again();
    return pause;
  };
  r.Lost(1, absl::Seconds(100));
  r.Back(1);
  r.Begin();
  CHECK(refuse(101) == absl::Seconds(1));
  CHECK(r.Decide(absl::Seconds(110), there)->full == std::set<int>{1});
  CHECK(r.Decide(absl::Seconds(110), there)->gone == kNone);
  const auto decision = r.Decide(absl::Seconds(111), there);
  CHECK(decision->there == std::set<int>{0});
  CHECK(decision->gone == std::set<int>{1});
  CHECK(r.Decide(absl::Seconds(111), {1})->there == std::set<int>{1});  // there is no other
  absl::Duration pause;
  for (int i = 0; i < 20; ++i) pause = refuse(112);
  CHECK(pause == absl::Seconds(32));  // it is tried less and less often
  // One that is started again may have more.
  r.Lost(1, absl::Seconds(120));
  r.Back(1);
  CHECK(r.Decide(absl::Seconds(121), there)->full == kNone);
}

TEST_CASE("the shards of lost PS are spread evenly over the others", "[recovery]") {
  ShardMap map;
  map.Add(ShardOf(1, 100, 0));
  map.Add(ShardOf(2, 90, 0));
  map.Add(ShardOf(3, 10, 0));
  map.Add(ShardOf(4, 50, 1));
  map.Add(ShardOf(5, 60, 2));
  map.Spread({1, 2, 3}, {1, 2});
  CHECK(map.On(0).empty());
  CHECK(map.On(1) == std::vector<ShardId>{1, 3, 4});  // 50 + 100, then the smallest
  CHECK(map.On(2) == std::vector<ShardId>{2, 5});     // 60 + 90
  CHECK(map.PsOf(1) == 1);
  CHECK(map.PsOf(77) == -1);
}

TEST_CASE("the log gives back what a checkpoint lacks and forgets what it has", "[recovery]") {
  ClosureLog log(100, 0);
  for (ClosureId id : {2, 1, 4, 3, 5}) log.Add(id, {ClosureSpec{}, id});
  CHECK(log.Covers(1));
  log.Trim(3);
  CHECK_FALSE(log.Covers(2));
  CHECK(log.Covers(3));
  log.Add(2, {});  // it is in every checkpoint that counts
  const auto taken = log.Take(4, 100);
  REQUIRE(taken.size() == 2);
  CHECK(taken[0].first == 4);
  CHECK(taken[1].second.after == 5);
  CHECK(log.size() == 1);
  log.Add(4, {});
  CHECK(log.size() == 2);
}

TEST_CASE("a log that grows too long drops the oldest and tells", "[recovery]") {
  ClosureLog log(3, 0);
  for (ClosureId id = 1; id <= 5; ++id) log.Add(id, {});
  CHECK(log.size() == 3);
  CHECK_FALSE(log.Covers(2));
  CHECK(log.Covers(3));
}

TEST_CASE("a log whose arguments grow too large drops the oldest and tells", "[recovery]") {
  const auto with = [](int64_t floats) {
    ClosureLog::Entry entry;
    entry.spec.arguments = {Tensor::Zeros(DType::kF32, Shape{floats})};
    return entry;
  };
  ClosureLog log(100, 100);
  for (ClosureId id = 1; id <= 4; ++id) log.Add(id, with(10));
  CHECK(log.bytes() == 80);
  CHECK(log.size() == 2);
  CHECK_FALSE(log.Covers(2));
  CHECK(log.Covers(3));
  log.Add(4, with(5));  // it ran again
  CHECK(log.bytes() == 60);
  CHECK(log.Take(4, 100).size() == 1);
  CHECK(log.bytes() == 40);
  log.Add(5, with(26));  // too large by itself
  CHECK(log.size() == 0);
  CHECK(log.bytes() == 0);
  CHECK_FALSE(log.Covers(5));
  CHECK(log.Covers(6));
}

}  // namespace
}  // namespace coxswain::core
