// Results that a program keeps: however many, and however large.
#include <catch2/catch.hpp>

#include "tests/integration/fault_cluster.h"

namespace coxswain {
namespace {

// More than one direction of a connection in shared memory has places for frames, of a size that is
// not copied out of it on the way.
TEST_CASE("a program may keep the results of thousands of closures, and no worker is lost",
          "[cluster]") {
  constexpr int64_t kNumbers = 6000;  // 24,000 bytes
  constexpr int kClosures = 2500;
  FaultCluster c(1, 1);
  ParameterServerStrategy strategy(c.cluster);
  auto function = strategy.Define("large", [](FunctionBuilder& f) {
    const Output numbers = f.Constant(
        Tensor::FromVector<float>(std::vector<float>(static_cast<size_t>(kNumbers), 1.0f)));
    f.Result("numbers", f.Mul(numbers, f.Argument("factor", DType::kF32, Shape{})));
  });
  MustBeOk(function.status());
  ClusterCoordinator coordinator(strategy);
  std::vector<RemoteValue> kept;
  for (int i = 0; i < kClosures; ++i) {
    kept.push_back(coordinator.Schedule(
        *function, {Tensor::FromVector<float>({static_cast<float>(i)}, Shape{}).value()}));
  }
  MustBeOk(coordinator.Join());
  for (int i = 0; i < kClosures; ++i) {
    const auto results = kept[static_cast<size_t>(i)].Get();
    MustBeOk(results.status());
    REQUIRE((*results)[0].num_elements() == kNumbers);
    CHECK((*results)[0].data<float>()[kNumbers - 1] == static_cast<float>(i));
  }
  CAPTURE(c.events.ToString());
  CHECK(c.events.Count(FaultCluster::Kind::kWorkerLost, FaultCluster::Worker(0)) == 0);
}

}  // namespace
}  // namespace coxswain
