#include "coordinator/core/restore_points.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace coxswain::core {

const proto::SavedShard* FindSaved(const checkpoint::Manifest& manifest, ShardId shard) {
  const auto it =
      std::lower_bound(manifest.shards.begin(), manifest.shards.end(), shard,
                       [](const proto::SavedShard& s, ShardId id) { return s.shard().id() < id; });
  return it != manifest.shards.end() && it->shard().id() == shard ? &*it : nullptr;
}

void RestorePoints::Resume(checkpoint::Manifest manifest, std::string path) {
  resumed_ = true;
  resumed_number_ = manifest.number;
  for (const proto::SavedShard& saved : manifest.shards) resumed_shards_.insert(saved.shard().id());
  const int64_t steps = manifest.steps_done();
  checkpoints_ = {{.manifest = std::move(manifest), .path = std::move(path), .steps = steps}};
}

bool RestorePoints::Add(const checkpoint::Manifest& manifest, std::string path) {
  if (!empty() && newest().manifest.number == manifest.number) return false;
  RestorePoint point{.manifest = manifest, .path = std::move(path), .steps = manifest.steps_done()};
  point.manifest.closures.clear();  // the log has them
  checkpoints_.push_back(std::move(point));
  if (size() > 2) checkpoints_.erase(checkpoints_.begin());
  return true;
}

absl::Status RestorePoints::CheckFirstValue(const proto::ShardSpec& shard) const {
  const bool has_one = resumed_shards_.count(shard.id()) > 0;
  if (!has_one || FindSaved(oldest().manifest, shard.id()) != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "variable '", shard.variable().name(), "': its value is in checkpoint ", resumed_number_,
      ", which the job goes on from, and in no later one; wanted it to be created before newer ",
      "checkpoints take that one's place, best before the first closure"));
}

void RestorePoints::MarkBad(uint64_t number) {
  for (RestorePoint& point : checkpoints_) {
    if (point.manifest.number == number) point.bad = true;
  }
}

const RestorePoint& RestorePoints::Find(uint64_t number) const {
  for (const RestorePoint& point : checkpoints_) {
    if (point.manifest.number == number) return point;
  }
  return initial_;
}

std::string RestorePoints::WhyNot(const RestorePoint& point, const Need& need) const {
  const uint64_t number = point.manifest.number;
  if (point.bad) return absl::StrCat("checkpoint ", number, " could not be read");
  if (need.runs_again && !need.covers(point.manifest.low_water)) {
    return absl::StrCat(number == 0 ? std::string("there is no checkpoint")
                                    : absl::StrCat("checkpoint ", number, " is too old"),
                        ", and the closures since then are more than the log keeps");
  }
  for (const ShardId shard : need.goes_back) {
    if (resumed_shards_.count(shard) == 0 || FindSaved(point.manifest, shard) != nullptr) continue;
    return absl::StrCat("checkpoint ", number, " was written before variable '",
                        need.variable(shard), "' got its values, from checkpoint ",
                        resumed_number_);
  }
  for (const auto& [shard, safe] : need.safe_from) {
    if (need.goes_back.count(shard) == 0 || number >= safe) continue;
    return absl::StrCat("shard ", shard, " of variable '", need.variable(shard),
                        "' was assigned a value that is in no checkpoint");
  }
  return "";
}

absl::StatusOr<const RestorePoint*> RestorePoints::Choose(const Need& need) const {
  std::vector<std::string> reasons;
  for (auto point = checkpoints_.rbegin(); point != checkpoints_.rend(); ++point) {
    std::string why = WhyNot(*point, need);
    if (why.empty()) return &*point;
    // Each of them may lack the same value.
    if (std::find(reasons.begin(), reasons.end(), why) == reasons.end()) {
      reasons.push_back(std::move(why));
    }
  }
  if (!resumed_) {
    std::string why = WhyNot(initial_, need);
    if (why.empty()) return &initial_;
    // Why not the initial values is news only where there is no checkpoint.
    if (reasons.empty()) reasons.push_back(std::move(why));
  }
  return absl::DataLossError(absl::StrJoin(reasons, "; "));
}

std::map<ShardId, ShardLoad> RestorePoints::Loads(double min_rows) const {
  std::map<ShardId, ShardLoad> all, since;
  if (empty()) return all;
  double rows = 0;
  for (const proto::SavedShard& saved : newest().manifest.shards) {
    const ShardId id = saved.shard().id();
    all[id] = LoadOf(saved);
    if (size() < 2) continue;
    const proto::SavedShard* before = FindSaved(oldest().manifest, id);
    since[id] = before == nullptr ? all[id] : LoadSince(saved, *before);
    rows += since[id].rows;
  }
  return size() < 2 || rows < min_rows ? all : since;
}

}  // namespace coxswain::core
