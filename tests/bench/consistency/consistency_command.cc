#include "tests/bench/consistency/consistency_command.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/base/version.h"
#include "tests/bench/round.h"

namespace coxswain {
namespace {

using Json = nlohmann::ordered_json;

double Ratio(const WayFigures& f, const WayFigures& of) {
  return of.rate() > 0 ? f.rate() / of.rate() : 0;
}

// What a row is compared with, all of the same run.
struct Compared {
  const WayFigures* async;  // with as slow a worker, if one is slow
  const WayFigures* alike;  // the same way without a slow worker
};

Compared ComparedWith(const std::vector<WayFigures>& ways, size_t way) {
  const bool slow = ways[way].slowdown > 0;
  return {&ways[slow ? 1 : 0], &ways[slow ? way - 1 : way]};
}

Json ToJsonObject(const WayFigures& f, const Compared& with) {
  Json rates = Json::array();
  for (const double rate : f.rates) rates.push_back(Round(rate, 2));
  const double examples = static_cast<double>(f.shape.batch);
  return {{"system", absl::StrCat("coxswain ", kVersion)},
          {"case", f.shape.name},
          {"way", f.way.name},
          {"ps", f.cluster.ps},
          {"workers", f.cluster.workers},
          {"in_process", f.cluster.in_process},
          {"slowdown", f.slowdown},
          {"batches_per_update", f.way.consistency.batches_per_update()},
          {"backup", f.way.consistency.backup},
          {"batches_per_second", Round(f.rate(), 2)},
          {"examples_per_second", Round(f.rate() * examples, 0)},
          {"of_async", Round(Ratio(f, *with.async), 4)},
          {"of_alike", Round(Ratio(f, *with.alike), 4)},
          {"rounds", std::move(rates)},
          {"updates", f.updates},
          {"batches", f.batches},
          {"surplus", f.surplus},
          {"seconds", Round(f.seconds, 2)},
          {"cpu_ms_per_batch", Round(f.cpu_ms, 4)},
          {"messages_per_ps_and_batch", Round(f.messages, 3)},
          {"mean_staleness", Round(f.mean_staleness, 2)},
          {"most_staleness", f.most_staleness},
          {"rows_changed", Round(f.rows_changed, 4)}};
}

void PrintRow(FILE* table, const WayFigures& f, const Compared& with) {
  const std::string slow = f.slowdown > 0 ? absl::StrCat(f.slowdown, "x") : "-";
  std::fprintf(table,
               "%-8s %-15s %-13s %5s %10.1f %12.0f %8.2f %8.2f %7.3f %9.2f %9.1f %6lld %6.1f%% "
               "%8lld\n",
               f.shape.name.c_str(), f.cluster.name().c_str(), f.way.name.c_str(), slow.c_str(),
               f.rate(), f.rate() * static_cast<double>(f.shape.batch), Ratio(f, *with.async),
               Ratio(f, *with.alike), f.cpu_ms, f.messages, f.mean_staleness,
               static_cast<long long>(f.most_staleness), 100 * f.rows_changed,
               static_cast<long long>(f.surplus));
  std::fflush(table);
}

}  // namespace

ConsistencyCommand AddConsistencyCommand(CLI::App* app, ConsistencyFlags* flags) {
  CLI::App* const command = app->add_subcommand(
      "consistency", "Times asynchronous, bounded, synchronous and hybrid training, by turns");
  command->add_option("SHAPE", flags->shapes, "of step")->capture_default_str();
  command
      ->add_option("--cluster", flags->clusters,
                   "in-process:PSxW, or PSxW for processes on loopback")
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--rows", flags->rows, "of each table at most (0: the shape's)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seconds", flags->options.seconds, "of each turn")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--rounds", flags->options.rounds, "turns of each way")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--way", flags->options.ways, "only this one, beside async")
      ->allow_extra_args(false);
  command
      ->add_option("--in-flight", flags->options.in_flight, "closures that a worker is kept deep")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--threads", flags->options.threads,
                   "compute threads of the process or of each worker (0: by cores)")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--straggler", flags->options.slowdown,
                   "each way once more, with a first worker that is this many times slower "
                   "(processes only)")
      ->check(CLI::Range(1.0, 1000.0));
  CLI::Option* const json =
      command
          ->add_option("--json", flags->json, "also as JSON into this file (none or -: to stdout)")
          ->expected(0, 1);
  return {command, json};
}

absl::Status RunConsistency(const ConsistencyFlags& flags, WriteText write) {
  // The table goes where the JSON does not.
  FILE* table = flags.want_json && (flags.json.empty() || flags.json == "-") ? stderr : stdout;
  std::fprintf(table, "%-8s %-15s %-13s %5s %10s %12s %8s %8s %7s %9s %9s %6s %7s %8s\n", "case",
               "cluster", "way", "slow", "batches/s", "examples/s", "of async", "of alike",
               "CPU ms", "messages", "staleness", "most", "changed", "surplus");
  Json all = Json::array();
  for (const std::string& name : flags.shapes) {
    ASSIGN_OR_RETURN(StepShape shape, FindStepShape(name));
    for (auto& t : shape.tables) {
      if (flags.rows > 0) t.rows = std::min(t.rows, flags.rows);
    }
    for (const std::string& size : flags.clusters) {
      ASSIGN_OR_RETURN(const ClusterShape cluster, ParseClusterShape(size));
      const auto ways = MeasureWays(shape, cluster, flags.options);
      if (!ways.ok()) return Annotate(ways.status(), absl::StrCat(name, " on ", cluster.name()));
      for (size_t i = 0; i < ways->size(); ++i) {
        const Compared with = ComparedWith(*ways, i);
        PrintRow(table, (*ways)[i], with);
        all.push_back(ToJsonObject((*ways)[i], with));
      }
    }
  }
  return flags.want_json ? write(flags.json, all.dump(2) + "\n") : absl::OkStatus();
}

}  // namespace coxswain
