// Per-worker values through the public interface.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "tests/testing/cluster.h"

namespace coxswain {
namespace {

using testing::Floats;
using testing::Must;
using testing::MustStart;
using testing::ToVector;

Tensor Ids(const std::vector<int64_t>& ids) { return Tensor::FromVector<int64_t>(ids); }

// The rows of "all" that "order" names, and how many these are.
RemoteFunction DefineOrdered(ParameterServerStrategy* strategy) {
  return Must(strategy->Define("ordered", [](FunctionBuilder& f) {
    const Output all = f.Argument("all", DType::kF32, Shape{kUnknownDim});
    const Output order = f.Argument("order", DType::kI64, Shape{kUnknownDim});
    const Output rows = f.Gather(all, order);
    f.Result("rows", rows);
    f.Result("sum", f.Sum(rows));
  }));
}

TEST_CASE("functions take what each worker has made for itself beside their arguments", "[api]") {
  Cluster cluster = MustStart(1, 3);
  ParameterServerStrategy strategy(cluster);
  const Variable total = Must(strategy.CreateVariable("total", {}));
  RemoteFunction take;
  {
    const PerWorkerValues values = Must(
        strategy.CreatePerWorkerValues(DefineOrdered(&strategy), {Floats({1, 2, 4}), Ids({2, 0})}));
    CHECK(values.names() == std::vector<std::string>{"rows", "sum"});
    take = Must(strategy.Define("take", [&](FunctionBuilder& f) {
      const Output x = f.Argument("x", DType::kF32, Shape{});
      f.Result("both", f.Add(f.Mul(f.Value(values, "rows"), x), f.Value(values, "sum")));
      f.Result("again", f.Value(values, "rows"));
      f.AssignAdd(total, f.Value(values, "sum"));
    }));
  }  // the function keeps them
  ClusterCoordinator coordinator(strategy);
  std::vector<RemoteValue> done;
  for (int i = 0; i < 30; ++i)
    done.push_back(coordinator.Schedule(take, {Tensor::Scalar<float>(2)}));
  for (const RemoteValue& value : done) {
    const std::vector<Tensor> results = Must(value.Get());
    CHECK(ToVector<float>(results[0]) == std::vector<float>{13, 7});
    CHECK(ToVector<float>(results[1]) == std::vector<float>{4, 1});
  }
  Must(coordinator.Join());
  CHECK(ToVector<float>(Must(strategy.Read(total))) == std::vector<float>{150});
}

TEST_CASE("random values are the same on all workers, and others each time they are made",
          "[api]") {
  Cluster cluster = MustStart(1, 3);
  ParameterServerStrategy strategy(cluster);
  const RemoteFunction draw = Must(strategy.Define("draw", [](FunctionBuilder& f) {
    f.Result("x",
             f.Op("Dropout", {f.Constant(Tensor::FromVector<float>(std::vector<float>(64, 1)))},
                  {{"rate", 0.5}, {"seed", int64_t{1}}}));
  }));
  const PerWorkerValues a = Must(strategy.CreatePerWorkerValues(draw));
  const PerWorkerValues b = Must(strategy.CreatePerWorkerValues(draw));
  const RemoteFunction both = Must(strategy.Define("both", [&](FunctionBuilder& f) {
    f.Result("a", f.Value(a));
    f.Result("b", f.Value(b, "x"));
  }));
  ClusterCoordinator coordinator(strategy);
  std::vector<RemoteValue> values;
  for (int i = 0; i < 12; ++i) values.push_back(coordinator.Schedule(both));
  const std::vector<Tensor> first = Must(values[0].Get());
  CHECK(ToVector<float>(first[0]) != ToVector<float>(first[1]));
  for (const RemoteValue& value : values) {
    const std::vector<Tensor> results = Must(value.Get());
    CHECK(ToVector<float>(results[0]) == ToVector<float>(first[0]));
    CHECK(ToVector<float>(results[1]) == ToVector<float>(first[1]));
  }
}

TEST_CASE("a function that fails on a worker is an error that names it, and leaves nothing",
          "[api]") {
  Cluster cluster = MustStart(1, 2);
  ParameterServerStrategy strategy(cluster);
  const RemoteFunction ordered = DefineOrdered(&strategy);
  const absl::Status failed =
      strategy.CreatePerWorkerValues(ordered, {Floats({1, 2}), Ids({7})}).status();
  INFO(failed.ToString());
  CHECK(absl::StrContains(failed.message(), "/job:worker/task:"));
  CHECK(absl::StrContains(failed.message(), "'ordered'"));
  REQUIRE(GetDetail(failed));
  CHECK(GetDetail(failed)->cause == ErrorCause::kApplication);
  CHECK(Must(strategy.CreatePerWorkerValues(ordered, {Floats({1, 2}), Ids({1})})).names().size() ==
        2);
}

TEST_CASE("functions that cannot make per-worker values, and arguments that do not fit", "[api]") {
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster), other(cluster);
  const Variable v = Must(strategy.CreateVariable("v", {}));
  const RemoteFunction reads =
      Must(strategy.Define("reads", [&](FunctionBuilder& f) { f.Result("v", f.Read(v)); }));
  const RemoteFunction ordered = DefineOrdered(&strategy);
  const auto error = [](ParameterServerStrategy* s, const RemoteFunction& function,
                        const std::vector<Tensor>& arguments = {}) {
    const absl::Status status = s->CreatePerWorkerValues(function, arguments).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK(absl::StrContains(error(&strategy, reads), "without variables"));
  CHECK(absl::StrContains(error(&strategy, ordered), "wanted 2 arguments, found 0"));
  CHECK(absl::StrContains(error(&strategy, ordered, {Floats({1}), Floats({1})}), "'order'"));
  CHECK(absl::StrContains(error(&other, ordered), absl::StrCat("strategy ", other.number())));
  CHECK(absl::StrContains(error(&strategy, RemoteFunction()), "no strategy"));
  const PerWorkerValues values =
      Must(strategy.CreatePerWorkerValues(ordered, {Floats({1}), Ids({0})}));
  const RemoteFunction takes = Must(strategy.Define(
      "takes", [&](FunctionBuilder& f) { f.Result("sum", f.Value(values, "sum")); }));
  CHECK(absl::StrContains(error(&strategy, takes), "takes some"));
}

TEST_CASE("values of another strategy, and a result that there is not, are errors", "[api]") {
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster), other(cluster);
  const PerWorkerValues values =
      Must(strategy.CreatePerWorkerValues(DefineOrdered(&strategy), {Floats({1}), Ids({0})}));
  const auto error = [](ParameterServerStrategy* s, const PerWorkerValues& v,
                        const std::string& name) {
    const absl::Status status =
        s->Define("f", [&](FunctionBuilder& f) { f.Result("x", f.Value(v, name)); }).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  const std::string owners = error(&other, values, "sum");
  CHECK(absl::StrContains(owners, absl::StrCat("strategy ", strategy.number())));
  CHECK(absl::StrContains(owners, absl::StrCat("strategy ", other.number())));
  CHECK(absl::StrContains(error(&strategy, PerWorkerValues(), "sum"), "no strategy"));
  CHECK(absl::StrContains(error(&strategy, values, "mean"), "they have: rows, sum"));
  CHECK(absl::StrContains(error(&strategy, values, ""), "they have: rows, sum"));
}

}  // namespace
}  // namespace coxswain
