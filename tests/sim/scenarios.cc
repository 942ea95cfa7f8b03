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
  s.job.recovery.ps_return_timeout = random->Between(absl::Milliseconds(200), absl::Seconds(10));
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

void Checkpoints(Random* random, Scenario* s) {
  s->job.checkpoints = true;
  s->job.checkpoint.directory = "/checkpoints";
  s->job.checkpoint.every = random->Between(absl::Milliseconds(30), absl::Seconds(1));
  s->job.checkpoint.every_steps = random->Chance(0.3) ? random->Between(5, 30) : 0;
  s->job.checkpoint.keep = static_cast<int>(random->Between(2, 3));
}

void PsMayFail(Random* random, Scenario* s) {
  s->faults.kill_ps = 3;
  s->faults.ambush_ps = true;
  s->faults.ambushes = static_cast<int>(random->Between(0, 4));
  s->job.recovery.on_ps_loss =
      random->Chance(0.5) ? PsLossPolicy::kRollback : PsLossPolicy::kReplay;
  if (random->Chance(0.7)) Checkpoints(random, s);
}

void CoordinatorMayFail(Random* random, Scenario* s) {
  s->faults.kill_coordinator = 2;
  s->faults.replace_coordinator = 1;
  s->faults.resize = random->Chance(0.3);
  s->job.connect_timeout = random->Between(absl::Seconds(4), absl::Seconds(10));
}

// Everything at once.
Scenario AnyFaults(Random* random) {
  Scenario s = AnyCluster(random);
  PsMayFail(random, &s);
  CoordinatorMayFail(random, &s);
  if (s.job.checkpoints) {
    s.faults.disk_full = 1;
    s.faults.rot = 1;
  }
  if (random->Chance(0.3)) s.faults.elastic = 2;
  return s;
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

Scenario PsFaults(Random* random) {
  Scenario s = AnyCluster(random);
  PsMayFail(random, &s);
  AddOnesOptions ones = AnyOnes(random);
  ones.steps = static_cast<uint32_t>(random->Between(1, 3));
  s.workload = NewAddOnes(ones);
  return s;
}

Scenario AcceptedLoss(Random* random) {
  Scenario s = AnyCluster(random);
  PsMayFail(random, &s);
  s.job.recovery.on_ps_loss = PsLossPolicy::kAcceptLoss;
  s.workload = NewAddOnes(AnyOnes(random));
  return s;
}

Scenario CoordinatorFaults(Random* random) {
  Scenario s = AnyCluster(random);
  CoordinatorMayFail(random, &s);
  if (random->Chance(0.8)) Checkpoints(random, &s);
  AddOnesOptions ones = AnyOnes(random);
  ones.steps = static_cast<uint32_t>(random->Between(1, 3));
  s.workload = NewAddOnes(ones);
  return s;
}

Scenario DiskFaults(Random* random) {
  Scenario s = AnyCluster(random);
  PsMayFail(random, &s);
  Checkpoints(random, &s);
  s.faults.kill_coordinator = 1;
  s.faults.disk_full = 4;
  s.faults.rot = 2;
  s.faults.ambushes = 4;
  s.workload = NewAddOnes(AnyOnes(random));
  return s;
}

Scenario SynchronousFit(Random* random) {
  Scenario s = AnyFaults(random);
  FitOptions fit;
  fit.closures = random->Between(20, 60);
  fit.steps = random->Chance(0.3) ? 3 : 1;
  fit.optimizer = random->Chance(0.5) ? "adam" : "momentum";
  fit.seed = random->Next();
  s.workload = NewFit(fit);
  return s;
}

Scenario VisitedExamples(Random* random) {
  Scenario s = AnyFaults(random);
  VisitOptions visits;
  visits.examples = random->Between(50, 200);
  visits.batch = random->Between(4, 16);
  visits.epochs = random->Between(1, 4);
  visits.shards = static_cast<int>(random->Between(1, 4));
  visits.seed = random->Next();
  s.workload = NewVisits(visits);
  return s;
}

Scenario ElasticWorkers(Random* random) {
  Scenario s = AnyCluster(random);
  s.faults.elastic = 6;
  s.workload = NewAddOnes(AnyOnes(random));
  return s;
}

}  // namespace coxswain::sim
