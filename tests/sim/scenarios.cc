#include "tests/sim/scenarios.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "coxswain/optimizers.h"
#include "kernels/optimizers/optimizer_info.h"
#include "kernels/optimizers/optimizer_spec.h"

namespace coxswain::sim {
namespace {

constexpr absl::Duration kSetUpTime = absl::Milliseconds(20);  // about

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
  // Some worlds are worse: faults while the job is set up, a slow network that resends, outages
  // that are short enough for late messages to meet the next life of what they are about.
  if (random->Chance(0.2)) s.faults.first = random->Between(absl::ZeroDuration(), kSetUpTime);
  if (random->Chance(0.3)) s.site.network.duplicates = 0.03;
  if (random->Chance(0.2)) {
    s.site.network.spikes = 0.05;
    s.site.network.spike = absl::Seconds(1);
  }
  if (random->Chance(0.2)) s.faults.cut = 8;
  if (random->Chance(0.2)) s.faults.long_outage = absl::Milliseconds(600);
  if (random->Chance(0.2)) s.faults.move = 1;
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
  if (random == nullptr) {  // as it is for large jobs
    s->job.checkpoint.every = absl::Hours(4);
    return;
  }
  s->job.checkpoint.every = random->Between(absl::Milliseconds(30), absl::Seconds(1));
  s->job.checkpoint.every_steps = random->Chance(0.3) ? random->Between(5, 30) : 0;
  s->job.checkpoint.keep = static_cast<int>(random->Between(2, 3));
  // Tables are small here: chains of deltas, and whole files between them. Drawn from a copy, which
  // leaves the rest of the world as it is.
  Random deltas = *random;
  s->job.checkpoint.max_deltas = static_cast<int>(deltas.Between(0, 5));
  s->job.checkpoint.max_delta_share = deltas.Chance(0.5) ? 0.5 : 20;
  s->site.links = !deltas.Chance(0.1);
  // By what was drawn already, so that seeds stand for the same worlds as before.
  s->job.moves = absl::ToInt64Nanoseconds(s->job.checkpoint.every) % 2 == 0;
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

// The program writes rows, too. Drawn from a copy, which leaves the rest of the world as it is. Not
// where losses are accepted: what is written over is not lost.
int64_t WritesMayCome(const Scenario& s, Random random) {
  const bool accepted = s.job.recovery.on_ps_loss == PsLossPolicy::kAcceptLoss;
  return random.Chance(0.3) && !accepted ? random.Between(7, 40) : 0;
}

MarkOptions AnyMarks(Random* random) {
  MarkOptions marks;
  marks.kind = static_cast<MarkOptions::Kind>(random->Below(3));
  marks.shards = static_cast<int>(random->Between(1, 3));
  marks.writes = random->Between(5, 60);
  marks.seed = random->Next();
  return marks;
}

TableFitOptions AnyTableFit(Random* random) {
  TableFitOptions fit;
  fit.closures = random->Between(30, 90);
  fit.steps = random->Chance(0.3) ? 3 : 1;
  fit.shards = static_cast<int>(random->Between(1, 4));
  fit.seed = random->Next();
  return fit;
}

proto::HashTableSpec AnyAdmissionAndEviction(Random* random) {
  proto::HashTableSpec table;
  if (random->Chance(0.5)) {
    table.set_min_count(random->Between(1, 3));
  } else {
    table.set_admission_probability(0.4);
  }
  if (random->Chance(0.6)) table.set_ttl_steps(random->Between(5, 40));
  if (random->Chance(0.7)) table.set_max_rows(random->Between(20, 120));
  if (random->Chance(0.5)) table.set_evict("frequency");
  return table;
}

}  // namespace

Scenario WorkerFaults(Random* random) {
  Scenario s = AnyCluster(random);
  s.workload = NewAddOnes(AnyOnes(random));
  return s;
}

Scenario WavesOfPreemptions(Random* random) {
  Scenario s = AnyCluster(random);
  s.job.workers = static_cast<int>(random->Between(4, 12));
  s.job.window = static_cast<int>(random->Between(20, 60));
  s.job.recovery.quarantine_after = static_cast<int>(random->Between(2, 4));
  s.site.network = {};
  s.site.env.task_time = random->Between(absl::Milliseconds(5), absl::Milliseconds(100));
  FaultOptions waves;
  waves.kill_worker = waves.terminate = waves.pause = waves.cut = waves.slow = 0;
  waves.ambushes = 0;
  waves.wave = 1;
  waves.first = absl::Milliseconds(200);
  waves.interval = random->Between(absl::Milliseconds(300), absl::Seconds(4));
  waves.most = static_cast<int>(random->Between(1, 8));
  waves.long_outage = absl::Seconds(1);
  s.faults = waves;
  AddOnesOptions ones = AnyOnes(random);
  ones.closures *= 4;
  if (random->Chance(0.5)) ones.skipped = s.job.poison = random->Below(ones.closures);
  s.workload = NewAddOnes(ones);
  return s;
}

Scenario LongSegments(Random* random) {
  Scenario s = AnyCluster(random);
  s.faults = {};
  s.faults.most = s.faults.ambushes = 0;
  s.site.network = {};
  s.site.env.segment_time = random->Between(absl::Milliseconds(300), absl::Seconds(6));
  if (random->Chance(0.3)) Checkpoints(random, &s);
  AddOnesOptions ones = AnyOnes(random);
  ones.closures = random->Between(5, 10);  // so that the last one is not overdue
  s.workload = NewAddOnes(ones);
  s.patience = absl::Hours(2);
  return s;
}

Scenario BoundedMessages(Random* random) {
  Scenario s = AnyCluster(random);
  AddOnesOptions ones = AnyOnes(random);
  const int count = static_cast<int>(random->Between(0, 3));
  for (int i = 0; i < count; ++i) {
    auto& which = random->Chance(0.5) ? ones.large_arguments : ones.large_results;
    which.insert(random->Below(ones.closures));
  }
  for (const int64_t index : ones.large_arguments) ones.large_results.erase(index);
  s.job.too_large = ones.large_arguments;
  s.job.too_large.insert(ones.large_results.begin(), ones.large_results.end());
  s.site.network.max_message_bytes =
      static_cast<size_t>(random->Between(16 << 10, 4 * AddOnesOptions::kLargeResult - 1));
  s.workload = NewAddOnes(ones);
  return s;
}

Scenario TornFrames(Random* random) {
  Scenario s = AnyCluster(random);
  s.job.recovery.quarantine_after = static_cast<int>(random->Between(2, 4));
  s.faults = {};
  s.faults.most = s.faults.ambushes = 0;
  s.site.network = {};
  AddOnesOptions ones = AnyOnes(random);
  ones.skipped = s.job.tearing = random->Below(ones.closures);
  s.workload = NewAddOnes(ones);
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
  ones.write_every = WritesMayCome(s, *random);
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
  ones.write_every = WritesMayCome(s, *random);
  s.workload = NewAddOnes(ones);
  return s;
}

Scenario Rivals(Random* random) {
  Scenario s = AnyCluster(random);
  CoordinatorMayFail(random, &s);
  s.faults.resize = false;
  s.faults.rival = 12;
  s.faults.kill_ps = random->Chance(0.5) ? 1 : 0;
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

Scenario DeltaChains(Random* random) {
  Scenario s = random->Chance(0.25)  ? VisitedExamples(random)
               : random->Chance(0.4) ? HashVisits(random)
                                     : HashFit(random);
  Checkpoints(random, &s);
  s.job.checkpoint.every = random->Between(absl::Milliseconds(30), absl::Milliseconds(150));
  s.job.checkpoint.max_deltas = static_cast<int>(random->Between(1, 8));
  s.job.checkpoint.max_delta_share = random->Chance(0.3) ? 0.5 : 20;
  s.faults.disk_full = static_cast<int>(random->Between(0, 2));
  s.faults.rot = 1;
  s.faults.ambushes = 6;
  return s;
}

Scenario SynchronousFit(Random* random) {
  Scenario s = AnyFaults(random);
  FitOptions fit;
  fit.closures = random->Between(20, 60);
  fit.steps = random->Chance(0.3) ? 3 : 1;
  fit.optimizer = random->Chance(0.5) ? "adam" : "momentum";
  fit.seed = random->Next();
  fit.on_ps = random->Chance(0.5);
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
  visits.write_every = WritesMayCome(s, *random);
  s.workload = NewVisits(visits);
  return s;
}

Scenario HashVisits(Random* random) {
  Scenario s = AnyFaults(random);
  VisitOptions visits;
  visits.examples = random->Between(50, 200);
  visits.batch = random->Between(4, 16);
  visits.epochs = random->Between(1, 4);
  visits.shards = static_cast<int>(random->Between(1, 4));
  visits.seed = random->Next();
  visits.min_count = random->Between(1, 3);
  s.workload = NewVisits(visits);
  return s;
}

Scenario HashFit(Random* random) {
  Scenario s = AnyFaults(random);
  TableFitOptions fit = AnyTableFit(random);
  fit.optimizer = OptimizerSpec(Adagrad{.learning_rate = 0.1});
  fit.hash = AnyAdmissionAndEviction(random);
  s.workload = NewTableFit(fit);
  return s;
}

Scenario TableFit(Random* random) {
  Scenario s = AnyFaults(random);
  TableFitOptions fit = AnyTableFit(random);
  if (random->Chance(0.5)) fit.hash = AnyAdmissionAndEviction(random);
  if (random->Chance(0.6)) {
    fit.dtype = DType::kBF16;
    fit.rounding = random->Chance(0.7) ? "stochastic" : "nearest";
  }
  if (random->Chance(0.3)) fit.wire_dtype = DType::kBF16;
  const kernels::OptimizerInfo& info = kernels::AllOptimizers()[static_cast<size_t>(
      random->Below(static_cast<int64_t>(kernels::AllOptimizers().size())))];
  fit.optimizer.Clear();
  fit.optimizer.set_kind(info.kind);
  fit.optimizer.set_learning_rate(0.1);
  const bool has_l2 = std::any_of(info.parameters.begin(), info.parameters.end(),
                                  [](const auto& p) { return p.name == absl::string_view("l2"); });
  if (has_l2 && random->Chance(0.3)) kernels::SetParameter("l2", 0.01, &fit.optimizer);
  const proto::LearningRateSchedule schedules[] = {{},
                                                   PiecewiseConstant({7, 23}, {0.5, 0.1}),
                                                   ExponentialDecay(20, 0.5),
                                                   CosineDecay(40, 0.1),
                                                   LinearDecay(30)};
  proto::LearningRateSchedule schedule = schedules[random->Below(std::size(schedules))];
  if (random->Chance(0.5)) schedule = WarmUp(10, std::move(schedule), 0.1);
  fit.optimizer = WithSchedule(fit.optimizer, std::move(schedule));
  s.workload = NewTableFit(fit);
  return s;
}

Scenario ElasticWorkers(Random* random) {
  Scenario s = AnyCluster(random);
  s.faults.elastic = 6;
  s.faults.move = 3;
  s.workload = NewAddOnes(AnyOnes(random));
  return s;
}

// After the last fault nothing takes longer than the time of a closure and the longest rest of a
// worker: the world's patience is short.
Scenario SwallowedMessages(Random* random) {
  const bool hangs = random->Chance(0.2);
  Scenario s = hangs ? AnyCluster(random) : AnyFaults(random);
  s.job.recovery.closure_timeout = random->Between(absl::Milliseconds(300), absl::Seconds(3));
  s.job.recovery.most_timeouts = 1000;  // replies are swallowed for no fault of a closure
  s.job.recovery.max_window = random->Between(2, 64);
  s.faults.swallow = 8;
  s.faults.mute = 3;
  s.faults.swallow_control = 6;
  s.faults.interval = random->Between(absl::Milliseconds(30), absl::Milliseconds(300));
  s.patience = absl::Seconds(90);
  AddOnesOptions ones = AnyOnes(random);
  ones.steps = static_cast<uint32_t>(random->Between(1, 3));
  if (hangs) {
    // No other closure is late so often.
    FaultOptions kills;
    kills.pause = kills.cut = kills.slow = 0;
    kills.most = 8;
    s.faults = kills;
    s.site.network = {};
    s.job.lease = absl::Milliseconds(500);
    s.job.recovery.closure_timeout = random->Between(absl::Seconds(2), absl::Seconds(4));
    s.job.recovery.most_timeouts = 4;
    ones.skipped = s.job.poison = random->Below(ones.closures);
    s.job.poison_hangs = true;
    s.workload = NewAddOnes(ones);
  } else if (random->Chance(0.5)) {
    s.workload = NewAddOnes(ones);
  } else {
    VisitOptions visits;
    visits.examples = random->Between(50, 200);
    visits.batch = random->Between(4, 16);
    visits.shards = static_cast<int>(random->Between(1, 4));
    visits.seed = random->Next();
    s.workload = NewVisits(visits);
  }
  return s;
}

Scenario EndedEarly(Random* random) {
  Scenario s = AnyCluster(random);
  if (random->Chance(0.5)) PsMayFail(random, &s);
  s.job.cancels = random->Chance(0.7) ? 0.2 : 0;
  s.job.deadlines = random->Chance(0.7) || s.job.cancels == 0 ? 0.3 : 0;
  if (random->Chance(0.3)) s.faults.swallow = 4;
  s.job.recovery.closure_timeout = random->Between(absl::Seconds(1), absl::Seconds(5));
  s.job.recovery.most_timeouts = 1000;
  AddOnesOptions ones = AnyOnes(random);
  ones.steps = static_cast<uint32_t>(random->Between(1, 4));
  s.workload = NewAddOnes(ones);
  return s;
}

// Some messages about closures are lost, and a closure that takes too long runs again.
void MaySwallow(Random* random, Scenario* s) {
  if (!random->Chance(0.3)) return;
  s->faults.swallow = 4;
  s->job.recovery.closure_timeout = random->Between(absl::Seconds(1), absl::Seconds(5));
  s->job.recovery.most_timeouts = 1000;
}

Scenario NumberedSteps(Random* random) {
  Scenario s = AnyCluster(random);
  MaySwallow(random, &s);
  NumberOptions numbers;
  numbers.closures = random->Between(40, 160);
  numbers.steps = static_cast<uint32_t>(random->Between(1, 3));
  s.workload = NewNumbers(numbers);
  return s;
}

Scenario NumbersAndLosses(Random* random) {
  Scenario s = AnyFaults(random);
  MaySwallow(random, &s);
  NumberOptions numbers;
  numbers.closures = random->Between(40, 160);
  numbers.steps = static_cast<uint32_t>(random->Between(1, 3));
  numbers.tables = static_cast<int>(random->Between(1, 3));
  numbers.counter = static_cast<int>(random->Between(0, numbers.tables));
  s.workload = NewNumbers(numbers);
  return s;
}

Scenario HeldValues(Random* random) {
  Scenario s = AnyFaults(random);
  MaySwallow(random, &s);
  LookUpOptions look_ups;
  look_ups.rows = random->Between(20, 80);
  look_ups.rounds = random->Between(1, 3);
  look_ups.seed = random->Next();
  s.workload = NewLookUps(look_ups);
  return s;
}

Scenario GroupedVisits(Random* random) {
  Scenario s = AnyFaults(random);
  if (random->Chance(0.3)) {
    s.faults.interval = random->Between(absl::Milliseconds(10), absl::Milliseconds(200));
    s.faults.most = static_cast<int>(random->Between(20, 60));
  }
  VisitOptions visits;
  visits.examples = random->Between(100, 400);
  visits.batch = random->Between(1, 8);
  visits.epochs = random->Between(1, 4);
  visits.shards = static_cast<int>(random->Between(1, 4));
  visits.seed = random->Next();
  visits.group_closures = random->Between(1, 30);
  s.workload = NewVisits(visits);
  return s;
}

Scenario Storm(Random* random) {
  Scenario s = AnyFaults(random);
  s.faults.interval = random->Between(absl::Milliseconds(10), absl::Milliseconds(200));
  s.faults.most = static_cast<int>(random->Between(20, 60));
  s.faults.ambushes = 8;
  s.site.network.duplicates = random->Chance(0.5) ? 0.1 : 0;
  if (random->Chance(0.3)) s.job.recovery.on_ps_loss = PsLossPolicy::kAcceptLoss;
  AddOnesOptions ones = AnyOnes(random);
  ones.steps = static_cast<uint32_t>(random->Between(1, 4));
  ones.write_every = WritesMayCome(s, *random);
  s.workload = NewAddOnes(ones);
  return s;
}

namespace {

// For synchronous steps: all shards go back together, and no closure fails.
Scenario StepFaults(Random* random) {
  const int64_t kind = random->Below(10);
  Scenario s = kind < 2   ? AnyCluster(random)
               : kind < 4 ? WavesOfPreemptions(random)  // closures are suspected, and tried alone
                          : AnyFaults(random);
  const bool all = kind >= 4;
  s.job.recovery.on_ps_loss = PsLossPolicy::kRollback;
  s.job.poison = -1;
  if (all && !s.job.checkpoints && random->Chance(0.7)) Checkpoints(random, &s);
  if (all && random->Chance(0.3)) {
    s.faults.swallow = 2;
    s.faults.mute = 1;
    s.job.recovery.closure_timeout = random->Between(absl::Seconds(2), absl::Seconds(8));
    s.job.recovery.most_timeouts = 1000;  // none hangs by its own fault
  }
  s.job.window = static_cast<int>(random->Between(1, 24));
  return s;
}

}  // namespace

namespace {

SyncFitOptions AnySyncFit(Random* random) {
  SyncFitOptions fit;
  fit.steps = random->Between(10, random->Chance(0.3) ? 120 : 40);
  fit.replicas = random->Between(1, 6);
  fit.mean = random->Chance(0.5);
  fit.shards = static_cast<int>(random->Between(1, 4));
  fit.hash = random->Chance(0.3);
  fit.seed = random->Next();
  const proto::OptimizerSpec any[] = {
      OptimizerSpec(Sgd{.learning_rate = 0.05}), OptimizerSpec(Momentum{.learning_rate = 0.02}),
      OptimizerSpec(Adam{.learning_rate = 0.02}), OptimizerSpec(Adagrad{.learning_rate = 0.05})};
  fit.optimizer = any[random->Below(std::size(any))];
  fit.table_optimizer = any[random->Below(std::size(any))];
  fit.each = !fit.mean && random->Chance(0.4);
  return fit;
}

Scenario SyncStepsOf(Random* random, bool in_order) {
  Scenario s = StepFaults(random);
  SyncFitOptions fit = AnySyncFit(random);
  if (in_order) fit.mean = false, fit.each = true;
  // Steps that have not begun may end early. Drawn from a copy, which leaves the rest of the world
  // as it is.
  Random ends = *random;
  if (ends.Chance(0.3)) s.job.cancels = 0.1;
  if (ends.Chance(0.2)) s.job.deadlines = 0.1;
  s.workload = NewSyncFit(fit);
  return s;
}

}  // namespace

Scenario SynchronousSteps(Random* random) { return SyncStepsOf(random, /*in_order=*/false); }
Scenario StartedTwice(Random* random) {
  Scenario s = random->Chance(0.7) ? SynchronousSteps(random) : PsFaults(random);
  if (!s.job.checkpoints) Checkpoints(random, &s);
  s.job.starts_twice = true;
  return s;
}
Scenario ReadsAtOnce(Random* random) {
  const int64_t kind = random->Below(10);
  Scenario s = kind < 6 ? PsFaults(random) : kind < 8 ? TableFit(random) : SynchronousSteps(random);
  s.job.reads_at_once = true;
  return s;
}
Scenario InOrderSteps(Random* random) { return SyncStepsOf(random, /*in_order=*/true); }

Scenario QuietSteps(Random* random) {
  Scenario s;
  s.job.ps = static_cast<int>(random->Between(1, 3));
  s.job.workers = static_cast<int>(random->Between(1, 5));
  s.job.window = 24;
  // So the next closure has read its examples when one's gradients are there.
  s.site.env.segment_time = absl::Milliseconds(20);
  s.site.network.spikes = 0;
  s.faults.most = 0;
  s.faults.ambushes = 0;
  SyncFitOptions fit;
  fit.steps = kQuietSteps;
  fit.replicas = s.job.workers;
  fit.alike = true;
  fit.shards = 2 * s.job.ps;
  fit.optimizer = fit.table_optimizer = OptimizerSpec(Sgd{.learning_rate = 0.05});
  fit.seed = random->Next();
  s.workload = NewSyncFit(fit);
  return s;
}

Scenario ShortSteps(Random* random) {
  Scenario s = QuietSteps(random);
  s.job.in_flight = 3;
  s.site.env.segment_time = absl::Microseconds(100);
  return s;
}

Scenario QuietGroups(Random* random) {
  Scenario s;
  s.job.ps = static_cast<int>(random->Between(1, 3));
  s.job.workers = static_cast<int>(random->Between(1, 5));
  s.job.in_flight = 3;
  s.job.window = 6 * s.job.workers;
  s.job.worker_task_time = absl::Milliseconds(20);
  s.site.network.spikes = 0;
  s.faults.most = 0;
  s.faults.ambushes = 0;
  TicketOptions tickets;
  tickets.tickets = kQuietSteps * s.job.workers;
  tickets.replicas = static_cast<uint32_t>(random->Between(1, 4));
  tickets.free = true;
  tickets.tables = s.job.ps;
  s.workload = NewTickets(tickets);
  return s;
}

Scenario BackupSteps(Random* random) {
  Scenario s = StepFaults(random);
  TicketOptions tickets;
  tickets.tickets = random->Between(10, random->Chance(0.3) ? 240 : 80);
  tickets.replicas = static_cast<uint32_t>(random->Between(1, 5));
  tickets.backup = static_cast<uint32_t>(random->Between(1, 3));
  tickets.tables = static_cast<int>(random->Between(1, 4));
  s.workload = NewTickets(tickets);
  return s;
}

Scenario FreeSteps(Random* random) {
  Scenario s = StepFaults(random);
  TicketOptions tickets;
  tickets.tickets = random->Between(10, random->Chance(0.3) ? 240 : 80);
  tickets.replicas = static_cast<uint32_t>(random->Between(1, 5));
  tickets.free = true;
  tickets.tables = static_cast<int>(random->Between(1, 4));
  s.workload = NewTickets(tickets);
  return s;
}

Scenario BoundedStaleness(Random* random) {
  Scenario s = AnyFaults(random);
  s.job.max_staleness = random->Between(0, 6);
  VisitOptions visits;
  visits.examples = random->Between(50, 200);
  visits.batch = random->Between(4, 16);
  visits.epochs = random->Between(1, 4);
  visits.shards = static_cast<int>(random->Between(1, 4));
  visits.seed = random->Next();
  if (random->Chance(0.3)) visits.group_closures = random->Between(1, 10);
  s.workload = NewVisits(visits);
  return s;
}

Scenario GpuWorkers(Random* random) {
  constexpr Scenario (*kKinds[])(Random*) = {SynchronousFit, TableFit, WorkerFaults, PackedClosures,
                                             PsFaults,       HashFit,  Storm};
  Scenario s = kKinds[random->Below(std::size(kKinds))](random);
  s.job.gpus = static_cast<int>(random->Between(1, 2));
  s.job.pins = random->Chance(0.5);
  if (random->Chance(0.5)) s.job.gpu_breaks = 0.3;
  return s;
}

Scenario GpuTables(Random* random) {
  constexpr Scenario (*kKinds[])(Random*) = {TableFit,         RowWrites,   BoundedStaleness,
                                             SynchronousSteps, DeltaChains, VisitedExamples,
                                             HashFit,          HashVisits};
  Scenario s = kKinds[random->Below(std::size(kKinds))](random);
  s.job.gpu_tables = true;
  if (random->Chance(0.5)) s.job.gpu_breaks = 0.3;
  if (random->Chance(0.5)) s.job.small_gpus = 0.5;
  return s;
}

Scenario RowWrites(Random* random) {
  Scenario s = AnyFaults(random);
  if (random->Chance(0.8)) Checkpoints(random, &s);
  if (random->Chance(0.5)) s.faults.interval *= 4;  // so that checkpoints come between losses
  const int64_t every = random->Between(3, 40);
  std::unique_ptr<Workload> workload;
  if (random->Chance(0.5)) {
    AddOnesOptions ones = AnyOnes(random);
    ones.steps = static_cast<uint32_t>(random->Between(1, 3));
    ones.write_every = every;
    workload = NewAddOnes(ones);
  } else {
    VisitOptions visits;
    visits.examples = random->Between(50, 200);
    visits.batch = random->Between(4, 16);
    visits.epochs = random->Between(1, 4);
    visits.shards = static_cast<int>(random->Between(1, 4));
    visits.seed = random->Next();
    visits.write_every = every;
    workload = NewVisits(visits);
  }
  s.workload = NewMarked(std::move(workload), AnyMarks(random));
  return s;
}

// The coordinator alone stands still, for longer than its lease: everything waits for it, as it is.
Scenario PausedCoordinator(Random* random) {
  Scenario s = AnyCluster(random);
  s.job.lease = absl::Milliseconds(500);
  s.site.network = {};
  FaultOptions pauses;
  pauses.kill_worker = pauses.terminate = pauses.pause = pauses.cut = pauses.slow = 0;
  pauses.ambushes = 0;
  pauses.pause_coordinator = 1;
  pauses.first = absl::Milliseconds(300);
  pauses.most = static_cast<int>(random->Between(1, 6));
  pauses.interval = random->Between(absl::Milliseconds(300), absl::Seconds(4));
  pauses.short_outage = absl::Seconds(2);
  pauses.long_outage = absl::Seconds(30);
  s.faults = pauses;
  s.faults_for = absl::Minutes(3);
  if (random->Chance(0.5)) Checkpoints(random, &s);
  AddOnesOptions ones = AnyOnes(random);
  ones.closures *= 4;
  s.workload = NewAddOnes(ones);
  return s;
}

// Closures of an hour, so that days go by in few events. Leases are long for the same
// reason; what is lost is mostly heard of at once, as the systems close their connections.
Scenario BigCluster(Random*) {
  constexpr int kWorkers = 1000, kPs = 50;
  constexpr absl::Duration kLength = absl::Hours(72), kClosure = absl::Hours(1);
  Scenario s;
  s.job.ps = kPs;
  s.job.workers = kWorkers;
  s.job.in_flight = 1;
  s.job.window = kWorkers + kWorkers / 2;
  s.job.lease = absl::Hours(1);
  s.job.connect_timeout = absl::Hours(1);
  s.job.worker_task_time = kClosure;
  s.job.recovery.quarantine_after = 0;  // workers die without reason
  s.job.recovery.ps_return_timeout = absl::Minutes(10);
  s.job.recovery.cluster_timeout = absl::Hours(6);
  s.job.recovery.closure_timeout = absl::Hours(24);  // nothing here is as quick as elsewhere
  Checkpoints(nullptr, &s);
  s.site.env.task_time = absl::Milliseconds(20);
  s.site.env.deferred_posts = 0;
  s.faults_for = kLength;
  s.patience = absl::Hours(48);
  s.faults.most = 5000;
  s.faults.interval = kLength / s.faults.most;
  s.faults.short_outage = absl::Seconds(10);
  s.faults.long_outage = absl::Minutes(1);
  s.faults.kill_worker = 800;
  s.faults.terminate = 150;
  s.faults.elastic = 20;
  s.faults.move = 10;
  s.faults.most_workers = kWorkers + 20;
  s.faults.pause = 10;
  s.faults.cut = 4;
  s.faults.slow = 4;
  s.faults.kill_ps = 1;
  s.faults.ambushes = 4;
  AddOnesOptions ones;
  ones.variables = kPs;
  ones.functions = 5;
  ones.closures = 44000;
  s.workload = NewAddOnes(ones);
  return s;
}

}  // namespace coxswain::sim
