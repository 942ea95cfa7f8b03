// The checks of the promises (Check...), then the table for the terminal and the member of the
// report.
#include "coordinator/chaos/summary.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace coxswain::chaos {
namespace {

using Json = nlohmann::ordered_json;

// A nested member, null if it does not exist.
const Json& At(const Json& value, std::initializer_list<const char*> path) {
  static const Json null;
  const Json* at = &value;
  for (const char* name : path) {
    if (!at->is_object()) return null;
    const auto it = at->find(name);
    if (it == at->end()) return null;
    at = &*it;
  }
  return *at;
}

int64_t Int(const Json& value) { return value.is_number() ? value.get<int64_t>() : 0; }

Json InjectedJson(const FaultCounts& counts) {
  Json all;
  for (int k = 0; k < kTaskKinds; ++k) {
    Json& kind = all[std::string(TaskKindName(static_cast<TaskKind>(k)))];
    for (int a = 0; a < kFaultActions; ++a) {
      kind[std::string(FaultActionName(static_cast<FaultAction>(a)))] =
          counts[static_cast<size_t>(k)][static_cast<size_t>(a)];
    }
  }
  return all;
}

Json BaselineJson(const Json& report) {
  if (!report.is_object()) return nullptr;
  Json baseline;
  for (const char* key : {"steps", "examples", "train_seconds", "final_loss", "metrics"}) {
    baseline[key] = At(report, {key});
  }
  return baseline;
}

// Of an update, where it is of several batches or waits for the one before; else 0.
int64_t BatchesOf(const Json& report) {
  const int64_t batches = Int(At(report, {"consistency", "batches"}));
  return At(report, {"consistency", "mode"}) == "sync" || batches > 1 ? batches : 0;
}

void CheckUpdates(const Json& report, std::vector<std::string>* broken) {
  const Json& updates = At(report, {"updates"});
  if (!updates.is_object()) {
    broken->push_back("the report does not tell how many updates were applied");
    return;
  }
  const int64_t steps = Int(At(report, {"steps"})), scheduled = Int(At(updates, {"scheduled"})),
                applied = Int(At(updates, {"applied"})), lost = Int(At(updates, {"lost"}));
  // An epoch's last synchronous step may have fewer batches than the others.
  const int64_t replicas = std::max<int64_t>(1, BatchesOf(report));
  const bool fits = scheduled <= steps && scheduled * replicas >= steps;
  if (!fits) {
    broken->push_back(absl::StrCat(scheduled, " updates scheduled for ", steps, " steps"));
  }
  // on_ps_loss: accept_loss gives up updates, and counts them over all shards.
  if (applied != scheduled && lost == 0) {
    broken->push_back(absl::StrCat(applied, " updates applied of ", scheduled, " scheduled"));
  }
  if (applied > scheduled && lost > 0) {
    broken->push_back(absl::StrCat(applied, " updates applied, only ", scheduled, " scheduled"));
  }
}

void CheckVisits(const Json& report, std::vector<std::string>* broken) {
  const Json& visits = At(report, {"visitation"});
  if (!visits.is_object()) {
    broken->push_back("the report does not tell how often examples were used");
    return;
  }
  const int64_t missing = Int(At(visits, {"missing"})), repeated = Int(At(visits, {"repeated"}));
  const bool lossy = Int(At(report, {"updates", "lost"})) > 0;
  if (missing > 0 && !lossy) {
    broken->push_back(absl::StrCat(missing, " examples were used too seldom"));
  }
  if (repeated > 0) broken->push_back(absl::StrCat(repeated, " examples were used too often"));
}

void CheckBaseline(const Json& report, const Json& baseline, std::vector<std::string>* broken) {
  if (!baseline.is_object()) return;
  // Early stopping looks at metrics, which are never quite the same twice of other jobs.
  const bool early =
      At(report, {"stopped_early"}) == true || At(baseline, {"stopped_early"}) == true;
  if (early && At(report, {"consistency", "deterministic"}) != true) return;
  for (const char* key : {"steps", "examples"}) {
    const int64_t with = Int(At(report, {key})), without = Int(At(baseline, {key}));
    if (with == without) continue;
    broken->push_back(absl::StrCat(with, " ", key, " with faults, ", without, " without"));
  }
}

// A deterministic job leaves the same model, so what is measured of it is the same, but for the
// order in which it is summed.
void CheckMetrics(const Json& report, const Json& baseline, std::vector<std::string>* broken) {
  constexpr double kSummedOtherwise = 1e-6;
  if (!baseline.is_object() || At(report, {"consistency", "deterministic"}) != true) return;
  for (const auto& [name, value] : At(baseline, {"metrics"}).items()) {
    const Json& with = At(report, {"metrics", name.c_str()});
    if (!value.is_number()) continue;
    const double wanted = value.get<double>();
    if (with.is_number() && std::abs(with.get<double>() - wanted) <=
                                kSummedOtherwise * std::max(1.0, std::abs(wanted))) {
      continue;
    }
    broken->push_back(absl::StrCat(name, " is ", with.dump(), " with faults, ", value.dump(),
                                   " without, in a deterministic job"));
  }
}

std::vector<double> Numbers(const Json& list) {
  std::vector<double> numbers;
  if (!list.is_array()) return numbers;
  for (const Json& value : list) {
    if (value.is_number()) numbers.push_back(value.get<double>());
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::string Times(std::vector<double> seconds) {
  if (seconds.empty()) return "-";
  std::sort(seconds.begin(), seconds.end());
  return absl::StrFormat("p50 %.2f s, max %.2f s (%d)", seconds[(seconds.size() - 1) / 2],
                         seconds.back(), seconds.size());
}

std::string Number(const Json& value) {
  if (!value.is_number()) return "-";
  return value.is_number_integer() ? absl::StrCat(value.get<int64_t>())
                                   : absl::StrFormat("%.4f", value.get<double>());
}

// "worker: 6 kill, 1 stop"
std::string Done(const Json& kind) {
  std::vector<std::string> parts;
  for (const auto& [action, count] : kind.items()) {
    if (Int(count) > 0) parts.push_back(absl::StrCat(Int(count), " ", action));
  }
  return parts.empty() ? "none" : absl::StrJoin(parts, ", ");
}

class Table {
 public:
  void Row(const std::string& name, const std::string& value) {
    absl::StrAppend(&text_, absl::StrFormat("  %-28s %s\n", name, value));
  }
  std::string text() const { return text_; }

 private:
  std::string text_;
};

void AddQuality(const Json& report, Table* table) {
  const Json& baseline = At(report, {"chaos", "baseline"});
  const auto row = [&](const std::string& name, const Json& with, const Json& without) {
    table->Row(name, baseline.is_object()
                         ? absl::StrCat(Number(with), "  (without faults ", Number(without), ")")
                         : Number(with));
  };
  row("loss", At(report, {"final_loss"}), At(baseline, {"final_loss"}));
  const Json& metrics = At(report, {"metrics"});
  for (const auto& [name, value] : metrics.items()) {
    row(name, value, At(baseline, {"metrics", name.c_str()}));
  }
  row("training time, s", At(report, {"train_seconds"}), At(baseline, {"train_seconds"}));
}

}  // namespace

ChaosSummary Summarize(const ChaosSpec& spec, const SupervisorResult& result, Json report,
                       const Json& baseline) {
  ChaosSummary summary;
  for (const std::string& trouble : result.troubles) summary.broken.push_back(trouble);
  if (report.is_object()) {
    CheckUpdates(report, &summary.broken);
    if (spec.visitation) CheckVisits(report, &summary.broken);
    CheckBaseline(report, baseline, &summary.broken);
    CheckMetrics(report, baseline, &summary.broken);
    report["chaos"] = {{"seed", spec.seed},
                       {"injected", InjectedJson(result.injected)},
                       {"coordinator_starts", result.coordinator_starts},
                       {"coordinator_recovery_seconds", result.coordinator_recovery},
                       {"baseline", BaselineJson(baseline)},
                       {"broken", summary.broken}};
  } else if (result.code == 0) {
    summary.broken.push_back("the job ended well but left no report");
  }
  summary.report = std::move(report);
  return summary;
}

std::string FormatSummary(const ChaosSummary& summary) {
  const Json& r = summary.report;
  Table table;
  if (r.is_object()) {
    const Json& chaos = At(r, {"chaos"});
    for (const auto& [kind, counts] : At(chaos, {"injected"}).items()) {
      table.Row(absl::StrCat("faults, ", kind), Done(counts));
    }
    table.Row(
        "losses seen by the job",
        absl::StrFormat("worker %d, ps %d, coordinator %d", Int(At(r, {"failures", "worker"})),
                        Int(At(r, {"failures", "ps"})), Int(At(r, {"failures", "coordinator"}))));
    table.Row("recovery, worker and ps", Times(Numbers(At(r, {"failures", "recovery_seconds"}))));
    table.Row("recovery, coordinator", Times(Numbers(At(chaos, {"coordinator_recovery_seconds"}))));
    table.Row("closures",
              absl::StrFormat("%d retried, %d run again", Int(At(r, {"closures", "retried"})),
                              Int(At(r, {"closures", "rerun"}))));
    const Json& updates = At(r, {"updates"});
    table.Row("duplicates suppressed", Number(At(updates, {"duplicates_dropped"})));
    const int64_t lost = Int(At(updates, {"lost"}));
    const bool sync = BatchesOf(r) > 0;
    const Json& steps = sync ? At(updates, {"scheduled"}) : At(r, {"steps"});
    table.Row(!sync                                      ? "updates == steps"
              : At(r, {"consistency", "mode"}) == "sync" ? "updates == synchronous steps"
                                                         : "updates == those scheduled",
              absl::StrCat(Number(At(updates, {"applied"})), " == ", Number(steps),
                           At(updates, {"applied"}) == steps ? ": yes" : ": NO",
                           lost > 0 ? absl::StrCat(" (", lost, " given up by accept_loss)") : ""));
    const Json& visits = At(r, {"visitation"});
    if (visits.is_object()) {
      const int64_t missing = Int(At(visits, {"missing"})),
                    repeated = Int(At(visits, {"repeated"}));
      table.Row("examples used as planned",
                missing + repeated == 0
                    ? absl::StrCat("all ", Int(At(visits, {"examples"})), ": yes")
                    : absl::StrCat("NO: ", missing, " too seldom, ", repeated, " too often, of ",
                                   Int(At(visits, {"examples"}))));
    }
    AddQuality(r, &table);
  }
  std::string text = absl::StrCat("\nchaos\n", table.text());
  for (const std::string& what : summary.broken) absl::StrAppend(&text, "  BROKEN: ", what, "\n");
  if (summary.broken.empty()) absl::StrAppend(&text, "  every promise was kept\n");
  return text;
}

}  // namespace coxswain::chaos
