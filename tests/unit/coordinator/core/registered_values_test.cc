// What workers are told of per-worker values, and when; the test plays the tasks.
#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/graph/builder.h"
#include "tests/testing/played_cluster.h"
#include "tests/testing/registry.h"

namespace coxswain::core {
namespace {

using testing::PlayedCluster;

std::shared_ptr<const graph::Function> Twice() {
  graph::GraphBuilder b("twice", &testing::ClusterOps());
  const Output x = b.Argument("x", DType::kF32, Shape{1});
  b.Result("y", b.Op("Add", {x, x}));
  return std::make_shared<const graph::Function>(*b.Finish());
}

// Values 7, and a plan 1 that has them for its argument.
struct Values : PlayedCluster {
  Values() : PlayedCluster(1, 10) {
    REQUIRE(Await([&](auto done) {
              controller->RegisterValues(7, Twice(), {Tensor::FromVector<float>({1})}, done);
            }).ok());
    std::vector<proto::ArgumentSource> sources(1);
    sources[0].set_values(7);
    REQUIRE(Await([&](auto done) { controller->RegisterPlan(1, Twice(), sources, 0, done); }).ok());
  }
  // What the worker is told next that is of plans or values.
  proto::ControlRequest Told() {
    for (;;) {
      proto::ControlRequest request = workers[0]->others.Take("a request");
      if (request.has_release_plan() || request.has_release_values() ||
          request.has_register_values() || request.has_register_plan()) {
        return request;
      }
    }
  }
};

TEST_CASE("values that were released go behind the last plan that takes them", "[values]") {
  Values f;
  CHECK(f.Told().register_values().values() == 7);
  CHECK(f.Told().register_plan().sources(0).values() == 7);
  f.controller->ValuesReleaser(7)();
  f.controller->PlanReleaser(1)();
  CHECK(f.Told().release_plan().plan() == 1);
  CHECK(f.Told().release_values().values() == 7);
}

TEST_CASE("values that are released behind their plans go at once", "[values]") {
  Values f;
  f.Told();
  f.Told();
  f.controller->PlanReleaser(1)();
  CHECK(f.Told().has_release_plan());
  f.controller->ValuesReleaser(7)();
  CHECK(f.Told().release_values().values() == 7);
}

}  // namespace
}  // namespace coxswain::core
