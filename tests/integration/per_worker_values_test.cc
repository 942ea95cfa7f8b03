// What each worker holds, on workers that are killed; and the example that has such a lookup table.
#include <catch2/catch.hpp>
#include <vector>

#include "absl/strings/match.h"
#include "tests/integration/fault_cluster.h"
#include "tests/testing/paths.h"
#include "tests/testing/process.h"

namespace coxswain {
namespace {

// Marks the rows that workers look up.
struct LookUps {
  explicit LookUps(ParameterServerStrategy* s) : strategy(s), coordinator(*s) {
    auto make = strategy->Define("make", [](FunctionBuilder& f) {
      f.Result("order", f.Argument("order", DType::kI64, Shape{kUnknownDim}));
    });
    MustBeOk(make.status());
    auto made = strategy->CreatePerWorkerValues(*make, {Tensor::FromVector<int64_t>({3, 0, 2, 1})});
    MustBeOk(made.status());
    auto created = strategy->CreateVariable("marks", {.shape = Shape{4}});
    MustBeOk(created.status());
    marks = *created;
    auto defined = strategy->Define("look_up", [&](FunctionBuilder& f) {
      const Output place = f.Argument("place", DType::kI64, Shape{1});
      const Output row = f.Gather(f.Value(*made), place);
      f.AssignAdd(marks, f.Reshape(f.Op("OneHot", {row}, {{"depth", int64_t{4}}}), Shape{4}));
    });
    MustBeOk(defined.status());
    step = *defined;
  }
  void Schedule(int64_t place, int times) {
    for (int i = 0; i < times; ++i) {
      coordinator.Schedule(step, {Tensor::FromVector<int64_t>({place})});
    }
    MustBeOk(coordinator.Join());
  }
  std::vector<float> Marks() {
    const auto value = strategy->Read(marks);
    MustBeOk(value.status());
    return {value->values<float>().begin(), value->values<float>().end()};
  }

  ParameterServerStrategy* strategy;
  ClusterCoordinator coordinator;
  Variable marks;
  RemoteFunction step;
};

TEST_CASE("a worker that comes back after it was killed holds its values before it gets closures",
          "[fault]") {
  FaultCluster f(1, 2);
  ParameterServerStrategy strategy(f.cluster);
  LookUps look_ups(&strategy);
  look_ups.Schedule(0, 20);
  f.LoseWorker(0);
  look_ups.Schedule(1, 10);
  f.ReturnWorker(0);
  f.LoseWorker(1);  // so the one that is back runs all that follow
  look_ups.Schedule(2, 7);
  CHECK(f.ClosuresRun(0) == 7);
  f.ReturnWorker(1);
  f.LoseWorker(0);
  look_ups.Schedule(3, 5);
  CHECK(f.ClosuresRun(1) == 5);
  CHECK(look_ups.Marks() == std::vector<float>{10, 5, 7, 20});
}

TEST_CASE("the example whose workers hold a lookup table learns", "[program]") {
  const Process::Result result =
      Run({COXSWAIN_BINARY_DIR "/bin/example-lookup"}, {}, absl::Minutes(3));
  INFO(result.out << result.err);
  CHECK(result.code == 0);
  CHECK(absl::StrContains(result.out, "a price counts -1.00"));
}

}  // namespace
}  // namespace coxswain
