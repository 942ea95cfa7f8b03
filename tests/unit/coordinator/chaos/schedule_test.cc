// The schedule of faults: a pure function of the file and its seed.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coordinator/chaos/schedule.h"

namespace coxswain::chaos {
namespace {

ChaosSpec Spec(uint64_t seed) {
  const auto spec = ParseChaos(R"(
faults:
  - {task: worker, every: 5s, jitter: 2s, restart_delay: [100ms, 3s]}
  - {task: ps, action: stop, every: 7s, after: 10s, count: 4, stop_for: [1s, 2s]}
  - {task: coordinator, at: [30s, 10s], jitter: 1s}
)",
                               "chaos.yaml");
  REQUIRE(spec.ok());
  ChaosSpec result = *spec;
  result.seed = seed;
  return result;
}

// All of a fault, for comparing.
std::vector<int64_t> Fields(const PlannedFault& f) {
  return {absl::ToInt64Nanoseconds(f.at),
          f.rule,
          f.number,
          static_cast<int64_t>(f.task),
          f.index,
          static_cast<int64_t>(f.action),
          absl::ToInt64Nanoseconds(f.restart_delay),
          absl::ToInt64Nanoseconds(f.stop_for)};
}

std::vector<std::vector<int64_t>> Schedule(uint64_t seed, absl::Duration until) {
  std::vector<std::vector<int64_t>> all;
  for (const PlannedFault& fault : MakeSchedule(Spec(seed), 3, 4, until)) {
    all.push_back(Fields(fault));
  }
  return all;
}

TEST_CASE("the same seed gives the same schedule, another seed another one", "[chaos]") {
  const auto schedule = Schedule(1, absl::Minutes(5));
  CHECK(schedule.size() > 50);
  CHECK(schedule == Schedule(1, absl::Minutes(5)));
  CHECK(schedule != Schedule(2, absl::Minutes(5)));
}

TEST_CASE("a longer schedule begins with the shorter one", "[chaos]") {
  const auto shorter = Schedule(3, absl::Seconds(60));
  auto longer = Schedule(3, absl::Minutes(10));
  REQUIRE(longer.size() > shorter.size());
  longer.resize(shorter.size());
  CHECK(longer == shorter);
}

TEST_CASE("a schedule on this and every machine is this one", "[chaos]") {
  ChaosSpec spec = Spec(1);
  FaultStream stream(spec, 3, 4);
  const auto first = stream.Next();
  REQUIRE(first.has_value());
  // Changed numbers would make seeds in reports worthless.
  CHECK(Fields(*first) == std::vector<int64_t>{5865029302, 0, 0, 0, 2, 0, 2860992727, 0});
}

TEST_CASE("faults come in order of time, within their jitter, delays and counts", "[chaos]") {
  int64_t per_rule[3] = {};
  absl::Duration last;
  bool workers[4] = {}, ps[3] = {};
  for (const PlannedFault& f : MakeSchedule(Spec(5), 3, 4, absl::Minutes(5))) {
    CHECK(f.at >= last);
    last = f.at;
    ++per_rule[f.rule];
    if (f.rule == 0) {
      const absl::Duration planned = absl::Seconds(5) * (f.number + 1);
      CHECK(f.at >= planned - absl::Seconds(2));
      CHECK(f.at <= planned + absl::Seconds(2));
      CHECK(f.restart_delay >= absl::Milliseconds(100));
      CHECK(f.restart_delay <= absl::Seconds(3));
      REQUIRE((f.index >= 0 && f.index < 4));
      workers[f.index] = true;
    } else if (f.rule == 1) {
      CHECK(f.action == FaultAction::kStop);
      CHECK(f.at == absl::Seconds(10) + absl::Seconds(7) * (f.number + 1));
      CHECK(f.stop_for >= absl::Seconds(1));
      CHECK(f.stop_for <= absl::Seconds(2));
      REQUIRE((f.index >= 0 && f.index < 3));
      ps[f.index] = true;
    } else {
      CHECK(f.task == TaskKind::kCoordinator);
      CHECK(f.index == 0);
    }
  }
  CHECK(per_rule[0] >= 58);
  CHECK(per_rule[1] == 4);
  CHECK(per_rule[2] == 2);
  for (const bool hit : workers) CHECK(hit);  // by chance everyone's turn comes
  CHECK((ps[0] || ps[1] || ps[2]));
}

TEST_CASE("a rule that is added changes no fault of those before it", "[chaos]") {
  ChaosSpec spec = Spec(9), more = Spec(9);
  more.faults.push_back(more.faults[0]);
  more.faults.back().index = 2;
  std::vector<std::vector<int64_t>> with, without;
  for (const PlannedFault& f : MakeSchedule(more, 3, 4, absl::Minutes(2))) {
    if (f.rule < 3) with.push_back(Fields(f));
    if (f.rule == 3) CHECK(f.index == 2);
  }
  for (const PlannedFault& f : MakeSchedule(spec, 3, 4, absl::Minutes(2))) {
    without.push_back(Fields(f));
  }
  CHECK(with == without);
}

TEST_CASE("faults at numbers of updates come in their order, and none of them at a time",
          "[chaos]") {
  const auto spec = ParseChaos(R"(
faults:
  - {task: ps, at_update: [500, 20], restart_delay: 1s}
  - {task: "worker:1", action: stop, at_update: [100]}
  - {task: coordinator, at: 3s}
)",
                               "chaos.yaml");
  INFO(spec.status());
  REQUIRE(spec.ok());
  const std::vector<PlannedFault> faults = FaultStream(*spec, 3, 4).AtUpdates();
  REQUIRE(faults.size() == 3);
  CHECK(faults[0].at_update == 20);
  CHECK(faults[1].at_update == 100);
  CHECK(faults[1].index == 1);
  CHECK(faults[1].action == FaultAction::kStop);
  CHECK(faults[2].at_update == 500);
  CHECK(faults[2].restart_delay == absl::Seconds(1));
  const auto timed = MakeSchedule(*spec, 3, 4, absl::Hours(1));
  REQUIRE(timed.size() == 1);
  CHECK(timed[0].task == TaskKind::kCoordinator);
}

}  // namespace
}  // namespace coxswain::chaos
