#include "coordinator/cli/commands.h"

#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "coordinator/api/cluster.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/core/observer.h"
#include "coordinator/job/check_columns.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/runner/runner.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

// A cluster of this process with the saved values in it.
absl::StatusOr<std::unique_ptr<JobRunner>> OpenModel(JobSpec job, const std::string& directory) {
  ASSIGN_OR_RETURN(Cluster cluster, Cluster::InProcess(1, 1));
  auto runner = std::make_unique<JobRunner>(cluster, std::move(job), RunEvents{});
  RETURN_IF_ERROR(runner->Prepare());
  RETURN_IF_ERROR(LoadVariables(directory, runner->strategy()));
  return runner;
}

}  // namespace

int Eval(const EvalFlags& flags) {
  auto job = ReadJob(flags.job, flags.overrides);
  if (!job.ok()) return Complain(job.status());
  if (auto info = ReadModelInfo(flags.model_dir); !info.ok()) {
    return Complain(AsConfiguration(info.status()));
  }
  auto runner = OpenModel(*std::move(job), flags.model_dir);
  if (!runner.ok()) return Complain(runner.status());
  auto evaluation = (*runner)->Evaluate();
  if (!evaluation.ok()) return Complain(evaluation.status());
  for (const auto& [name, value] : evaluation->metrics) {
    const std::string of =
        evaluation->counts.empty()
            ? absl::StrCat(evaluation->part, ", ", WithCommas(evaluation->examples), " examples")
            : FormatWordCounts(evaluation->counts);
    std::printf("%s  %.4f  (%s)\n", name.c_str(), value, of.c_str());
  }
  nlohmann::ordered_json report = {{"job", (*runner)->job().name},
                                   {"part", evaluation->part},
                                   {"examples", evaluation->examples},
                                   {"metrics", evaluation->metrics}};
  if (absl::Status s = WriteReport(flags.report, report.dump(2) + "\n"); !s.ok())
    return Complain(s);
  return kExitDone;
}

int Recommend(const RecommendFlags& flags) {
  auto info = ReadModelInfo(flags.model_dir);
  if (!info.ok()) return Complain(AsConfiguration(info.status()));
  auto job = ReadJob(info->job_file, info->overrides);
  if (!job.ok()) return Complain(job.status());
  auto runner = OpenModel(*std::move(job), flags.model_dir);
  if (!runner.ok()) return Complain(runner.status());
  if (!flags.items.empty()) {
    auto suggestions = (*runner)->RecommendFor(flags.items, flags.top);
    if (!suggestions.ok()) return Complain(AsConfiguration(suggestions.status()));
    for (const std::string& item : suggestions->items) std::printf("%s\n", item.c_str());
    return kExitDone;
  }
  auto suggestions = (*runner)->Recommend(flags.groups, flags.top);
  if (!suggestions.ok()) return Complain(AsConfiguration(suggestions.status()));
  std::printf("%s", FormatSuggestions(*suggestions).c_str());
  if (suggestions->size() == flags.groups.size()) return kExitDone;
  for (const std::string& group : flags.groups) {
    if (!(*runner)->data().FindGroup(group)) {
      std::fprintf(stderr, "error: '%s' is not in the job's data\n", group.c_str());
    }
  }
  return kExitUsage;
}

int Explain(const ExplainFlags& flags) {
  auto job = ReadJob(flags.job, flags.overrides);
  if (!job.ok()) return Complain(job.status());
  auto cluster = Cluster::InProcess(flags.ps, 1);
  if (!cluster.ok()) return Complain(AsConfiguration(cluster.status()));
  JobRunner runner(*cluster, *std::move(job), RunEvents{});
  if (absl::Status s = runner.Prepare(); !s.ok()) return Complain(s);
  auto function = runner.TrainFunction();
  if (!function.ok()) return Complain(function.status());
  std::printf("%s", (flags.dot ? PartitionToDot(function->partition())
                               : PartitionToText(function->partition()))
                        .c_str());
  return kExitDone;
}

int Validate(const std::string& path, const std::vector<std::string>& overrides, bool data) {
  auto job = ParseJobFile(path, overrides);
  if (!job.ok()) return Complain(AsConfiguration(job.status()));
  if (data) {
    if (absl::Status s = CheckColumns(*job); !s.ok()) return Complain(s);
  }
  std::printf("%s: job '%s' is valid\n", path.c_str(), job->name.c_str());
  return kExitDone;
}

namespace {

// The shards of a PS; for people those whose rows come and go.
void AddShards(const proto::TaskStatus& status, bool as_json, nlohmann::ordered_json* entry) {
  for (const proto::ShardStatus& shard : status.shards()) {
    (*entry)["shards"].push_back({{"shard", shard.shard()},
                                  {"variable", shard.variable()},
                                  {"rows", shard.rows()},
                                  {"bytes", shard.bytes()},
                                  {"updates", shard.updates_applied()},
                                  {"rows_pulled", shard.rows_pulled()},
                                  {"rows_pushed", shard.rows_pushed()},
                                  {"rows_evicted", shard.rows_evicted()},
                                  {"ids_waiting", shard.ids_waiting()}});
    if (as_json || shard.rows_evicted() + shard.ids_waiting() == 0) continue;
    std::printf("%-10s table '%s': %s rows, %s evicted, %s ids waiting\n", "",
                shard.variable().c_str(), WithCommas(shard.rows()).c_str(),
                WithCommas(static_cast<int64_t>(shard.rows_evicted())).c_str(),
                WithCommas(static_cast<int64_t>(shard.ids_waiting())).c_str());
  }
}

// How evenly the PS are used, for people: "ps:0 61%, ps:1 39%".
std::string SharesOfUse(const std::vector<uint64_t>& rows_used) {
  const uint64_t all = std::accumulate(rows_used.begin(), rows_used.end(), uint64_t{0});
  std::string text;
  for (size_t p = 0; all > 0 && p < rows_used.size(); ++p) {
    const double share = static_cast<double>(rows_used[p]) / static_cast<double>(all);
    absl::StrAppend(&text, p == 0 ? "" : ", ", "ps:", p, " ", std::lround(100 * share), "%");
  }
  return text;
}

}  // namespace

int ShowStatus(const std::string& cluster_file, double timeout_seconds, bool as_json) {
  auto config = ReadClusterConfig(cluster_file);
  if (!config.ok()) return Complain(AsConfiguration(config.status()));
  const auto transport = NewHostTransport();
  std::vector<std::string> addresses = config->ps;
  addresses.insert(addresses.end(), config->workers.begin(), config->workers.end());
  const auto answers = ObserveTasks(transport.get(), addresses, absl::Seconds(timeout_seconds));
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  size_t there = 0;
  std::vector<uint64_t> used(config->ps.size(), 0);
  if (!as_json)
    std::printf("%-10s %-22s %-24s %12s %14s  %s\n", "task", "address", "held by", "rows", "bytes",
                "doing");
  for (size_t i = 0; i < answers.size(); ++i) {
    const bool ps = i < config->ps.size();
    const std::string task = absl::StrCat(ps ? "ps:" : "worker:", ps ? i : i - config->ps.size());
    nlohmann::ordered_json entry = {{"task", task}, {"address", addresses[i]}};
    if (!answers[i].ok()) {
      entry["error"] = std::string(answers[i].status().message());
      if (!as_json)
        std::printf("%-10s %-22s not there: %s\n", task.c_str(), addresses[i].c_str(),
                    entry["error"].get<std::string>().c_str());
    } else {
      ++there;
      const proto::TaskStatus& s = *answers[i];
      entry["version"] = s.version();
      entry["incarnation"] = s.incarnation();
      entry["held_by"] = s.held_by();
      entry["held_since"] = s.held_since();
      entry["running"] = s.running();
      entry["rows"] = s.rows();
      entry["bytes"] = s.bytes();
      entry["uptime_seconds"] = s.uptime_seconds();
      if (!as_json) {
        std::printf("%-10s %-22s %-24s %12s %14s  %s\n", task.c_str(), addresses[i].c_str(),
                    s.held_by().empty() ? "-" : s.held_by().c_str(), WithCommas(s.rows()).c_str(),
                    WithCommas(s.bytes()).c_str(),
                    s.running().empty() ? "waiting for a coordinator" : s.running().c_str());
      }
      AddShards(s, as_json, &entry);
      for (const proto::ShardStatus& shard : s.shards()) {
        if (ps) used[i] += shard.rows_pulled() + shard.rows_pushed();
      }
    }
    json.push_back(std::move(entry));
  }
  const std::string shares = SharesOfUse(used);
  if (!as_json && !shares.empty()) std::printf("rows read and updated: %s\n", shares.c_str());
  if (as_json) std::printf("%s\n", json.dump(2).c_str());
  return there == answers.size() ? kExitDone : kExitUnreachable;
}

}  // namespace coxswain
