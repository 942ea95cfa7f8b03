#include "ps_server/ps_metrics.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/cluster/daemon_metrics.h"

namespace coxswain::ps {
namespace {

using metrics::Kind;

struct OfVariable {
  std::string name;
  int64_t rows = 0, bytes = 0;
};

// By name.
std::vector<OfVariable> VariablesOf(const proto::TaskStatus& status) {
  std::map<std::string, OfVariable> by_name;
  for (const proto::ShardStatus& shard : status.shards()) {
    OfVariable& one = by_name[shard.variable()];
    one.name = shard.variable();
    one.rows += shard.rows();
    one.bytes += shard.bytes();
  }
  std::vector<OfVariable> all;
  for (auto& [name, one] : by_name) all.push_back(std::move(one));
  if (all.size() <= kMostVariables) return all;
  std::stable_sort(all.begin(), all.end(),
                   [](const OfVariable& a, const OfVariable& b) { return a.bytes > b.bytes; });
  OfVariable others{std::string(kOtherVariables)};
  for (size_t i = kMostVariables; i < all.size(); ++i) {
    others.rows += all[i].rows;
    others.bytes += all[i].bytes;
  }
  all.resize(kMostVariables);
  all.push_back(std::move(others));
  return all;
}

void AddVariables(absl::string_view prefix, const proto::TaskStatus& status,
                  metrics::Families* families) {
  const std::vector<OfVariable> variables = VariablesOf(status);
  metrics::Family rows{
      absl::StrCat(prefix, "_rows"), "Rows that are here, by variable", Kind::kGauge, {}};
  metrics::Family bytes{absl::StrCat(prefix, "_bytes"),
                        "Memory of the rows that are here, with what optimizers keep, by variable",
                        Kind::kGauge,
                        {}};
  for (const OfVariable& one : variables) {
    metrics::AddSample({{"variable", one.name}}, static_cast<double>(one.rows), &rows);
    metrics::AddSample({{"variable", one.name}}, static_cast<double>(one.bytes), &bytes);
  }
  families->push_back(std::move(rows));
  families->push_back(std::move(bytes));
}

void AddStaleness(absl::string_view prefix, const StalenessCounts& counts,
                  metrics::Families* families) {
  metrics::Sample sample;
  sample.value = static_cast<double>(counts.sum);
  for (size_t b = 0; b < counts.counts.size(); ++b) {
    sample.count += static_cast<uint64_t>(counts.counts[b]);
    const bool last = b + 1 == counts.counts.size();  // without a bound
    if (!last) sample.buckets.push_back({static_cast<double>((1 << b) - 1), sample.count});
  }
  metrics::Add(
      Kind::kHistogram, absl::StrCat(prefix, "_gradient_staleness_updates"),
      "How many updates a shard took between the reading of the values that a gradient was "
      "computed from and its application",
      families)
      ->samples = {std::move(sample)};
}

}  // namespace

metrics::Families PsFamilies(absl::string_view prefix, const proto::TaskStatus& status,
                             const WorkDone& done, bool saving) {
  metrics::Families families;
  cluster::AddTaskFamilies(prefix, status, &families);
  const auto name = [&](absl::string_view of) { return absl::StrCat(prefix, of); };
  const auto count = [&](absl::string_view of, const char* help, int64_t value) {
    metrics::AddCounter(name(of), help, static_cast<double>(value), &families);
  };
  count("_sent_bytes_total", "Bytes of the answers to workers",
        static_cast<int64_t>(status.bytes_sent()));
  count("_answered_frames_total", "Frames of steps that were answered",
        static_cast<int64_t>(status.segments_run()));
  metrics::AddGauge(name("_shards"), "Shards that are here", status.shards_size(), &families);
  AddVariables(prefix, status, &families);
  count("_updates_applied_total", "Updates that were applied, summed over shards", done.updates);
  count("_updates_duplicate_total",
        "Updates that came again, because a closure ran more than once, and were dropped",
        done.duplicates);
  count("_rows_looked_up_total", "Rows of tables that were looked up", done.pulled);
  count("_rows_updated_total", "Rows of tables that updates named", done.pushed);
  AddStaleness(prefix, done.staleness, &families);
  metrics::AddGauge(name("_saving"), "1 while it writes its part of a checkpoint, else 0",
                    saving ? 1 : 0, &families);
  return families;
}

}  // namespace coxswain::ps
