// Counters that give numbers, and metrics that closures update.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "coordinator/api/variable_info.h"
#include "tests/testing/cluster.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using testing::Floats;
using testing::Must;
using testing::MustStart;
using testing::ToVector;

TEST_CASE("each closure gets a number of its own from a counter, whatever runs beside it",
          "[api]") {
  ParameterServerStrategy strategy(MustStart(2, 3));
  const Variable step =
      Must(strategy.CreateVariable("step", {.shape = Shape{}, .dtype = DType::kI64}));
  const RemoteFunction next = Must(strategy.Define("next", [&](FunctionBuilder& f) {
    f.Result("number", f.FetchAdd(step, f.Constant(Tensor::Scalar<int64_t>(1))));
  }));
  const RemoteFunction unseen = Must(strategy.Define("unseen", [&](FunctionBuilder& f) {
    f.FetchAdd(step, f.Constant(Tensor::Scalar<int64_t>(1)));
  }));
  ClusterCoordinator coordinator(strategy);
  std::vector<RemoteValue> values;
  for (int i = 0; i < 300; ++i) values.push_back(coordinator.Schedule(next));
  Must(coordinator.Join());
  const std::vector<int64_t> numbers = Must(coordinator.Fetch<int64_t>(values, "number"));
  const std::set<int64_t> all(numbers.begin(), numbers.end());
  CHECK(all.size() == 300);
  CHECK(*all.begin() == 0);
  CHECK(*all.rbegin() == 299);
  // A program branches on it.
  CHECK(Must(strategy.Read(step)).data<int64_t>()[0] == 300);
  coordinator.Schedule(unseen);
  Must(coordinator.Join());
  CHECK(Must(strategy.Read(step)).data<int64_t>()[0] == 301);
}

TEST_CASE("a moving average goes by what its variable is when it is moved, in each of its shards",
          "[api]") {
  ParameterServerStrategy strategy(MustStart(2, 2));
  const Variable mean =
      Must(strategy.CreateVariable("mean", {.shape = Shape{4}, .partitioner = FixedShards(2)}));
  const RemoteFunction move = Must(strategy.Define("move", [&](FunctionBuilder& f) {
    const Output towards = f.Constant(Floats({1, 2, 4, 8}));
    f.AssignMovingAverage(mean, towards, /*decay=*/0.5);
  }));
  ClusterCoordinator coordinator(strategy);
  for (int i = 0; i < 20; ++i) coordinator.Schedule(move);  // many are under way at a time
  Must(coordinator.Join());
  const float far = 1 - 1.0f / (1 << 20);
  CHECK(ToVector<float>(Must(strategy.Read(mean))) ==
        std::vector<float>{far, 2 * far, 4 * far, 8 * far});
  for (const double decay : {1.0, -0.5}) {
    const auto wrong = strategy.Define("wrong", [&](FunctionBuilder& f) {
      f.AssignMovingAverage(mean, f.Constant(Floats({0, 0, 0, 0})), decay);
    });
    CHECK(absl::StrContains(wrong.status().message(), "wanted 0 <= decay < 1"));
  }
}

TEST_CASE("FetchAdd is for a variable of one number, once in a function", "[api]") {
  ParameterServerStrategy strategy(MustStart(1, 1));
  const Variable two = Must(strategy.CreateVariable("two", {.shape = Shape{2}}));
  const Variable one = Must(strategy.CreateVariable("one", {.shape = Shape{1}}));
  const auto wide = strategy.Define("wide", [&](FunctionBuilder& f) {
    f.FetchAdd(two, f.Constant(Floats({1, 1})));
  });
  CHECK(absl::StrContains(wide.status().message(), "found 'two' [2]"));
  const auto twice = strategy.Define("twice", [&](FunctionBuilder& f) {
    f.FetchAdd(one, f.Constant(Floats({1})));
    f.FetchAdd(one, f.Constant(Floats({1})));
  });
  CHECK(twice.status().code() == absl::StatusCode::kInvalidArgument);
  const auto integer = strategy.Define("integer", [&](FunctionBuilder& f) {
    f.FetchAdd(one, f.Constant(Tensor::FromVector<int64_t>({1})));
  });
  CHECK(integer.status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("updates of several batches that come in any order take no numbers from a counter",
          "[api][free]") {
  for (const Consistency& consistency :
       {Consistency{.mode = ConsistencyMode::kHybrid, .group_size = 2},
        Consistency{.accumulate = 2}}) {
    ParameterServerStrategy strategy(MustStart(1, 1), {.consistency = consistency});
    const Variable count =
        Must(strategy.CreateVariable("count", {.shape = Shape{}, .dtype = DType::kI64}));
    const RemoteFunction next = Must(strategy.Define("next", [&](FunctionBuilder& f) {
      f.Result("number", f.FetchAdd(count, f.Constant(Tensor::Scalar<int64_t>(1))));
    }));
    ClusterCoordinator coordinator(strategy);
    const std::vector<Ticket> tickets(2);
    for (const RemoteValue& value : coordinator.ScheduleStep(next, tickets)) {
      const absl::Status status = value.Get().status();
      CHECK(status.code() == absl::StatusCode::kInvalidArgument);
      CHECK(absl::StrContains(status.message(), "'next' takes numbers from 'count' (FetchAdd)"));
    }
    CHECK_FALSE(coordinator.Join().ok());
    // Closures that are no part of such an update have a number each.
    std::set<int64_t> numbers;
    for (int i = 0; i < 20; ++i) {
      numbers.insert(Must(coordinator.Fetch<int64_t>(coordinator.Schedule(next), "number")));
    }
    CHECK(numbers.size() == 20);
  }
}

TEST_CASE("a mean has each closure's numbers once, weighed where it is asked for", "[api]") {
  ParameterServerStrategy strategy(MustStart(2, 2));
  const MeanMetric mean = Must(strategy.CreateMean("mean"));
  const MeanMetric weighed = Must(strategy.CreateMean("weighed"));
  CHECK(Must(strategy.Read(mean)) == 0);
  const RemoteFunction update = Must(strategy.Define("update", [&](FunctionBuilder& f) {
    const Output values = f.Argument("values", DType::kF32, Shape{kUnknownDim});
    f.Update(mean, values);
    f.Update(weighed, values, f.Argument("weights", DType::kF32, Shape{kUnknownDim}));
  }));
  ClusterCoordinator coordinator(strategy);
  for (int i = 0; i < 100; ++i) {
    coordinator.Schedule(update, {Floats({static_cast<float>(i), 1}), Floats({1, 3})});
  }
  Must(coordinator.Join());
  CHECK(Must(strategy.Read(mean)) == Approx((4950 + 100) / 200.0));
  CHECK(Must(strategy.Read(weighed)) == Approx((4950 + 300) / 400.0));
  Must(strategy.Reset(mean));
  CHECK(Must(strategy.Read(mean)) == 0);
  coordinator.Schedule(update, {Floats({8}), Floats({1})});
  Must(coordinator.Join());
  CHECK(Must(strategy.Read(mean)) == 8);
  CHECK_FALSE(strategy.Read(MeanMetric()).ok());
  CHECK(strategy.CreateMean("mean").status().code() == absl::StatusCode::kAlreadyExists);
}

TEST_CASE("weights of a mean are broadcast to the values, and never beyond them", "[api]") {
  ParameterServerStrategy strategy(MustStart(1, 1));
  const MeanMetric mean = Must(strategy.CreateMean("mean"));
  const auto update = [&](Shape values, Shape weights, float weight) -> absl::StatusOr<double> {
    const absl::Status reset = strategy.Reset(mean);
    if (!reset.ok()) return reset;
    const auto function = strategy.Define("update", [&](FunctionBuilder& f) {
      const Output numbers = f.Constant(Floats({1, 2, 3, 4}));
      const Output ones = f.Constant(Tensor::FromVector(
          std::vector<float>(static_cast<size_t>(weights.num_elements()), weight)));
      f.Update(mean, f.Reshape(numbers, values), f.Reshape(ones, weights));
    });
    if (!function.ok()) return function.status();
    ClusterCoordinator coordinator(strategy);
    coordinator.Schedule(*function);
    const absl::Status joined = coordinator.Join();
    if (!joined.ok()) return joined;
    return strategy.Read(mean);
  };
  CHECK(Must(update({4}, {4}, 1)) == 2.5);
  CHECK(Must(update({4}, {}, 2)) == 2.5);
  CHECK(Must(update({4}, {1}, 2)) == 2.5);
  CHECK(Must(update({2, 2}, {2}, 3)) == 2.5);
  CHECK(Must(update({2, 2}, {2, 1}, 3)) == 2.5);
  for (const auto& [values, weights] :
       {std::pair{Shape{4}, Shape{4, 1}}, {Shape{4, 1}, Shape{4}}, {Shape{2, 2}, Shape{4}}}) {
    const absl::Status refused = update(values, weights, 1).status();
    CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(refused.message(), "Update: wanted weights for values"));
  }
}

// Keras' algorithm in another form: of all pairs of a positive and a negative label, the share
// whose predictions are in order, half of those between the same two thresholds.
double AreaByPairs(const std::vector<float>& labels, const std::vector<float>& predictions,
                   const std::vector<float>& weights, int64_t thresholds) {
  const auto interval = [&](float p) {
    return std::max(0.0, std::ceil(double{p} * static_cast<double>(thresholds - 1)) - 1);
  };
  double right = 0, all = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    for (size_t j = 0; j < labels.size(); ++j) {
      const double pair = double{weights[i]} * labels[i] * weights[j] * (1 - double{labels[j]});
      const double above = interval(predictions[i]), below = interval(predictions[j]);
      all += pair;
      right += above > below ? pair : above == below ? pair / 2 : 0;
    }
  }
  return right / all;
}

TEST_CASE("an area under the ROC curve is that of all closures' predictions, each once", "[api]") {
  constexpr int64_t kThresholds = 20;
  ParameterServerStrategy strategy(MustStart(2, 2));
  const AucMetric plain = Must(strategy.CreateAuc("plain", kThresholds));
  const AucMetric weighed = Must(strategy.CreateAuc("weighed"));
  const RemoteFunction update = Must(strategy.Define("update", [&](FunctionBuilder& f) {
    const Output labels = f.Argument("labels", DType::kF32, Shape{kUnknownDim});
    const Output predictions = f.Argument("predictions", DType::kF32, Shape{kUnknownDim});
    f.Update(plain, labels, predictions);
    f.Update(weighed, labels, predictions, f.Argument("weights", DType::kF32, Shape{kUnknownDim}));
  }));
  CHECK_THAT(std::string(strategy.Read(plain).status().message()),
             Contains("AUC 'plain': wanted positive and negative labels"));
  std::vector<float> labels, predictions, weights;
  ClusterCoordinator coordinator(strategy);
  for (int i = 0; i < 50; ++i) {
    // Some on the thresholds, and the ends.
    const float p = i % 5 == 0 ? static_cast<float>(i) / 45 : static_cast<float>(i * 37 % 50) / 49;
    labels.push_back(i % 7 == 0 ? 0.25f : static_cast<float>(i * i % 3 == 1));
    predictions.push_back(std::min(p, 1.f));
    weights.push_back(static_cast<float>(1 + i % 4));
    coordinator.Schedule(
        update, {Floats({labels.back()}), Floats({predictions.back()}), Floats({weights.back()})});
  }
  Must(coordinator.Join());
  CHECK(Must(strategy.Read(plain)) ==
        Approx(AreaByPairs(labels, predictions, std::vector<float>(50, 1), kThresholds)));
  CHECK(Must(strategy.Read(weighed)) == Approx(AreaByPairs(labels, predictions, weights, 200)));
  Must(strategy.Reset(plain));
  CHECK_FALSE(strategy.Read(plain).ok());
  coordinator.Schedule(update, {Floats({1, 0}), Floats({1, 0}), Floats({1, 1})});
  Must(coordinator.Join());
  CHECK(Must(strategy.Read(plain)) == 1);
}

TEST_CASE("what is no probability, and shapes that differ, are errors of an area", "[api]") {
  ParameterServerStrategy strategy(MustStart(1, 1));
  const AucMetric auc = Must(strategy.CreateAuc("auc"));
  const auto update = [&](const Tensor& labels, const Tensor& predictions) {
    const auto defined = strategy.Define("update", [&](FunctionBuilder& f) {
      f.Update(auc, f.Constant(labels), f.Constant(predictions));
    });
    if (!defined.ok()) return defined.status();
    ClusterCoordinator coordinator(strategy);
    coordinator.Schedule(*defined);
    return coordinator.Join();
  };
  for (const float wrong : {-0.01f, 1.01f, NAN}) {
    CHECK_THAT(update(Floats({1, 0}), Floats({0.5f, wrong})).ToString(),
               Contains("'auc' wants labels and predictions from 0 to 1"));
    CHECK_THAT(update(Floats({1, wrong}), Floats({0.5f, 0.5f})).ToString(),
               Contains("'auc' wants labels and predictions from 0 to 1"));
  }
  CHECK_THAT(update(Floats({1}), Floats({0.5f, 0.5f})).ToString(),
             Contains("wanted labels for predictions [2], found [1]"));
  CHECK_FALSE(strategy.Read(auc).ok());  // nothing of all this is in it
  CHECK_FALSE(strategy.Read(AucMetric()).ok());
  CHECK_FALSE(strategy.Reset(AucMetric()).ok());
  CHECK_FALSE(
      strategy
          .Define("none",
                  [&](FunctionBuilder& f) { f.Update(AucMetric(), f.Scalar(1), f.Scalar(1)); })
          .ok());
  CHECK_THAT(std::string(strategy.CreateAuc("few", 1).status().message()),
             Contains("wanted two thresholds or more, found 1"));
}

}  // namespace
}  // namespace coxswain
