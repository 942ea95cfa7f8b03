// What a task's shards are doing, as text and as JSON; the task itself; all tasks of a cluster.
#include "coordinator/cli/status_command.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/observe/observer.h"
#include "nlohmann/json.hpp"
#include "runtime/base/version.h"
#include "runtime/cluster/cluster_config.h"

namespace coxswain::cli {
namespace {

// In place of the task's name, below it.
constexpr char kIndent[] = "           ";

// Of one shard, or of several together.
struct Lateness {
  uint64_t gradients = 0, sum = 0, most = 0, rows = 0, rows_changed = 0;

  void Add(const proto::ShardStatus& shard) {
    gradients += std::accumulate(shard.staleness().begin(), shard.staleness().end(), uint64_t{0});
    sum += shard.staleness_sum();
    most = std::max(most, shard.staleness_most());
    rows += shard.gradient_rows();
    rows_changed += shard.gradient_rows_changed();
  }
  double mean() const {
    return static_cast<double>(sum) / static_cast<double>(std::max<uint64_t>(1, gradients));
  }
  std::string text() const {
    return absl::StrFormat("gradients are %.1f updates late on average, %s at most", mean(),
                           WithCommas(static_cast<int64_t>(most)));
  }
  // What late gradients of tables mean: most of their rows may be as they were read.
  std::string rows_text() const {
    return absl::StrFormat("%.1f%% of their rows had changed since they were read",
                           100 * static_cast<double>(rows_changed) / static_cast<double>(rows));
  }
};

Lateness LatenessOf(const proto::ShardStatus& shard) {
  Lateness lateness;
  lateness.Add(shard);
  return lateness;
}

bool HasComingRows(const proto::ShardStatus& shard) {
  return shard.rows_evicted() + shard.ids_waiting() > 0;
}

std::string RowsText(int64_t rows, uint64_t evicted, uint64_t waiting) {
  return absl::StrCat(WithCommas(rows), " rows, ", WithCommas(static_cast<int64_t>(evicted)),
                      " evicted, ", WithCommas(static_cast<int64_t>(waiting)), " ids waiting\n");
}

std::string TextOfEach(const proto::TaskStatus& status) {
  std::string text;
  for (const proto::ShardStatus& shard : status.shards()) {
    if (shard.staleness_most() > 0) {
      const Lateness lateness = LatenessOf(shard);
      absl::StrAppend(&text, kIndent, "'", shard.variable(), "': ", lateness.text(), "\n");
      if (lateness.rows > 0) {
        absl::StrAppend(&text, kIndent, "'", shard.variable(), "': ", lateness.rows_text(), "\n");
      }
    }
    if (HasComingRows(shard)) {
      absl::StrAppend(&text, kIndent, "table '", shard.variable(),
                      "': ", RowsText(shard.rows(), shard.rows_evicted(), shard.ids_waiting()));
    }
  }
  return text;
}

// A line of the lateness of all, with the variable that is latest.
std::string LatenessText(const proto::TaskStatus& status) {
  Lateness all, latest;
  std::string variable;
  std::set<std::string> variables;
  for (const proto::ShardStatus& shard : status.shards()) {
    all.Add(shard);
    if (shard.staleness_most() == 0) continue;
    variables.insert(shard.variable());
    const Lateness lateness = LatenessOf(shard);
    if (variable.empty() || lateness.mean() > latest.mean()) {
      variable = shard.variable();
      latest = lateness;
    }
  }
  if (variables.empty()) return "";
  std::string text = absl::StrCat(kIndent, all.text());
  if (all.rows > 0) absl::StrAppend(&text, "; ", all.rows_text());
  if (variables.size() > 1) {
    absl::StrAppendFormat(&text, "; of %d variables '%s' is latest: %.1f", variables.size(),
                          variable, latest.mean());
  }
  return text + "\n";
}

std::string ComingRowsText(const proto::TaskStatus& status) {
  std::set<std::string> tables;
  int64_t rows = 0;
  uint64_t evicted = 0, waiting = 0;
  for (const proto::ShardStatus& shard : status.shards()) {
    if (!HasComingRows(shard)) continue;
    tables.insert(shard.variable());
    rows += shard.rows();
    evicted += shard.rows_evicted();
    waiting += shard.ids_waiting();
  }
  if (tables.empty()) return "";
  const std::string what = tables.size() == 1 ? absl::StrCat("table '", *tables.begin(), "'")
                                              : absl::StrCat(tables.size(), " hash tables");
  return absl::StrCat(kIndent, what, ": ", RowsText(rows, evicted, waiting));
}

void AddShards(const proto::TaskStatus& status, nlohmann::ordered_json* entry) {
  for (const proto::ShardStatus& shard : status.shards()) {
    (*entry)["shards"].push_back(
        {{"shard", shard.shard()},
         {"variable", shard.variable()},
         {"rows", shard.rows()},
         {"bytes", shard.bytes()},
         {"updates", shard.updates_applied()},
         {"rows_pulled", shard.rows_pulled()},
         {"rows_pushed", shard.rows_pushed()},
         {"rows_evicted", shard.rows_evicted()},
         {"ids_waiting", shard.ids_waiting()},
         {"staleness", std::vector<uint64_t>(shard.staleness().begin(), shard.staleness().end())},
         {"staleness_sum", shard.staleness_sum()},
         {"staleness_most", shard.staleness_most()},
         {"gradient_rows", shard.gradient_rows()},
         {"gradient_rows_changed", shard.gradient_rows_changed()}});
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

// The task that a daemon says it is.
std::string AnswersAs(const proto::TaskStatus& status) {
  return absl::StrCat(status.job(), ":", status.task());
}

// ", 2 GPUs (NVIDIA H100)"; nothing without any.
std::string GpusOf(const proto::TaskStatus& status) {
  if (status.gpus().empty()) return "";
  return absl::StrCat(", ", status.gpus_size(), status.gpus_size() == 1 ? " GPU (" : " GPUs (",
                      status.gpus(0), ")");
}

// Of a task that cannot be used; "": it is there.
std::string ErrorOf(const std::string& task, const absl::StatusOr<proto::TaskStatus>& answer) {
  if (!answer.ok()) return std::string(answer.status().message());
  // A job would be refused there.
  const std::string other = AnswersAs(*answer);
  return other == task ? "" : absl::StrCat("who answers says that it is ", other);
}

nlohmann::ordered_json JsonOf(const std::string& task, const std::string& address,
                              const absl::StatusOr<proto::TaskStatus>& answer) {
  nlohmann::ordered_json entry = {{"task", task}, {"address", address}};
  const std::string error = ErrorOf(task, answer);
  if (!error.empty()) {
    entry["error"] = error;
    return entry;
  }
  const proto::TaskStatus& s = *answer;
  entry["version"] = s.version();
  entry["incarnation"] = s.incarnation();
  entry["held_by"] = s.held_by();
  entry["held_since"] = s.held_since();
  entry["running"] = s.running();
  entry["rows"] = s.rows();
  entry["bytes"] = s.bytes();
  entry["uptime_seconds"] = s.uptime_seconds();
  entry["gpus"] = std::vector<std::string>(s.gpus().begin(), s.gpus().end());
  AddShards(s, &entry);
  return entry;
}

void PrintTask(const std::string& task, const std::string& address,
               const absl::StatusOr<proto::TaskStatus>& answer, bool verbose) {
  const std::string error = ErrorOf(task, answer);
  if (!error.empty()) {
    std::printf("%-10s %-22s %s%s\n", task.c_str(), address.c_str(),
                answer.ok() ? "" : "not there: ", error.c_str());
    return;
  }
  const proto::TaskStatus& s = *answer;
  std::printf("%-10s %-22s %-24s %12s %14s  %s%s%s\n%s", task.c_str(), address.c_str(),
              s.held_by().empty() ? "-" : s.held_by().c_str(), WithCommas(s.rows()).c_str(),
              WithCommas(s.bytes()).c_str(),
              s.running().empty() ? "waiting for a coordinator" : s.running().c_str(),
              GpusOf(s).c_str(), VersionText(s).c_str(), ShardsText(s, verbose).c_str());
}

}  // namespace

std::string VersionText(const proto::TaskStatus& status) {
  if (status.version() == kVersion) return "";
  return absl::StrCat(", of version ", status.version(), " (this is ", kVersion, ")");
}

std::string ShardsText(const proto::TaskStatus& status, bool verbose) {
  return verbose ? TextOfEach(status) : LatenessText(status) + ComingRowsText(status);
}

int ShowStatus(const StatusFlags& flags) {
  auto config = cluster::ReadClusterConfig(flags.cluster_file);
  if (!config.ok()) return Complain(AsConfiguration(config.status()));
  auto credentials = net::FindCredentials(flags.credentials);
  if (!credentials.ok()) return Complain(credentials.status());
  const auto transport = net::NewClusterTransport(*std::move(credentials));
  std::vector<std::string> addresses = config->ps;
  addresses.insert(addresses.end(), config->workers.begin(), config->workers.end());
  const auto answers =
      observe::ObserveTasks(transport.get(), addresses, absl::Seconds(flags.timeout));
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  size_t there = 0;
  std::vector<uint64_t> used(config->ps.size(), 0);
  if (!flags.json) {
    std::printf("%-10s %-22s %-24s %12s %14s  %s\n", "task", "address", "held by", "rows", "bytes",
                "doing");
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    const bool ps = i < config->ps.size();
    const std::string task = absl::StrCat(ps ? "ps:" : "worker:", ps ? i : i - config->ps.size());
    if (flags.json) {
      json.push_back(JsonOf(task, addresses[i], answers[i]));
    } else {
      PrintTask(task, addresses[i], answers[i], flags.verbose);
    }
    if (!ErrorOf(task, answers[i]).empty()) continue;
    ++there;
    for (const proto::ShardStatus& shard : answers[i]->shards()) {
      if (ps) used[i] += shard.rows_pulled() + shard.rows_pushed();
    }
  }
  const std::string shares = SharesOfUse(used);
  if (!flags.json && !shares.empty()) std::printf("rows read and updated: %s\n", shares.c_str());
  if (flags.json) {
    std::printf("%s\n",
                json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  }
  // Another secret than theirs will not do later, either.
  const bool refused = std::any_of(answers.begin(), answers.end(), [](const auto& answer) {
    return absl::IsUnauthenticated(answer.status());
  });
  if (refused) return kExitUsage;
  return there == answers.size() ? kExitDone : kExitUnreachable;
}

}  // namespace coxswain::cli
