#include "tests/sim/scenario.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/base/logging.h"

namespace coxswain::sim {
namespace {

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  int64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// How to run one world again.
std::string Replay(const SeedsOptions& options, int64_t seed) {
  return absl::StrCat("COXSWAIN_SIM_SEED=", seed, " build/release/bin/", options.program, " \"",
                      options.tag, "\"");
}

// A world that hangs in real time would say nothing by itself.
class Watchdog {
 public:
  explicit Watchdog(const SeedsOptions& options) : options_(options), thread_([this] { Run(); }) {}
  ~Watchdog() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  void Begin(int64_t seed) { seed_ = seed, ++worlds_; }

 private:
  void Run() {
    std::unique_lock<std::mutex> lock(mu_);
    uint64_t seen = 0;
    while (!changed_.wait_for(lock, std::chrono::seconds(280), [this] { return over_; })) {
      if (worlds_ == seen) {
        std::fprintf(stderr, "the world hangs: %s\n", Replay(options_, seed_).c_str());
        std::abort();
      }
      seen = worlds_;
    }
  }

  const SeedsOptions options_;
  std::atomic<int64_t> seed_{0};
  std::atomic<uint64_t> worlds_{0};
  std::mutex mu_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

void Add(std::map<std::string, int64_t>* sum, const std::map<std::string, int64_t>& more) {
  for (const auto& [key, count] : more) (*sum)[key] += count;
}

void Add(Outcome* sum, const Outcome& one) {
  sum->events += one.events;
  sum->time += one.time;
  Add(&sum->faults, one.faults);
  Add(&sum->fault_points, one.fault_points);
  Job::Totals& t = sum->totals;
  t.coordinators += one.totals.coordinators;
  t.exits += one.totals.exits;
  t.resumes += one.totals.resumes;
  t.reruns += one.totals.reruns;
  t.checkpoints += one.totals.checkpoints;
  t.moves += one.totals.moves;
  t.ps_recoveries += one.totals.ps_recoveries;
  t.updates_lost += one.totals.updates_lost;
  t.duplicates += one.totals.duplicates;
  t.retried += one.totals.retried;
  t.workers_lost += one.totals.workers_lost;
  t.poisoned += one.totals.poisoned;
  t.torn += one.totals.torn;
  t.too_large += one.totals.too_large;
  t.gpus_lost += one.totals.gpus_lost;
  t.gpu_shards += one.totals.gpu_shards;
  t.without_room += one.totals.without_room;
  t.quarantined += one.totals.quarantined;
  t.rivals += one.totals.rivals;
  t.rivals_held += one.totals.rivals_held;
  t.timeouts += one.totals.timeouts;
  t.surplus += one.totals.surplus;
  t.writes += one.totals.writes;
  t.ended_early += one.totals.ended_early;
  t.ended_unknown += one.totals.ended_unknown;
  t.directories_tried += one.totals.directories_tried;
  t.starts_refused += one.totals.starts_refused;
  t.saved += one.totals.saved;
  t.read_at_once += one.totals.read_at_once;
  t.read_back += one.totals.read_back;
}

std::string Describe(const SeedsResult& result) {
  const Job::Totals& t = result.sum.totals;
  std::string text = absl::StrCat(
      result.worlds, " worlds, ", result.run_twice, " of them twice, trace ",
      absl::Hex(result.trace_hash, absl::kZeroPad16), ", ",
      absl::FormatDuration(absl::Floor(result.sum.time, absl::Seconds(1))), " virtual, ",
      result.sum.events, " events; workers lost ", t.workers_lost, ", closures retried ", t.retried,
      ", duplicates dropped ", t.duplicates, ", PS recoveries ", t.ps_recoveries,
      ", closures rerun ", t.reruns, ", checkpoints ", t.checkpoints, ", moves ", t.moves,
      ", coordinators ", t.coordinators, ", resumes ", t.resumes, ", row writes ", t.writes,
      ", updates lost ", t.updates_lost, ", workers killed by closures ", t.poisoned,
      ", connections broken by them ", t.torn, ", closures given up ", t.quarantined,
      ", too large ", t.too_large, ", GPUs lost ", t.gpus_lost, ", waits for memory ",
      t.without_room, ", attempts that took too long ", t.timeouts, ", rivals ", t.rivals,
      ", with the cluster ", t.rivals_held, ", directories tried ", t.directories_tried,
      "; faults:");
  for (const auto& [kind, count] : result.sum.faults)
    absl::StrAppend(&text, " ", kind, " ", count, ",");
  text.pop_back();
  return text;
}

}  // namespace

Outcome RunWorld(const MakeScenario& make, uint64_t seed) {
  Outcome outcome;
  World world(seed);
  Scenario scenario = make(&world.random());
  Site site(&world, scenario.site);
  Job job(&site, scenario.job, std::move(scenario.workload));
  FaultDriver faults(&site, &job, scenario.faults);
  job.StartAll();
  faults.Start();
  const auto finished = [&] {
    CoordinatorProcess* coordinator = job.coordinator();
    if (coordinator != nullptr && coordinator->trained() && !coordinator->verifying()) {
      world.Schedule(absl::ZeroDuration(), site.life(job.coordinator_node()),
                     [coordinator] { coordinator->Verify(); });
      coordinator->set_verifying();
    }
    return job.finished();
  };
  if (!world.RunUntil(finished, scenario.faults_for) && world.ok()) {
    faults.StopAndMend();
    world.Note(kNoteFault, 1, 0, [] { return std::string("all is mended"); });
    const absl::Duration mended = world.now();
    if (!world.RunUntil(finished, mended + scenario.patience) && world.ok()) {
      CoordinatorProcess* coordinator = job.coordinator();
      world.Violation(
          absl::StrCat("no progress: the job is not finished ",
                       absl::FormatDuration(world.now() - mended), " after the last fault; ",
                       coordinator == nullptr ? "no coordinator runs" : coordinator->Describe()));
    }
  }
  outcome.violation = world.violation();
  outcome.trace_hash = world.trace_hash();
  outcome.events = world.events();
  outcome.time = world.now();
  outcome.frame_messages = site.network()->frame_messages();
  outcome.totals = job.totals;
  outcome.faults = faults.by_kind();
  if (const int64_t twice = site.network()->duplicates(); twice > 0) {
    outcome.faults["messages twice"] = twice;
  }
  if (const int64_t lost = site.network()->swallowed(); lost > 0) {
    outcome.faults["messages swallowed"] = lost;
  }
  if (const int64_t lost = site.network()->control_swallowed(); lost > 0) {
    outcome.faults["control messages swallowed"] = lost;
  }
  outcome.fault_points = site.fault_points();
  return outcome;
}

SeedsResult RunSeeds(const SeedsOptions& options, const MakeScenario& make) {
  const bool tracing = std::getenv("COXSWAIN_SIM_TRACE") != nullptr;
  // Debian's Abseil checks the order of locks at each one: a fifth of the time here.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  InitLogging("sim", tracing ? LogLevel::kInfo : LogLevel::kOff);
  // One thread, and tens of thousands of mutexes in a large world.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  std::vector<int64_t> seeds = options.known;
  const int64_t count =
      options.exactly ? options.count : FromEnvironment("COXSWAIN_SIM_SEEDS", options.count);
  const int64_t first =
      options.exactly ? options.first : FromEnvironment("COXSWAIN_SIM_FIRST", options.first);
  for (int64_t i = 0; i < count; ++i) seeds.push_back(first + i);
  if (const int64_t only = FromEnvironment("COXSWAIN_SIM_SEED", -1); only >= 0) seeds = {only};
  SeedsResult result;
  Watchdog watchdog(options);
  for (const int64_t seed : seeds) {
    watchdog.Begin(seed);
    Outcome outcome = RunWorld(make, static_cast<uint64_t>(seed));
    if (outcome.violation.empty() && seed % 20 == 0) {
      ++result.run_twice;
      const Outcome again = RunWorld(make, static_cast<uint64_t>(seed));
      if (again.trace_hash != outcome.trace_hash || again.events != outcome.events) {
        outcome.violation = absl::StrCat("the same seed gave two traces: ", outcome.events,
                                         " events, then ", again.events, "; ", again.violation);
      }
    }
    ++result.worlds;
    result.trace_hash = result.trace_hash * 0x100000001b3 + outcome.trace_hash;
    Add(&result.sum, outcome);
    if (!outcome.violation.empty()) {
      result.failed_seed = seed;
      result.violation = outcome.violation;
      result.replay = Replay(options, seed);
      std::fprintf(stderr, "FAILED: %s  # %s\n", result.replay.c_str(), outcome.violation.c_str());
      break;
    }
  }
  std::fprintf(stderr, "%s %s\n", options.tag.c_str(), Describe(result).c_str());
  return result;
}

}  // namespace coxswain::sim
