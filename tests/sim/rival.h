// Another program that wants the job's cluster: a second job that somebody starts by mistake.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "coordinator/core/controller.h"
#include "tests/sim/job.h"
#include "tests/sim/site.h"

namespace coxswain::sim {

// Gets the cluster, makes these shards, holds it for a while and dies; or is told that somebody
// else has it, or that it cannot be reached. Any other end is a violation.
class RivalProcess final : public Process {
 public:
  RivalProcess(const Place& place, core::ControllerOptions options,
               std::vector<proto::ShardSpec> shards, Job::Totals* totals,
               std::function<void()> end);
  ~RivalProcess() override;
  void Start() override;

 private:
  void OnStarted(const absl::Status& status);

  const Place place_;
  const core::ControllerOptions options_;
  const std::vector<proto::ShardSpec> shards_;
  Job::Totals* const totals_;
  const std::function<void()> end_;
  std::unique_ptr<core::Controller> controller_;
};

}  // namespace coxswain::sim
