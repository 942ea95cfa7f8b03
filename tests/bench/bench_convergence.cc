// How long training takes to a given quality, by the way in which workers train together and by
// their number: the production objects on virtual time, on workers of given speeds.
// tests/bench/README.md says what is measured.
//
//   bench_convergence [--workers 1,2,4,8,16] [--straggler 1,5] [--seeds 3] [--target 0.79]
//                     [--rates 0.5,1,2] [--svg FILE]
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "tests/bench/convergence/convergence_plot.h"
#include "tests/bench/convergence/simulated_training.h"

namespace coxswain {
namespace {

struct Flags {
  std::vector<int> workers = {1, 2, 4, 8, 16};
  std::vector<double> stragglers = {1, 5};
  int seeds = 3;
  std::vector<double> rates = {1, 0.5, 2, 0.25};
  SimulatedTraining training;
  std::string svg;
};

struct Way {
  std::string name;
  Consistency consistency;
};

// `sync` takes a batch of each worker, with a backup of all but a few; `hybrid` has groups of a
// quarter of the workers, 2 at least; `bounded` lets all workers of one speed be busy.
std::vector<Way> WaysFor(int workers, int in_flight) {
  const int backup = std::max(1, workers / 8);
  std::vector<Way> ways(5);
  ways[0].name = "async";
  ways[1].name = "bounded";
  ways[1].consistency.mode = ConsistencyMode::kBounded;
  ways[1].consistency.max_staleness = workers * in_flight - 1;
  ways[2].name = "sync";
  ways[2].consistency.mode = ConsistencyMode::kSync;
  ways[2].consistency.replicas = workers;
  ways[3].name = "sync, backup";
  ways[3].consistency.mode = ConsistencyMode::kSync;
  ways[3].consistency.replicas = std::max(1, workers - backup);
  ways[3].consistency.backup = workers > 1 ? backup : 0;
  ways[4].name = "hybrid";
  ways[4].consistency.mode = ConsistencyMode::kHybrid;
  ways[4].consistency.group_size = std::max(2, workers / 4);
  return ways;
}

double Seconds(const TrainingResult& r) { return absl::ToDoubleSeconds(r.time); }

// By the time of the run that is in the middle; one that has not reached the target counts as the
// longest.
struct Point {
  double rate = 0;
  TrainingResult result;
};

bool Faster(const TrainingResult& a, const TrainingResult& b) {
  if (a.reached != b.reached) return a.reached;
  return a.reached ? a.time < b.time : a.quality > b.quality;
}

absl::StatusOr<Point> MeasureRate(SimulatedTraining training, double rate, int seeds) {
  std::vector<TrainingResult> results;
  training.learning_rate = rate;
  for (int s = 1; s <= seeds; ++s) {
    training.seed = static_cast<uint64_t>(s);
    ASSIGN_OR_RETURN(TrainingResult result, Train(training));
    results.push_back(std::move(result));
  }
  std::sort(results.begin(), results.end(), Faster);
  return Point{rate, results[results.size() / 2]};
}

// At the learning rate that is the best for this way and number of workers, as each user would look
// for it.
absl::StatusOr<Point> MeasureBest(const Flags& flags, SimulatedTraining training) {
  std::optional<Point> best;
  for (const double rate : flags.rates) {
    // One that is slower than the best so far need not be run to its end.
    if (best && best->result.reached) training.most_time = best->result.time;
    ASSIGN_OR_RETURN(Point point, MeasureRate(training, rate, flags.seeds));
    if (!best || Faster(point.result, best->result)) best = std::move(point);
  }
  return *std::move(best);
}

void PrintRow(const std::string& way, int workers, double straggler, const Point& p) {
  const TrainingResult& r = p.result;
  std::printf("| %s | %d | %s | %s | %.3g | %lld | %lld | %lld | %.1f |\n", way.c_str(), workers,
              straggler > 1 ? absl::StrFormat("%gx", straggler).c_str() : "none",
              (r.reached ? absl::StrFormat("%.1f", Seconds(r))
                         : absl::StrFormat("not reached, AUC %.3f", r.quality))
                  .c_str(),
              p.rate, static_cast<long long>(r.batches), static_cast<long long>(r.updates),
              static_cast<long long>(r.surplus), static_cast<double>(r.batches) / Seconds(r));
  std::fflush(stdout);
}

absl::Status Run(const Flags& flags) {
  std::printf(
      "| mode | workers | slow worker | seconds | rate | batches | updates | surplus | batches/s "
      "|\n|---|---|---|---|---|---|---|---|---|\n");
  std::vector<ConvergencePanel> panels;
  for (const double straggler : flags.stragglers) {
    ConvergencePanel& panel = panels.emplace_back();
    panel.title = straggler > 1 ? absl::StrFormat("one worker is %gx slower", straggler)
                                : "workers of one speed";
    for (const Way& way : WaysFor(1, 1)) panel.lines.push_back({way.name, {}});
    for (const int workers : flags.workers) {
      const std::vector<Way> ways = WaysFor(workers, flags.training.in_flight);
      for (size_t w = 0; w < ways.size(); ++w) {
        SimulatedTraining training = flags.training;
        training.consistency = ways[w].consistency;
        training.workers = workers;
        training.straggler = straggler;
        const auto best = MeasureBest(flags, training);
        if (!best.ok()) {
          return Annotate(best.status(), absl::StrCat(ways[w].name, ", ", workers, " workers"));
        }
        PrintRow(ways[w].name, workers, straggler, *best);
        panel.lines[w].seconds.push_back(
            best->result.reached ? std::optional<double>(Seconds(best->result)) : std::nullopt);
      }
    }
  }
  if (flags.svg.empty()) return absl::OkStatus();
  std::ofstream out(flags.svg);
  out << PlotConvergence(flags.workers, panels);
  out.close();
  return out ? absl::OkStatus() : absl::InternalError(absl::StrCat("cannot write ", flags.svg));
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Time to a given quality, simulated", "bench_convergence");
  app.add_option("--workers", flags.workers, "numbers of them, ascending")
      ->delimiter(',')
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--straggler", flags.stragglers,
                 "how many times slower the first worker is (1: as the others)")
      ->delimiter(',')
      ->check(CLI::Range(1.0, 1000.0))
      ->capture_default_str();
  app.add_option("--seeds", flags.seeds, "runs of each, of which the one in the middle counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--target", flags.training.target, "AUC that is to be reached")
      ->check(CLI::Range(0.5, 1.0))
      ->capture_default_str();
  app.add_option("--rates", flags.rates, "learning rates, of which the best counts")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--most", flags.training.most_batches, "batches of a run")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--svg", flags.svg, "a picture");
  CLI11_PARSE(app, argc, argv);
  // As in the simulator's tests: the check of the order of locks is a fifth of the time.
  InitLogging("bench", LogLevel::kWarning);
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  if (absl::Status status = Run(flags); !status.ok()) {
    std::fprintf(stderr, "%s\n", Describe(status).c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) { return coxswain::Main(argc, argv); }
