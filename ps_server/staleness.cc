#include "ps_server/staleness.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace coxswain::ps {

int StalenessCounts::BucketOf(int64_t staleness) {
  const auto bits = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(0, staleness)));
  return std::min(kBuckets - 1, static_cast<int>(bits));
}

void StalenessCounts::Add(int64_t staleness) {
  ++counts[static_cast<size_t>(BucketOf(staleness))];
  sum += staleness;
  most = std::max(most, staleness);
}

void StalenessCounts::AddRows(int64_t all, int64_t changed) {
  rows += all;
  rows_changed += changed;
}

void StalenessCounts::AddAll(const StalenessCounts& other) {
  for (size_t b = 0; b < counts.size(); ++b) counts[b] += other.counts[b];
  sum += other.sum;
  most = std::max(most, other.most);
  rows += other.rows;
  rows_changed += other.rows_changed;
}

void ReadMarks::Note(const ReadStamp& stamp, int64_t applied) {
  const auto [found, is_new] = marks_.try_emplace(stamp.closure, Mark{stamp, {applied, {}}});
  Mark& mark = found->second;
  if (is_new || mark.stamp == stamp || mark.stamp.attempt > stamp.attempt) return;
  mark = {stamp, {applied, {}}};
}

void ReadMarks::Keep(const ReadStamp& stamp, Tensor ids, Tensor values) {
  const auto found = marks_.find(stamp.closure);
  if (found == marks_.end() || !(found->second.stamp == stamp)) return;
  found->second.reading.values.emplace_back(std::move(ids), std::move(values));
}

std::optional<ReadMarks::Reading> ReadMarks::Take(const ReadStamp& stamp) {
  const auto found = marks_.find(stamp.closure);
  if (found == marks_.end() || !(found->second.stamp == stamp)) return std::nullopt;
  Reading reading = std::move(found->second.reading);
  marks_.erase(found);
  return reading;
}

void ReadMarks::SetLowWater(ClosureId closure) {
  if (marks_.empty()) return;
  absl::erase_if(marks_, [closure](const auto& mark) { return mark.first < closure; });
}

absl::StatusOr<LateRate> LateRateOf(absl::string_view word) {
  if (word.empty() || word == "none") return LateRate::kNone;
  if (word == "inverse") return LateRate::kInverse;
  if (word == "root") return LateRate::kRoot;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown staleness_rate '", word, "': known are none, inverse and root"));
}

double RateFactor(LateRate rate, int64_t staleness) {
  if (rate == LateRate::kNone || staleness <= 1) return 1;
  const auto late = static_cast<double>(staleness);
  return 1 / (rate == LateRate::kInverse ? late : std::sqrt(late));
}

}  // namespace coxswain::ps
