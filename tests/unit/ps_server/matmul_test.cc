// An update that a PS computes by a product itself is an update like any other: once per closure.
#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "protos/control.pb.h"
#include "runtime/graph/builder.h"
#include "tests/testing/ps_daemon.h"
#include "tests/testing/ps_specs.h"

namespace coxswain::ps {
namespace {

using testing::ClusterOps;
using testing::OptimizerOf;
using testing::PsDaemon;
using testing::RandomFloats;
using testing::RandomTensor;
using testing::ReadOf;
using testing::VariableOf;
using testing::WholeOf;

graph::Function Step() {
  graph::GraphBuilder b("step", &ClusterOps());
  const Attrs w = ReadOf(1, Shape{3, 2});
  const Output x = b.Argument("x", DType::kF32, Shape{kUnknownDim, 3});
  const Output g = b.Argument("g", DType::kF32, Shape{kUnknownDim, 2});
  Attrs back = w;
  back["transpose_b"] = true;
  b.Result("dx", b.Op("MatMulShard", {g}, back));
  b.Target("ApplyMatMul", {x, g}, w);
  auto function = b.Finish();
  REQUIRE(function.ok());
  return *std::move(function);
}

std::vector<float> Values(PsDaemon* ps, const proto::ShardSpec& spec) {
  const std::string bytes = ps->Rows(spec).value();
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST_CASE("a product's update that comes again is acknowledged and dropped", "[ps_service]") {
  const proto::ShardSpec spec = WholeOf(VariableOf("w", {3, 2}, false, OptimizerOf("sgd", 1.0)), 1);
  PsDaemon ps;
  REQUIRE(ps.Create({spec}).ok());
  REQUIRE(ps.Register(1, Step()).ok());
  auto worker = ps.ConnectWorker(0);
  const auto push = [&](ClosureId closure, uint64_t seed) {
    return PsDaemon::Push(worker.get(), ps.Frame(1, closure,
                                                 {RandomTensor(Shape{4, 2}, seed + 1),
                                                  RandomTensor(Shape{4, 3}, seed)}));
  };
  std::vector<float> wanted(6, 0.0f);
  for (const uint64_t seed : {10, 20}) {
    const auto x = RandomFloats(12, seed), g = RandomFloats(8, seed + 1);
    for (size_t n = 0; n < 4; ++n) {
      for (size_t r = 0; r < 3; ++r) {
        for (size_t c = 0; c < 2; ++c) wanted[r * 2 + c] -= x[n * 3 + r] * g[n * 2 + c];
      }
    }
    REQUIRE(push(seed, seed).ok());
    REQUIRE(push(seed, seed).ok());  // a retry brings the same
    const std::vector<float> found = Values(&ps, spec);
    for (size_t i = 0; i < 6; ++i) CHECK(found[i] == Approx(wanted[i]).margin(1e-5));
  }
  REQUIRE(push(10, 30).ok());  // a zombie with other numbers: the closure has been here
  const std::vector<float> found = Values(&ps, spec);
  for (size_t i = 0; i < 6; ++i) CHECK(found[i] == Approx(wanted[i]).margin(1e-5));
  const proto::TaskStatus status = ps.Status();
  REQUIRE(status.shards_size() == 1);
  CHECK(status.shards(0).updates_applied() == 2);
  CHECK(status.shards(0).duplicates_dropped() == 3);
}

TEST_CASE("a product's update that does not fit fails the segment and changes nothing",
          "[ps_service]") {
  const proto::ShardSpec spec = WholeOf(VariableOf("w", {3, 2}, false, OptimizerOf("sgd", 1.0)), 1);
  PsDaemon ps;
  REQUIRE(ps.Create({spec}).ok());
  REQUIRE(ps.Register(1, Step()).ok());
  auto worker = ps.ConnectWorker(0);
  const absl::Status status = PsDaemon::Push(
      worker.get(), ps.Frame(1, 1, {RandomTensor(Shape{4, 2}, 1), RandomTensor(Shape{5, 3}, 2)}));
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()), Catch::Contains("found 5 and 4"));
  CHECK(Values(&ps, spec) == std::vector<float>(6, 0.0f));
  CHECK(ps.Status().shards(0).updates_applied() == 0);
}

}  // namespace
}  // namespace coxswain::ps
