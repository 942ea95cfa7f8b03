#include "tests/bench/recovery/recovery_report.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "runtime/base/version.h"
#include "tests/bench/round.h"

namespace coxswain {
namespace {

using Json = nlohmann::ordered_json;

struct Spread {
  double median = 0, least = 0, most = 0;
};

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return {(values[(n - 1) / 2] + values[n / 2]) / 2, values.front(), values.back()};
}

std::string System() { return absl::StrCat("coxswain ", kVersion); }

// Of training, by what a turn with kills was slower; 0 without kills.
double SecondsOfAKill(const CostBench& bench, const CostFigures& f) {
  if (bench.kills == 0) return 0;
  return (1 - SpreadOf(f.ratios).median) * bench.seconds / bench.kills;
}

std::string MiB(int64_t bytes) {
  return absl::StrFormat("%.1f", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

std::string RecoveryTable(const RecoveryBench& bench, const std::vector<RecoveryFigures>& runs) {
  using F = RecoveryFigures;
  std::string out =
      absl::StrFormat("%s, %d PS, %d workers, %d runs %30s %9s %9s\n", bench.shape.name, bench.ps,
                      bench.workers, runs.size(), "median", "least", "most");
  const auto line = [&](const char* what, int digits, const std::function<double(const F&)>& of) {
    std::vector<double> values;
    for (const F& run : runs) values.push_back(of(run));
    const Spread s = SpreadOf(std::move(values));
    absl::StrAppendFormat(&out, "  %-50s %9.*f %9.*f %9.*f\n", what, digits, s.median, digits,
                          s.least, digits, s.most);
  };
  out += "a worker is killed and started again: steps a second\n";
  line("all, before", 1, [](const F& f) { return f.rate_before; });
  line("all, while it is away", 1, [](const F& f) { return f.rate_down; });
  line("all, when it is back", 1, [](const F& f) { return f.rate_after; });
  line("survivors, before", 1, [](const F& f) { return f.survivors_before; });
  line("survivors, while it is away", 1, [](const F& f) { return f.survivors_down; });
  line("survivors, when it is back", 1, [](const F& f) { return f.survivors_after; });
  line("longest pause in the second before, ms", 1,
       [](const F& f) { return 1e3 * f.pause_before; });
  line("longest pause in the second after the kill, ms", 1,
       [](const F& f) { return 1e3 * f.pause_at_kill; });
  out += "seconds\n";
  line("kill to detected", 3, [](const F& f) { return f.kill_to_detected; });
  line("kill to its first closure complete elsewhere", 3,
       [](const F& f) { return f.kill_to_elsewhere; });
  line("kill to all of its closures complete elsewhere", 3,
       [](const F& f) { return f.kill_to_all_elsewhere; });
  line("restart to ready", 3, [](const F& f) { return f.restart_to_ready; });
  line("restart to the replacement's first closure", 3,
       [](const F& f) { return f.restart_to_first; });
  line("restart to 90% of the rate before (a window of 0.25 s)", 3,
       [](const F& f) { return f.restart_to_90.value_or(INFINITY); });
  out += "a parameter server is killed and started at once: seconds\n";
  line("kill to detected", 3, [](const F& f) { return f.ps_kill_to_detected; });
  line("kill to dispatch, from the checkpoint", 3,
       [](const F& f) { return f.ps_kill_to_dispatch; });
  line("kill to the first new closure complete", 3, [](const F& f) { return f.ps_kill_to_new; });
  line("closures that ran again", 0,
       [](const F& f) { return static_cast<double>(f.closures_rerun); });
  line("writing the checkpoint", 3, [](const F& f) { return f.checkpoint_seconds; });
  line("its stall of a PS, ms", 2, [](const F& f) { return f.checkpoint_stall_ms; });
  int64_t scheduled = 0, applied = 0;
  bool equal = true;
  for (const F& run : runs) {
    scheduled += run.scheduled;
    applied += run.applied;
    equal = equal && run.scheduled == run.applied;
  }
  absl::StrAppendFormat(&out, "steps scheduled %d, applied %d: %s\n", scheduled, applied,
                        equal ? "equal in every run" : "DIFFERENT");
  return out;
}

std::string RecoveryJson(const RecoveryBench& bench, const std::vector<RecoveryFigures>& runs) {
  Json list = Json::array();
  for (const RecoveryFigures& f : runs) {
    Json bins = Json::array();
    for (size_t i = 0; i < f.bins.size(); ++i) {
      bins.push_back({Round(static_cast<double>(i + 1) * RecoveryFigures::kBin, 2), f.bins[i]});
    }
    list.push_back({{"system", System()},
                    {"case", "recovery"},
                    {"shape", bench.shape.name},
                    {"ps", bench.ps},
                    {"workers", bench.workers},
                    {"in_flight", bench.in_flight},
                    {"steps_per_bin_before", f.bins_before_median},
                    {"bins_while_one_is_down", f.bins_down},
                    {"seconds_from_restart_to_90_percent",
                     f.restart_to_90 ? Json(Round(*f.restart_to_90, 3)) : Json()},
                    {"scheduled", f.scheduled},
                    {"applied", f.applied},
                    {"bins", std::move(bins)},
                    {"killed_at", Round(f.killed_at, 3)},
                    {"restarted_at", Round(f.restarted_at, 3)},
                    {"steps_per_second_before", Round(f.rate_before, 2)},
                    {"steps_per_second_down", Round(f.rate_down, 2)},
                    {"steps_per_second_after", Round(f.rate_after, 2)},
                    {"survivors_steps_per_second_before", Round(f.survivors_before, 2)},
                    {"survivors_steps_per_second_down", Round(f.survivors_down, 2)},
                    {"survivors_steps_per_second_after", Round(f.survivors_after, 2)},
                    {"longest_pause_ms_before", Round(1e3 * f.pause_before, 2)},
                    {"longest_pause_ms_at_kill", Round(1e3 * f.pause_at_kill, 2)},
                    {"seconds_from_kill_to_detected", Round(f.kill_to_detected, 4)},
                    {"seconds_from_kill_to_first_elsewhere", Round(f.kill_to_elsewhere, 4)},
                    {"seconds_from_kill_to_all_elsewhere", Round(f.kill_to_all_elsewhere, 4)},
                    {"seconds_from_restart_to_ready", Round(f.restart_to_ready, 4)},
                    {"seconds_from_restart_to_first_closure", Round(f.restart_to_first, 4)},
                    {"retried", f.retried},
                    {"seconds_from_ps_kill_to_detected", Round(f.ps_kill_to_detected, 4)},
                    {"seconds_from_ps_kill_to_dispatch", Round(f.ps_kill_to_dispatch, 4)},
                    {"seconds_from_ps_kill_to_new_closure", Round(f.ps_kill_to_new, 4)},
                    {"closures_rerun", f.closures_rerun},
                    {"checkpoint_seconds", Round(f.checkpoint_seconds, 4)},
                    {"checkpoint_stall_ms", Round(f.checkpoint_stall_ms, 3)},
                    {"checkpoint_bytes", f.checkpoint_bytes}});
  }
  return list.dump(2) + "\n";
}

std::string CostTable(const CostBench& bench, const CostFigures& f) {
  const Spread with = SpreadOf(f.with), without = SpreadOf(f.without), ratio = SpreadOf(f.ratios);
  std::string out =
      absl::StrFormat("%s on %s, %d turns of %.0f s each %38s %9s %9s\n", bench.shape.name,
                      bench.cluster.name(), bench.turns, bench.seconds, "median", "least", "most");
  const auto line = [&](const std::string& what, int digits, const Spread& s) {
    absl::StrAppendFormat(&out, "  %-60s %9.*f %9.*f %9.*f\n", what, digits, s.median, digits,
                          s.least, digits, s.most);
  };
  line(absl::StrFormat("steps a second with log and a checkpoint every %.0f s%s", bench.every,
                       f.kills > 0 ? ", and kills" : ""),
       1, with);
  line("steps a second without", 1, without);
  line("ratio, by pairs of turns", 4, ratio);
  absl::StrAppendFormat(
      &out, "  %d checkpoints of %s MiB, %.2f s each, stall of a PS %.2f ms each\n", f.checkpoints,
      MiB(f.checkpoint_bytes), f.checkpoint_seconds, f.checkpoint_stall_ms);
  if (f.kills > 0) {
    absl::StrAppendFormat(
        &out,
        "  %d kills of workers, %d closures ran again; %.2f s of training lost for each kill\n",
        f.kills, f.retried, SecondsOfAKill(bench, f));
  }
  absl::StrAppendFormat(&out,
                        "  the ledgers, in both: %.2f us of CPU time a step (%d shards)\n"
                        "  steps scheduled %d, applied %d\n",
                        f.ledger_us_per_step, f.shards, f.scheduled, f.applied);
  return out;
}

std::string CostJson(const CostBench& bench, const CostFigures& f) {
  const Spread ratio = SpreadOf(f.ratios);
  const Json json = {{{"system", System()},
                      {"case", "recovery_cost"},
                      {"shape", bench.shape.name},
                      {"ps", bench.cluster.ps},
                      {"workers", bench.cluster.workers},
                      {"in_flight", bench.in_flight},
                      {"checkpoint_every_seconds", bench.every},
                      {"seconds_per_turn", bench.seconds},
                      {"steps_per_second_with", f.with},
                      {"steps_per_second_without", f.without},
                      {"ratios", f.ratios},
                      {"ratio_median", Round(ratio.median, 4)},
                      {"ratio_least", Round(ratio.least, 4)},
                      {"ratio_most", Round(ratio.most, 4)},
                      {"checkpoints", f.checkpoints},
                      {"checkpoint_bytes", f.checkpoint_bytes},
                      {"checkpoint_seconds", Round(f.checkpoint_seconds, 4)},
                      {"checkpoint_stall_ms", Round(f.checkpoint_stall_ms, 3)},
                      {"ledger_us_per_step", Round(f.ledger_us_per_step, 3)},
                      {"kills", f.kills},
                      {"retried", f.retried},
                      {"seconds_lost_for_each_kill", Round(SecondsOfAKill(bench, f), 4)},
                      {"device", bench.device == DeviceChoice::kGpu ? "gpu" : "auto"},
                      {"scheduled", f.scheduled},
                      {"applied", f.applied}}};
  return json.dump(2) + "\n";
}

}  // namespace coxswain
