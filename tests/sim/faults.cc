#include "tests/sim/faults.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/checkpoint/manifest.h"

namespace coxswain::sim {

const std::vector<std::string>& WorkerPoints() {
  static const auto* const kPoints = new std::vector<std::string>{
      "worker.closure.received", "worker.step.applied", "worker.closure.done"};
  return *kPoints;
}

const std::vector<std::string>& PsPoints() {
  static const auto* const kPoints =
      new std::vector<std::string>{"ps.segment.received", "ps.segment.applied", "ps.save.cut",
                                   "ps.save.linked",      "ps.save.file",       "ps.restore.done"};
  return *kPoints;
}

FaultDriver::FaultDriver(Site* site, Job* job, FaultOptions options)
    : site_(site), job_(job), options_(options) {
  Random& random = site->world()->random();
  for (int i = 0; i < options.ambushes; ++i) {
    const bool ps = options.ambush_ps && random.Chance(0.5);
    ambushes_.push_back({Pick(ps ? PsPoints() : WorkerPoints()), random.Between(1, 40)});
    // Checkpoints are rarer than steps.
    if (absl::StrContains(ambushes_.back().point, "save") ||
        absl::StrContains(ambushes_.back().point, "restore")) {
      ambushes_.back().pass = random.Between(1, 6);
    }
  }
  site->set_ambush([this](int node, const char* point) { return OnFaultPoint(node, point); },
                   [this] { return Outage(); });
}

template <typename T>
const T& FaultDriver::Pick(const std::vector<T>& from) {
  return from[static_cast<size_t>(
      site_->world()->random().Below(static_cast<int64_t>(from.size())))];
}

bool FaultDriver::OnFaultPoint(int, const char* point) {
  if (stopped_) return false;
  const int64_t pass = ++passes_[point];
  for (const Ambush& ambush : ambushes_) {
    if (ambush.pass != pass || ambush.point != point) continue;
    ++injected_;
    ++by_kind_[absl::StrCat("at ", point)];
    return true;
  }
  return false;
}

void FaultDriver::Start() {
  site_->world()->Schedule(options_.first, [this] { Next(); });
}

void FaultDriver::Next() {
  if (stopped_ || injected_ >= options_.most) return;
  Inject();
  site_->world()->Schedule(site_->world()->random().Exponential(options_.interval),
                           [this] { Next(); });
}

absl::Duration FaultDriver::Outage() {
  Random& random = site_->world()->random();
  return random.Between(absl::Milliseconds(1),
                        random.Chance(0.6) ? options_.short_outage : options_.long_outage);
}

int FaultDriver::AnyNode() {
  return static_cast<int>(site_->world()->random().Below(site_->nodes()));
}

void FaultDriver::Say(const std::string& kind, const std::string& what) {
  ++injected_;
  ++by_kind_[kind];
  site_->world()->Note(kNoteFault, HashBytes(kind.data(), kind.size()), 0,
                       [&] { return absl::StrCat("FAULT ", kind, ": ", what); });
}

void FaultDriver::KillOne(const std::vector<int>& nodes, const char* kind) {
  Random& random = site_->world()->random();
  const int node = Pick(nodes);
  if (site_->life(node) == nullptr) return;
  const Death death = random.Chance(0.7) ? Death::kProcess : Death::kMachine;
  const absl::Duration outage = Outage();
  Say(kind, absl::StrCat(site_->name(node), death == Death::kMachine ? " with its machine" : "",
                         ", back in ", absl::FormatDuration(outage)));
  if (node == job_->coordinator_node()) CoordinatorGoes();
  site_->Kill(node, death, outage);
}

// All of one machine type, say: they come back one by one. Those that have come back a moment ago
// are spared: nobody would see that they are part of the wave.
void FaultDriver::KillSeveral(const std::vector<int>& nodes) {
  Random& random = site_->world()->random();
  std::vector<int> settled;
  for (int node : nodes) {
    const LifePtr life = site_->life(node);
    if (life == nullptr) continue;
    const absl::Duration needs =
        life->born == absl::ZeroDuration() ? absl::Milliseconds(200) : absl::Milliseconds(1500);
    if (site_->world()->now() - life->born >= needs) settled.push_back(node);
  }
  // One worker is left, or the job would only wait.
  const auto up = static_cast<int64_t>(std::min(settled.size(), nodes.size() - 1));
  if (up < 2) return;
  const int64_t count = random.Between(2, up), first = random.Below(up);
  Say("wave", absl::StrCat(count, " workers"));
  for (int64_t i = 0; i < count; ++i) {
    const int node = settled[static_cast<size_t>(first + i) % settled.size()];
    const Death death = random.Chance(0.7) ? Death::kProcess : Death::kMachine;
    site_->world()->Schedule(
        random.Between(absl::ZeroDuration(), absl::Milliseconds(5)),
        [this, node, death, outage = Outage()] { site_->Kill(node, death, outage); });
  }
}

void FaultDriver::CoordinatorGoes() {
  job_->restarted = true;
  if (!options_.resize) return;
  job_->set_ps(static_cast<int>(
      site_->world()->random().Between(1, static_cast<int64_t>(job_->ps_nodes().size()))));
}

void FaultDriver::CutSome() {
  Random& random = site_->world()->random();
  Network* network = site_->network();
  const int a = AnyNode(), b = AnyNode();
  switch (random.Below(5)) {
    case 0:
      Say("cut", absl::StrCat("nothing leaves ", site_->name(a)));
      network->CutOut(a);
      break;
    case 1:
      Say("cut", absl::StrCat("nothing reaches ", site_->name(a)));
      network->CutIn(a);
      break;
    case 2:
      Say("cut", absl::StrCat(site_->name(a), " is cut off"));
      network->CutOut(a);
      network->CutIn(a);
      break;
    case 3:
      Say("cut", absl::StrCat("nothing goes from ", site_->name(a), " to ", site_->name(b)));
      network->CutPair(a, b);
      break;
    default:
      Say("cut", absl::StrCat("nothing goes between ", site_->name(a), " and ", site_->name(b)));
      network->CutPair(a, b);
      network->CutPair(b, a);
  }
  site_->world()->Schedule(Outage(), [network] { network->Heal(); });
}

void FaultDriver::ChangeWorkers() {
  Random& random = site_->world()->random();
  std::vector<std::string> workers = job_->worker_addresses();
  if (workers.size() > 1 && random.Chance(0.5)) {
    // The last ones leave; a machine may vanish with its place in the list.
    if (random.Chance(0.5)) {
      for (int node : job_->worker_nodes()) {
        if (site_->name(node) == workers.back()) site_->Kill(node, Death::kProcess, Outage());
      }
    }
    Say("elastic", absl::StrCat(workers.back(), " leaves"));
    workers.pop_back();
  } else if (static_cast<int>(workers.size()) < options_.most_workers) {
    // A machine that was there before, or a new one.
    int joins = -1;
    for (int node : job_->worker_nodes()) {
      const bool used = std::count(workers.begin(), workers.end(), site_->name(node)) > 0;
      if (joins < 0 && !used) joins = node;
    }
    if (joins < 0) joins = job_->AddWorkerNode();
    workers.push_back(site_->name(joins));
    Say("elastic", absl::StrCat(workers.back(), " joins"));
    // One that still runs is started anew: its number is another one now.
    site_->Kill(joins, Death::kProcess, absl::Milliseconds(1));
    site_->Start(joins);
  }
  TellWorkers(std::move(workers));
}

void FaultDriver::MoveWorker() {
  std::vector<std::string> workers = job_->worker_addresses();
  std::string& place = workers[static_cast<size_t>(
      site_->world()->random().Below(static_cast<int64_t>(workers.size())))];
  for (int node : job_->worker_nodes()) {
    // Now and then it does not know, and goes on beside its successor.
    if (site_->name(node) == place && site_->world()->random().Chance(0.7)) {
      site_->Kill(node, Death::kMachine, absl::Seconds(-1));
    }
  }
  const int node = job_->AddWorkerNode();
  Say("move", absl::StrCat(place, " is now ", site_->name(node)));
  place = site_->name(node);
  TellWorkers(std::move(workers));
  site_->Start(node);
}

void FaultDriver::TellWorkers(std::vector<std::string> workers) {
  job_->set_workers(workers);
  if (CoordinatorProcess* coordinator = job_->coordinator()) {
    site_->world()->Schedule(absl::ZeroDuration(), site_->life(job_->coordinator_node()),
                             [coordinator, workers] { coordinator->UpdateWorkers(workers); });
  }
}

void FaultDriver::Inject() {
  Random& random = site_->world()->random();
  const FaultOptions& o = options_;
  const int weights[] = {o.kill_worker,
                         o.kill_ps,
                         o.kill_coordinator,
                         o.replace_coordinator,
                         o.pause,
                         o.cut,
                         o.slow,
                         o.disk_full,
                         o.rot,
                         o.elastic,
                         o.move,
                         o.terminate,
                         o.wave,
                         o.swallow,
                         o.mute,
                         o.pause_coordinator,
                         o.rival,
                         o.swallow_control};
  int total = 0;
  for (int w : weights) total += w;
  if (total == 0) return;
  int64_t draw = random.Below(total);
  int kind = 0;
  while (draw >= weights[kind]) draw -= weights[kind++];
  const absl::Duration outage = Outage();
  const int node = AnyNode();
  switch (kind) {
    case 0:
      KillOne(job_->worker_nodes(), "kill worker");
      return;
    case 1:
      KillOne(job_->ps_nodes(), "kill ps");
      return;
    case 2:
      KillOne({job_->coordinator_node()}, "kill coordinator");
      return;
    case 3:
      Say("replace coordinator", absl::StrCat("it is stopped for ", absl::FormatDuration(outage)));
      CoordinatorGoes();
      site_->PauseAndReplace(job_->coordinator_node(), outage);
      return;
    case 4:
      Say("pause", absl::StrCat(site_->name(node), " for ", absl::FormatDuration(outage)));
      site_->Pause(node, outage);
      return;
    case 5:
      CutSome();
      return;
    case 6: {
      const absl::Duration extra = random.Between(absl::Milliseconds(1), o.long_outage / 2);
      Say("slow", absl::StrCat(site_->name(node), " by up to ", absl::FormatDuration(extra)));
      site_->network()->SetSlow(node, extra);
      site_->world()->Schedule(
          outage, [this, node] { site_->network()->SetSlow(node, absl::ZeroDuration()); });
      return;
    }
    case 7:
      Say("disk full", absl::FormatDuration(outage));
      site_->disk()->set_full(true);
      site_->world()->Schedule(outage, [this] { site_->disk()->set_full(false); });
      return;
    case 8:
      RotNewest();
      return;
    case 9:
      ChangeWorkers();
      return;
    case 10:
      MoveWorker();
      return;
    case 12:
      KillSeveral(job_->worker_nodes());
      return;
    case 13: {
      const int count = static_cast<int>(random.Between(1, 3));
      Say("swallow", absl::StrCat("the next ", count, " of ", site_->name(node)));
      site_->network()->Swallow(node, count);
      return;
    }
    case 14:
      Mute(node, outage);
      return;
    case 15:
      Say("pause coordinator", absl::StrCat("for ", absl::FormatDuration(outage)));
      site_->Pause(job_->coordinator_node(), outage);
      return;
    case 16:
      StartRival();
      return;
    case 17: {
      const int count = static_cast<int>(random.Between(1, 3));
      Say("swallow control", absl::StrCat("the next ", count, " of ", site_->name(node)));
      site_->network()->SwallowControl(node, count);
      return;
    }
    default: {
      // As the machine's owner does before it is taken away.
      const bool ps = random.Chance(std::min(0.3, static_cast<double>(o.kill_ps) / total));
      const int victim = Pick(ps ? job_->ps_nodes() : job_->worker_nodes());
      if (site_->life(victim) == nullptr) return;
      Say("terminate",
          absl::StrCat(site_->name(victim), ", back in ", absl::FormatDuration(outage)));
      site_->Terminate(victim, outage);
    }
  }
}

// Now and then at the same moment as the job's next coordinator.
void FaultDriver::StartRival() {
  Random& random = site_->world()->random();
  if (rival_node_ < 0) rival_node_ = job_->AddRivalNode();
  if (site_->life(rival_node_) != nullptr) return;
  absl::Duration begin;
  if (random.Chance(0.6)) {
    begin = Outage();
    CoordinatorGoes();
    site_->Kill(job_->coordinator_node(), Death::kProcess, begin);
    if (random.Chance(0.5)) begin += random.Between(absl::ZeroDuration(), absl::Milliseconds(3));
  }
  Say("rival", absl::StrCat("starts in ", absl::FormatDuration(begin)));
  site_->world()->Schedule(begin, [this] {
    if (!stopped_) site_->Start(rival_node_);
  });
}

void FaultDriver::Mute(int node, absl::Duration length) {
  Say("mute", absl::StrCat(site_->name(node), " for ", absl::FormatDuration(length)));
  site_->network()->SetMute(node, true);
  site_->world()->Schedule(length, [this, node] { site_->network()->SetMute(node, false); });
}

// At most once, and only when there is another checkpoint.
void FaultDriver::RotNewest() {
  std::vector<std::string> complete;
  for (const std::string& name : site_->disk()->List("/checkpoints")) {
    if (checkpoint::ParseCheckpointName(name)) complete.push_back(name);
  }
  if (job_->checkpoint_damaged || complete.size() < 2) return;
  if (!site_->disk()->Rot(absl::StrCat("/checkpoints/", complete.back()))) return;
  job_->checkpoint_damaged = true;
  Say("rot", absl::StrCat("a bit of ", complete.back(), " flips"));
}

void FaultDriver::StopAndMend() {
  stopped_ = true;
  site_->network()->Heal();
  site_->network()->Calm();
  for (int node = 0; node < site_->nodes(); ++node) {
    site_->network()->SetSlow(node, absl::ZeroDuration());
  }
  site_->disk()->set_full(false);
}

}  // namespace coxswain::sim
