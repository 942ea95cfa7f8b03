#include <algorithm>
#include <numeric>

#include "coordinator/cli/display.h"
#include "coordinator/job/job_words.h"
#include "nlohmann/json.hpp"
#include "runtime/base/version.h"

namespace coxswain::cli {
namespace {

using Json = nlohmann::ordered_json;

// Of all shards of a variable; null where no gradient was counted.
Json StalenessJson(const VariableInfo& variable, const runner::UpdateCounts& updates) {
  runner::StalenessOf all;
  for (const proto::ShardSpec& shard : variable.shards) {
    const auto held = updates.rows.find(shard.id());
    if (held == updates.rows.end()) continue;
    const runner::StalenessOf& one = held->second.staleness;
    all.counts.resize(std::max(all.counts.size(), one.counts.size()));
    for (size_t b = 0; b < one.counts.size(); ++b) all.counts[b] += one.counts[b];
    all.sum += one.sum;
    all.most = std::max(all.most, one.most);
    all.rows += one.rows;
    all.rows_changed += one.rows_changed;
  }
  const int64_t gradients = std::accumulate(all.counts.begin(), all.counts.end(), int64_t{0});
  if (gradients == 0) return {};
  Json late = {{"gradients", gradients},
               {"mean", static_cast<double>(all.sum) / static_cast<double>(gradients)},
               {"most", all.most},
               {"histogram", all.counts}};
  if (variable.table) {
    late["rows"] = all.rows;
    late["rows_changed"] = all.rows_changed;
  }
  return late;
}

Json VariablesJson(const runner::JobResult& result) {
  Json all = Json::array();
  for (const auto& v : result.variables) {
    Json shards = Json::array();
    for (const proto::ShardSpec& s : v->shards) {
      const auto held = result.updates.rows.find(s.id());
      const runner::ShardRows rows = held == result.updates.rows.end()
                                         ? runner::ShardRows{s.rows(), 0, 0, s.ps(), {}}
                                         : held->second;
      shards.push_back({{"index", s.index()},
                        {"rows", rows.rows},
                        {"rows_evicted", rows.evicted},
                        {"ids_waiting", rows.waiting},
                        {"ps", rows.ps}});
    }
    all.push_back({{"name", v->name},
                   {"shape", std::vector<int64_t>(v->shape.dims().begin(), v->shape.dims().end())},
                   {"dtype", std::string(DTypeName(v->dtype))},
                   {"table", v->table},
                   {"optimizer", v->optimizer.kind()},
                   {"sharding", v->strategy},
                   {"staleness", StalenessJson(*v, result.updates)},
                   {"shards", std::move(shards)}});
  }
  return all;
}

Json EvaluationsJson(const runner::JobResult& result) {
  Json all = Json::array();
  for (const runner::Evaluation& e : result.evaluations) {
    all.push_back({{"epoch", e.epoch},
                   {"steps", e.steps},
                   {"train_seconds", e.train_seconds},
                   {"loss", e.loss},
                   {"learning_rate_factor", e.rate_factor},
                   {"part", e.part},
                   {"examples", e.examples},
                   {"metrics", e.metrics},
                   {"intervals", IntervalsJson(e.intervals)},
                   {"counts", e.counts}});
  }
  return all;
}

Json ConsistencyJson(const Consistency& c, bool deterministic) {
  return {{"mode", job::ToWord(c.mode)},
          {"max_staleness", c.max_staleness},
          {"replicas", c.replicas},
          {"reduce", job::ToWord(c.reduce)},
          {"backup", c.backup},
          {"group_size", c.group_size},
          {"accumulate", c.accumulate},
          {"batches", c.batches_per_update()},
          {"staleness_rate", job::ToWord(c.staleness_rate)},
          {"delay_compensation", c.delay_compensation},
          {"deterministic", deterministic}};
}

}  // namespace

Json IntervalsJson(const std::map<std::string, model::Interval>& intervals) {
  Json json = Json::object();
  for (const auto& [name, interval] : intervals) json[name] = {interval.low, interval.high};
  return json;
}

Json SlicesJson(const std::vector<runner::SliceMetrics>& slices) {
  Json json = Json::array();
  for (const runner::SliceMetrics& slice : slices) {
    json.push_back({{"feature", slice.feature},
                    {"value", slice.value ? Json(*slice.value) : Json()},
                    {"examples", slice.examples},
                    {"metrics", slice.metrics}});
  }
  return json;
}

std::string ToReportJson(const runner::JobResult& r) {
  Json rpc = Json::array();
  for (size_t p = 0; p < r.traffic.size(); ++p) {
    rpc.push_back({{"ps", p},
                   {"frames_per_step", r.traffic[p].frames},
                   {"bytes_received_per_step", r.traffic[p].bytes_in},
                   {"bytes_sent_per_step", r.traffic[p].bytes_out}});
  }
  Json suggestions = Json::array();
  for (const runner::Suggestions& s : r.suggestions) {
    suggestions.push_back({{"group", s.group}, {"items", s.items}});
  }
  Json report;
  report["job"] = r.job;
  report["version"] = kVersion;
  report["steps"] = r.steps;
  report["examples"] = r.examples;
  report["bad_rows"] = r.bad_rows;
  report["train_seconds"] = r.train_seconds;
  report["evaluate_seconds"] = r.evaluate_seconds;
  report["examples_per_second"] =
      r.train_seconds > 0 ? static_cast<double>(r.examples) / r.train_seconds : 0.0;
  report["final_loss"] = r.final_loss;
  report["stopped_early"] = r.stopped_early;
  report["metrics"] = r.metrics;
  report["intervals"] = IntervalsJson(r.intervals);
  report["slices"] = SlicesJson(r.slices);
  report["evaluated"] = {{"part", r.evaluated_part}, {"examples", r.evaluated_examples}};
  report["baseline"] = r.baseline;
  report["evaluations"] = EvaluationsJson(r);
  report["suggestions"] = std::move(suggestions);
  report["closures"] = {
      {"scheduled", r.closures.scheduled},  {"completed", r.closures.completed},
      {"failed", r.closures.failed},        {"retried", r.closures.retried},
      {"rerun", r.failures.closures_rerun}, {"quarantined", r.failures.quarantined},
      {"timeouts", r.failures.timeouts}};
  report["failures"] = {{"worker", r.failures.workers_lost},
                        {"ps", r.failures.ps_lost},
                        {"coordinator", r.resumes},
                        {"recovered", r.failures.recovered},
                        {"recovery_seconds", r.failures.recovery_seconds}};
  report["consistency"] = ConsistencyJson(r.consistency, r.deterministic);
  report["updates"] = {{"scheduled", r.updates.scheduled},
                       {"applied", r.updates.applied},
                       {"duplicates_dropped", r.updates.duplicates_dropped},
                       {"shards", r.updates.shards},
                       {"shards_off", r.updates.shards_off},
                       {"lost", r.updates.lost}};
  report["checkpoint"] = {{"written", r.checkpoints.written},
                          {"failed", r.checkpoints.failed},
                          {"bytes", r.checkpoints.bytes},
                          {"seconds", r.checkpoints.seconds},
                          {"stall_seconds", r.checkpoints.stall_seconds},
                          {"shards_moved", r.checkpoints.shards_moved},
                          {"move_seconds", r.checkpoints.move_seconds}};
  report["visitation"] = Json();
  if (r.visitation) {
    report["visitation"] = {{"examples", r.visitation->examples},
                            {"missing", r.visitation->missing},
                            {"repeated", r.visitation->repeated}};
  }
  report["workers"] = r.workers;
  report["parameter_servers"] = r.parameter_servers;
  report["variables"] = VariablesJson(r);
  report["rpc"] = std::move(rpc);
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace coxswain::cli
