#include "coordinator/observe/observer.h"

#include <catch2/catch.hpp>
#include <memory>

#include "absl/strings/match.h"
#include "tests/testing/fake_tasks.h"
#include "tests/testing/registry.h"
#include "worker_server/worker_service.h"

namespace coxswain::observe {
namespace {

using testing::ClusterOps;
using testing::FakeCoordinator;
using testing::TestEnv;

constexpr absl::Duration kTimeout = absl::Seconds(60);

TEST_CASE("tasks are asked all at once, and each has its answer, or nobody's", "[observer]") {
  TestEnv env;
  const std::unique_ptr<net::Transport> transport = net::NewInProcessTransport();
  worker::WorkerService first(&env, transport.get(), &ClusterOps(),
                              cluster::DaemonOptions{"worker", 0, "one"});
  worker::WorkerService second(&env, transport.get(), &ClusterOps(),
                               cluster::DaemonOptions{"worker", 1, "two"});
  REQUIRE(first.Start().ok());
  REQUIRE(second.Start().ok());

  const auto answers = ObserveTasks(transport.get(), {"two", "nobody", "one"}, kTimeout);
  REQUIRE(answers.size() == 3);
  REQUIRE(answers[0].ok());
  CHECK(answers[0]->task() == 1);
  CHECK(answers[0]->incarnation() == second.incarnation());
  CHECK(absl::IsUnavailable(answers[1].status()));
  REQUIRE(answers[2].ok());
  CHECK(answers[2]->task() == 0);
}

TEST_CASE("an observer neither holds a task nor takes it from its coordinator", "[observer]") {
  TestEnv env;
  const std::unique_ptr<net::Transport> transport = net::NewInProcessTransport();
  worker::WorkerService worker(&env, transport.get(), &ClusterOps(),
                               cluster::DaemonOptions{"worker", 0, "one"});
  REQUIRE(worker.Start().ok());
  const auto held_by = [&] {
    const auto answers = ObserveTasks(transport.get(), {"one"}, kTimeout);
    REQUIRE(answers[0].ok());
    return answers[0]->held_by();
  };
  CHECK(held_by().empty());
  CHECK(held_by().empty());
  FakeCoordinator holder(transport.get(), "one", Epoch{3});
  CHECK_FALSE(held_by().empty());
  const proto::HelloRequest older = FakeCoordinator::Hello(proto::COORDINATOR, Epoch{2});
  CHECK_FALSE(FakeCoordinator(transport.get(), "one", older).Greeting().ok());
}

}  // namespace
}  // namespace coxswain::observe
