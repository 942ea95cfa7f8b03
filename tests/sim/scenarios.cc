#include "tests/sim/scenarios.h"

namespace coxswain::sim {
namespace {

// A cluster of random size, and how long a closure takes.
Scenario AnyCluster(Random* random) {
  Scenario s;
  s.job.ps = static_cast<int>(random->Between(1, 3));
  s.job.workers = static_cast<int>(random->Between(1, 5));
  s.job.in_flight = static_cast<int>(random->Between(1, 3));
  s.job.window = static_cast<int>(random->Between(2, 24));
  s.job.lease = random->Chance(0.5) ? absl::Seconds(2) : absl::Milliseconds(500);
  s.job.recovery.quarantine_after = 0;  // here workers die without reason
  s.job.recovery.ps_return_timeout =
      random->Between(absl::Milliseconds(200), absl::Seconds(10));
  s.site.env.task_time = random->Chance(0.5) ? absl::Milliseconds(2) : absl::Milliseconds(20);
  s.site.env.deferred_posts = random->Chance(0.5) ? 0.1 : 0;
  s.faults.interval = random->Between(absl::Milliseconds(30), absl::Milliseconds(600));
  s.faults.most = static_cast<int>(random->Between(1, 16));
  return s;
}

AddOnesOptions AnyOnes(Random* random) {
  AddOnesOptions ones;
  ones.variables = static_cast<int>(random->Between(1, 3));
  ones.shards_per_variable = static_cast<int>(random->Between(1, 2));
  ones.closures = random->Between(40, 160);
  return ones;
}

}  // namespace

Scenario WorkerFaults(Random* random) {
  Scenario s = AnyCluster(random);
  s.workload = NewAddOnes(AnyOnes(random));
  return s;
}

Scenario PackedClosures(Random* random) {
  Scenario s = AnyCluster(random);
  AddOnesOptions ones = AnyOnes(random);
  ones.steps = static_cast<uint32_t>(random->Between(2, 6));
  ones.closures /= 2;
  s.workload = NewAddOnes(ones);
  return s;
}

}  // namespace coxswain::sim
