// Closures that their program gives up one by one: by their futures, or by a deadline.
#include <catch2/catch.hpp>
#include <vector>

#include "absl/strings/match.h"
#include "runtime/base/status.h"
#include "tests/testing/cluster.h"
#include "tests/testing/gate.h"

namespace coxswain {
namespace {

using testing::Gate;
using testing::Must;
using testing::MustStart;
using testing::ToVector;

// A counter, and what adds 1 to it.
struct Counting {
  explicit Counting(ErrorPolicy policy = ErrorPolicy::kFailFast, int in_flight = 1)
      : cluster(MustStart(1, 1, in_flight, /*threads=*/1)),
        strategy(cluster),
        counter(
            Must(strategy.CreateVariable("counter", {.shape = Shape{1}, .dtype = DType::kI64}))),
        increment(Must(strategy.Define("increment",
                                       [&](FunctionBuilder& f) {
                                         f.AssignAdd(counter,
                                                     f.Constant(Tensor::FromVector<int64_t>({1})));
                                       }))),
        coordinator(strategy, With(policy)) {}
  static CoordinatorOptions With(ErrorPolicy policy) {
    CoordinatorOptions options;
    options.on_error = policy;
    return options;
  }
  int64_t Count() { return ToVector<int64_t>(Must(strategy.Read(counter)))[0]; }

  Cluster cluster;
  ParameterServerStrategy strategy;
  Variable counter;
  RemoteFunction increment;
  ClusterCoordinator coordinator;
};

TEST_CASE("a closure that has not started ends at once when its future is cancelled", "[api]") {
  Counting c;
  Gate gate(c.cluster);
  std::vector<RemoteValue> values;
  for (int i = 0; i < 4; ++i) values.push_back(c.coordinator.Schedule(c.increment));
  values[2].Cancel();
  const absl::Status status = values[2].Get().status();
  CHECK(status.code() == absl::StatusCode::kCancelled);
  CHECK(GetEffect(status) == Effect::kNothing);
  CHECK(absl::StrContains(status.message(), "closure 3 was cancelled; it has changed nothing"));
  gate.Open();
  // The program wanted it so: that is no error.
  Must(c.coordinator.Join());
  CHECK(c.coordinator.failed() == 0);
  CHECK(c.Count() == 3);
  for (const int i : {0, 1, 3}) CHECK(values[static_cast<size_t>(i)].Get().ok());
  values[0].Cancel();  // too late
  CHECK(values[0].Get().ok());
}

TEST_CASE("of a closure that was cancelled while it ran its future says so, or that it was done",
          "[api]") {
  Counting c;
  Gate gate(c.cluster);
  const RemoteValue value = c.coordinator.Schedule(c.increment);
  value.Cancel();
  gate.Open();
  const absl::Status status = value.Get().status();
  Must(c.coordinator.Join());
  if (!status.ok()) {
    CHECK(status.code() == absl::StatusCode::kCancelled);
    CHECK(GetEffect(status) == Effect::kUnknown);
  }
  CHECK(c.Count() == (status.ok() ? 1 : 0));
}

TEST_CASE("closures that are not over by their deadlines end then, whatever keeps them", "[api]") {
  Counting c(ErrorPolicy::kCollect);
  Gate gate(c.cluster);
  const RemoteValue runs =
      c.coordinator.Schedule(c.increment, {.deadline = absl::Milliseconds(10)});
  const RemoteValue waits =
      c.coordinator.Schedule(c.increment, {.deadline = absl::Milliseconds(10)});
  const RemoteValue patient = c.coordinator.Schedule(c.increment, {.deadline = absl::Hours(1)});
  const absl::Status queued = waits.Get().status();
  CHECK(queued.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(GetEffect(queued) == Effect::kNothing);
  CHECK(absl::StrContains(queued.message(), "closure 2 was not over by its deadline"));
  // Its worker, which is busy, does not say what becomes of it.
  const absl::Status hung = runs.Get().status();
  CHECK(hung.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(GetEffect(hung) == Effect::kUnknown);
  gate.Open();
  CHECK(patient.Get().ok());
  CHECK(c.coordinator.Join().code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(c.coordinator.failed() == 2);
  const int64_t count = c.Count();
  CHECK((count == 1 || count == 2));
}

TEST_CASE("a deadline that has passed already ends a closure, and one far off does not", "[api]") {
  Counting c(ErrorPolicy::kIgnore);
  const absl::Duration deadline =
      GENERATE(absl::ZeroDuration(), -absl::Seconds(1), -absl::InfiniteDuration());
  const RemoteValue late = c.coordinator.Schedule(c.increment, {.deadline = deadline});
  const RemoteValue good = c.coordinator.Schedule(c.increment, {.deadline = absl::Hours(1)});
  const absl::Status status = late.Get().status();
  Must(c.coordinator.Join());
  CHECK(good.Get().ok());
  CHECK(status.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(GetEffect(status) == Effect::kNothing);
  CHECK(c.coordinator.failed() == 1);
  CHECK(c.Count() == 1);
}

TEST_CASE("a deadline is an error by the policy, and ends all others when these fail fast",
          "[api]") {
  Counting c;
  Gate gate(c.cluster);
  std::vector<RemoteValue> values;
  values.push_back(c.coordinator.Schedule(c.increment));
  values.push_back(c.coordinator.Schedule(c.increment, {.deadline = absl::Milliseconds(1)}));
  values.push_back(c.coordinator.Schedule(c.increment));
  CHECK(values[2].Get().status().code() == absl::StatusCode::kCancelled);
  gate.Open();
  CHECK(c.coordinator.Join() == values[1].Get().status());
}

}  // namespace
}  // namespace coxswain
