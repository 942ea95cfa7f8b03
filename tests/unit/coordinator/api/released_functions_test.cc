// A program may define functions for ever, if it lets go of them.
#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/api/task_statuses.h"
#include "coxswain/cluster_coordinator.h"
#include "protos/control.pb.h"
#include "runtime/base/count_text.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain {
namespace {

using testing::Floats;
using testing::Must;
using testing::MustStart;

// What the worker says of plans, after all that it was asked before.
bool WorkerHas(const Cluster& cluster, int plans) {
  for (const proto::TaskStatus& status : TaskStatuses(cluster)) {
    if (absl::StrContains(status.running(), "data sets")) {
      INFO(status.running());
      return absl::StrContains(
          status.running(),
          absl::StrCat(", ", CountText(static_cast<uint64_t>(plans), "plan"), ","));
    }
  }
  return false;
}

struct Program {
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy{cluster};
  Variable v = Must(strategy.CreateVariable("v", [] {
    VariableOptions options;
    options.shape = Shape{2};
    return options;
  }()));

  RemoteFunction Define(bool updates) {
    return Must(strategy.Define("f", [&](FunctionBuilder& f) {
      if (updates) f.AssignAdd(v, f.Constant(Floats({1, 1})));
      f.Result("v", f.Read(v));
    }));
  }
  void Run(const RemoteFunction& function) {
    ClusterCoordinator coordinator(strategy);
    coordinator.Schedule(function);
    Must(coordinator.Join());
  }
};

TEST_CASE("tasks forget a function when the last copy of its handle is gone", "[api][plans]") {
  Program p;
  RemoteFunction kept;
  for (int i = 0; i < 5; ++i) {
    const RemoteFunction function = p.Define(/*updates=*/false);
    p.Run(function);
    kept = function;
  }
  CHECK(WorkerHas(p.cluster, 1));
  p.Run(kept);
  kept = RemoteFunction();
  CHECK(WorkerHas(p.cluster, 0));
}

TEST_CASE("a function stays without a handle while its closures may have to run again",
          "[api][plans]") {
  Program p;
  p.Run(p.Define(/*updates=*/true));
  CHECK(WorkerHas(p.cluster, 1));
}

TEST_CASE("a handle may outlive its cluster", "[api][plans]") {
  RemoteFunction function;
  {
    Program p;
    function = p.Define(/*updates=*/true);
  }
  CHECK(function.name() == "f");
}

}  // namespace
}  // namespace coxswain
