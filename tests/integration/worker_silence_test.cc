// A worker whose parameter server accepts everything and says nothing.
#include "absl/time/clock.h"
#include "runtime/function/partition.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/serialize.h"
#include "tests/integration/jobs.h"
#include "tests/testing/fake_tasks.h"
#include "tests/testing/paths.h"
#include "tests/testing/registry.h"

namespace coxswain {
namespace {

using namespace testing;

// Reads a variable of ps:0.
proto::ControlRequest ReadPlan() {
  graph::GraphBuilder b("read", &ClusterOps());
  b.Result("value", b.Op("Neg", {b.Op("ReadVariable", {}, ReadOf(0, Shape{2}))}));
  auto function = b.Finish();
  REQUIRE(function.ok());
  auto partition = function::PartitionFunction(*function, 1, PsOfSameNumber);
  REQUIRE(partition.ok());
  proto::ControlRequest request;
  request.mutable_register_plan()->set_plan(1);
  *request.mutable_register_plan()->mutable_worker() = graph::ToProto(partition->worker);
  return request;
}

TEST_CASE("a closure whose parameter server falls silent fails as task lost, and in time",
          "[silence]") {
  const auto transport = WithSecret(net::NewGrpcTransport());
  FakePs ps(transport.get(), "127.0.0.1:0");
  Process worker({COXSWAIN_BINARY_DIR "/bin/coxswain-worker", "--port", "0"});
  FakeCoordinator coordinator(transport.get(), AddressOf(worker), 1);
  proto::ControlRequest setup;
  setup.mutable_setup_worker()->add_ps_addresses(ps.address());
  setup.mutable_setup_worker()->add_ps_incarnations(5);
  coordinator.Must(setup);
  coordinator.Must(ReadPlan());
  ps.answers_pings = false;
  function::ClosureRequest closure;
  closure.closure = 1;
  closure.plan = 1;
  closure.attempt = 1;
  const absl::Time begin = absl::Now();
  coordinator.Run(closure);
  ps.frames.Take("the frame");
  const function::ClosureReply lost = coordinator.TakeDone();
  CHECK(absl::Now() - begin < absl::Seconds(20));
  CHECK(absl::Now() - begin > absl::Seconds(3));
  CHECK(CauseOf(lost.status) == ErrorCause::kTaskLost);
  CHECK(TaskOf(lost.status) == "/job:ps/task:0");
  CHECK_FALSE(ps.pings.empty());
  // The next one connects anew.
  closure.closure = 2;
  coordinator.Run(closure);
  ps.frames.Take("the next frame").Answer({Tensor::FromVector<float>({1, 2})});
  const function::ClosureReply done = coordinator.TakeDone();
  REQUIRE(done.status.ok());
  CHECK(done.results[0].values<float>()[1] == -2);
}

}  // namespace
}  // namespace coxswain
