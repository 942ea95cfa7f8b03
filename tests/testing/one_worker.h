// A worker in this process and the coordinator that a test plays.
#pragma once

#include <catch2/catch.hpp>
#include <memory>

#include "tests/testing/fake_tasks.h"
#include "tests/testing/registry.h"
#include "worker_server/worker_service.h"

namespace coxswain::testing {

struct OneWorker {
  static constexpr Epoch kEpoch = 9;

  std::unique_ptr<net::Transport> transport = net::NewInProcessTransport();
  TestEnv env;
  worker::WorkerService worker{&env, transport.get(), &ClusterOps(),
                               cluster::DaemonOptions{"worker", 4, "worker"}};
  std::unique_ptr<FakeCoordinator> coordinator;

  OneWorker() {
    REQUIRE(worker.Start().ok());
    coordinator = std::make_unique<FakeCoordinator>(transport.get(), "worker", kEpoch);
  }
  absl::Status StatusOf(const proto::ControlRequest& request) const {
    return cluster::FromProto(coordinator->Request(request).status());
  }
};

}  // namespace coxswain::testing
