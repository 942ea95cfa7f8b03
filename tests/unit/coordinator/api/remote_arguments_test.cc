// Results of closures as arguments of others.
#include <malloc.h>

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "runtime/base/status.h"
#include "tests/testing/cluster.h"
#include "tests/testing/gate.h"

namespace coxswain {
namespace {

using testing::Floats;
using testing::Gate;
using testing::Must;
using testing::MustStart;
using testing::ToVector;

struct Sums {
  explicit Sums(ErrorPolicy policy = ErrorPolicy::kFailFast)
      : cluster(MustStart(1, 2, /*in_flight=*/2, /*threads=*/1)), strategy(cluster) {
    options.on_error = policy;
    add = Must(strategy.Define("add", [](FunctionBuilder& f) {
      const Output a = f.Argument("a", DType::kF32, Shape{1});
      const Output b = f.Argument("b", DType::kF32, Shape{1});
      f.Result("sum", f.Add(a, b));
    }));
    both = Must(strategy.Define("both", [](FunctionBuilder& f) {
      const Output a = f.Argument("a", DType::kF32, Shape{1});
      f.Result("plus", f.Add(a, f.Constant(Floats({1}))));
      f.Result("minus", f.Sub(a, f.Constant(Floats({1}))));
    }));
    pick = Must(strategy.Define("pick", [](FunctionBuilder& f) {
      f.Result("picked",
               f.Gather(f.Constant(Floats({1, 2, 3})), f.Argument("id", DType::kI64, Shape{1})));
    }));
  }
  RemoteValue ScheduleError(ClusterCoordinator* coordinator) const {
    return coordinator->Schedule(pick, {Tensor::FromVector<int64_t>({9})});
  }

  Cluster cluster;
  ParameterServerStrategy strategy;
  CoordinatorOptions options;
  RemoteFunction add, both, pick;
};

TEST_CASE("a closure takes results of others that were not over when it was scheduled", "[api]") {
  Sums s;
  ClusterCoordinator coordinator(s.strategy, s.options);
  std::optional<Gate> gate(s.cluster);
  const RemoteValue two = coordinator.Schedule(s.both, {Floats({10})});
  const RemoteValue sum = coordinator.Schedule(
      s.add, {.arguments = {ClosureArgument(two, "plus"), ClosureArgument(two, "minus")}});
  const RemoteValue more = coordinator.Schedule(s.add, {.arguments = {sum, Floats({100})}});
  CHECK_FALSE(coordinator.Done());
  gate.reset();
  Must(coordinator.Join());
  CHECK(Must(coordinator.Fetch<float>(sum, "sum")) == 20);
  CHECK(Must(coordinator.Fetch<float>(more, "sum")) == 120);
  // And of those that are.
  const RemoteValue last = coordinator.Schedule(s.add, {.arguments = {more, more}});
  CHECK(Must(coordinator.Fetch<float>(last, "sum")) == 240);
}

TEST_CASE("a thousand closures take each the result of the one before", "[api]") {
  Sums s;
  ClusterCoordinator coordinator(s.strategy, s.options);
  RemoteValue value = coordinator.Schedule(s.add, {Floats({0}), Floats({1})});
  for (int i = 1; i < 1000; ++i) {
    value = coordinator.Schedule(s.add, {.arguments = {value, Floats({1})}});
  }
  Must(coordinator.Join());
  CHECK(Must(coordinator.Fetch<float>(value, "sum")) == 1000);
}

TEST_CASE("where a closure fails, all that wait for its result do, with its error", "[api]") {
  Sums s(ErrorPolicy::kCollect);
  ClusterCoordinator coordinator(s.strategy, s.options);
  std::vector<RemoteValue> values;
  {
    Gate gate(s.cluster);
    values.push_back(s.ScheduleError(&coordinator));
    for (int i = 1; i < 3000; ++i) {
      values.push_back(coordinator.Schedule(s.add, {.arguments = {values.back(), Floats({1})}}));
    }
  }
  const absl::Status joined = coordinator.Join();
  CHECK(joined == values[0].Get().status());
  CHECK(coordinator.failed() == 3000);
  const absl::Status next = values[1].Get().status();
  CHECK(next.code() == joined.code());
  CHECK(absl::StrContains(next.message(), "function 'add': argument 0: "));
  CHECK(GetEffect(next) == Effect::kNothing);
  CHECK_FALSE(values.back().Get().ok());
}

TEST_CASE("what is no result, or does not fit, is said of the argument", "[api]") {
  Sums s(ErrorPolicy::kIgnore);
  ClusterCoordinator coordinator(s.strategy, s.options);
  const RemoteValue two = coordinator.Schedule(s.both, {Floats({10})});
  const auto error = [&](ClosureArgument argument) {
    return coordinator.Schedule(s.add, {.arguments = {Floats({1}), std::move(argument)}})
        .Get()
        .status();
  };
  const absl::Status none = error(RemoteValue());
  CHECK(none.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(absl::StrContains(none.message(), "argument 1: no closure was scheduled"));
  const absl::Status unknown = error({two, "product"});
  CHECK(unknown.code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(unknown.message(),
                          "argument 1: wanted result 'product' of function 'both', which has: "
                          "plus, minus"));
  CHECK(absl::StrContains(error(two).message(), "wanted the one result of function 'both'"));
  const absl::Status shape = error(Floats({1, 2}));
  CHECK(shape.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(shape.message(), "argument 1 ('b')"));
}

TEST_CASE("closures that wait for arguments can be cancelled, and have deadlines", "[api]") {
  Sums s(ErrorPolicy::kCollect);
  ClusterCoordinator coordinator(s.strategy, s.options);
  ClusterCoordinator slow(s.strategy, s.options);
  Gate gate(s.cluster);
  const RemoteValue two = slow.Schedule(s.both, {Floats({10})});
  const auto wait = [&](absl::Duration deadline) {
    return coordinator.Schedule(
        s.add, {.arguments = {ClosureArgument(two, "plus"), Floats({1})}, .deadline = deadline});
  };
  const RemoteValue unwanted = wait(absl::InfiniteDuration());
  unwanted.Cancel();
  CHECK(unwanted.Get().status().code() == absl::StatusCode::kCancelled);
  CHECK(GetEffect(unwanted.Get().status()) == Effect::kNothing);
  const absl::Status late = wait(absl::Milliseconds(1)).Get().status();
  CHECK(late.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(GetEffect(late) == Effect::kNothing);
  CHECK(coordinator.Join() == late);
  CHECK(absl::IsDeadlineExceeded(wait(-absl::InfiniteDuration()).Get().status()));
  CHECK(absl::IsDeadlineExceeded(coordinator.Join()));
  const RemoteValue ended = wait(absl::Hours(1));
  coordinator.Cancel();
  CHECK(ended.Get().status().code() == absl::StatusCode::kCancelled);
  CHECK_FALSE(two.Ready());  // another coordinator's
  gate.Open();
  Must(slow.Join());
}

TEST_CASE("closures that wait end each at its own deadline, in whatever order they came", "[api]") {
  Sums s(ErrorPolicy::kIgnore);
  ClusterCoordinator coordinator(s.strategy, s.options);
  Gate gate(s.cluster);
  const RemoteValue two = coordinator.Schedule(s.both, {Floats({10})});
  const auto wait = [&](absl::Duration deadline) {
    return coordinator.Schedule(
        s.add, {.arguments = {ClosureArgument(two, "plus"), Floats({1})}, .deadline = deadline});
  };
  const RemoteValue later = wait(absl::Hours(2)), soon = wait(absl::Milliseconds(20)),
                    sooner = wait(absl::Milliseconds(1)), late = wait(absl::Hours(1)),
                    cancelled = wait(absl::Milliseconds(10));
  cancelled.Cancel();
  CHECK(absl::IsCancelled(cancelled.Get().status()));
  CHECK(absl::IsDeadlineExceeded(soon.Get().status()));
  CHECK(absl::IsDeadlineExceeded(sooner.Get().status()));
  CHECK(absl::IsDeadlineExceeded(wait(absl::Milliseconds(1)).Get().status()));
  CHECK_FALSE(late.Ready());
  CHECK_FALSE(later.Ready());
  gate.Open();
  CHECK(Must(coordinator.Fetch<float>(late, "sum")) == 12);
  CHECK(Must(coordinator.Fetch<float>(later, "sum")) == 12);
}

// Bytes that this process has in use, so that closures which have left something behind show.
int64_t BytesInUse() { return static_cast<int64_t>(mallinfo2().uordblks); }

TEST_CASE(
    "of closures that waited for arguments nothing is left when they are over, long before "
    "their deadlines",
    "[api]") {
  Sums s;
  ClusterCoordinator coordinator(s.strategy, s.options);
  const auto run = [&](int closures) {
    RemoteValue value = coordinator.Schedule(s.add, {Floats({0}), Floats({1})});
    for (int i = 0; i < closures; ++i) {
      value = coordinator.Schedule(s.add,
                                   {.arguments = {value, Floats({1})}, .deadline = absl::Hours(1)});
      if (i % 100 == 0) Must(coordinator.Join());
    }
    Must(coordinator.Join());
  };
  run(1000);
  const int64_t before = BytesInUse();
  constexpr int kMore = 10000;
  run(kMore);
  CHECK(BytesInUse() - before < 100 * kMore);
}

TEST_CASE("nor of those that end by their deadlines, while the arguments are still awaited",
          "[api]") {
  Sums s(ErrorPolicy::kIgnore);
  ClusterCoordinator coordinator(s.strategy, s.options);
  Gate gate(s.cluster);
  const RemoteValue two = coordinator.Schedule(s.both, {Floats({10})});
  const auto run = [&](int closures) {
    RemoteValue value;
    for (int i = 0; i < closures; ++i) {
      value = coordinator.Schedule(
          s.add, {.arguments = {ClosureArgument(two, "plus"), ClosureArgument(two, "minus")},
                  .deadline = absl::Milliseconds(1)});
      if (i % 100 == 99) CHECK(absl::IsDeadlineExceeded(value.Get().status()));
    }
  };
  run(1000);
  const int64_t before = BytesInUse();
  constexpr int kMore = 10000;
  run(kMore);
  CHECK(BytesInUse() - before < 100 * kMore);
  gate.Open();
  Must(coordinator.Join());
}

TEST_CASE("nothing of a coordinator is left when it is gone, long before its closures' deadlines",
          "[api]") {
  Sums s;
  const auto told = std::make_shared<int>(0);
  {
    ClusterCoordinator coordinator(s.strategy, s.options);
    coordinator.set_observer([told](const Ticket&, const auto&) { ++*told; });
    Gate gate(s.cluster);
    const RemoteValue two = coordinator.Schedule(s.both, {Floats({10})});
    coordinator.Schedule(s.add, {.arguments = {ClosureArgument(two, "plus"), Floats({1})},
                                 .deadline = absl::Hours(1)});
    gate.Open();
    Must(coordinator.Join());
  }
  CHECK(*told == 2);
  const absl::Time patience = absl::Now() + absl::Seconds(20);
  while (told.use_count() > 1 && absl::Now() < patience) continue;
  CHECK(told.use_count() == 1);
}

TEST_CASE("a coordinator may end while closures wait for those of another one", "[api]") {
  Sums s;
  ClusterCoordinator other(s.strategy, s.options);
  RemoteValue ended;
  {
    Gate gate(s.cluster);
    const RemoteValue two = other.Schedule(s.both, {Floats({10})});
    {
      ClusterCoordinator coordinator(s.strategy, s.options);
      ended =
          coordinator.Schedule(s.add, {.arguments = {ClosureArgument(two, "plus"), Floats({1})}});
    }
    CHECK(ended.Get().status().code() == absl::StatusCode::kCancelled);
  }
  Must(other.Join());
}

TEST_CASE("results of many closures, and of groups, are fetched at once", "[api]") {
  Sums s;
  const RemoteFunction grouped = Must(s.strategy.Define("grouped", [](FunctionBuilder& f) {
    const Output a = f.Argument("a", DType::kF32, Shape{1});
    f.Results("metrics", {{"loss", a}, {"twice", f.Add(a, a)}});
    f.Results("metrics/deep", {{"square", f.Mul(a, a)}});
    f.Result("other", a);
  }));
  ClusterCoordinator coordinator(s.strategy, s.options);
  std::vector<RemoteValue> values;
  for (int i = 0; i < 5; ++i) {
    values.push_back(coordinator.Schedule(grouped, {Floats({static_cast<float>(i)})}));
  }
  CHECK(Must(coordinator.Fetch<float>(values, "metrics/twice")) ==
        std::vector<float>{0, 2, 4, 6, 8});
  const auto all = Must(coordinator.Fetch(values));
  REQUIRE(all.size() == 5);
  CHECK(all[3].size() == 4);
  const auto metrics = Must(coordinator.FetchGroup(values[3], "metrics"));
  REQUIRE(metrics.size() == 3);
  CHECK(ToVector<float>(metrics.at("loss")) == std::vector<float>{3});
  CHECK(ToVector<float>(metrics.at("deep/square")) == std::vector<float>{9});
  CHECK(Must(coordinator.FetchGroup(values[3], "metrics/deep")).count("square") == 1);
  CHECK(Must(coordinator.FetchGroup(values[3])).size() == 4);
  const absl::Status none = coordinator.FetchGroup(values[3], "metric").status();
  CHECK(none.code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(none.message(), "has no results in 'metric'; it has: metrics/loss"));
  values.push_back(s.ScheduleError(&coordinator));
  CHECK_FALSE(coordinator.Fetch(values).ok());
  CHECK_FALSE(coordinator.Fetch<float>(values, "metrics/twice").ok());
  CHECK_FALSE(coordinator.Join().ok());
}

}  // namespace
}  // namespace coxswain
