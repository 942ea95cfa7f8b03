// Numbers of data sets; names and their owners; a layout that a checkpoint gives; where shards lie.
#include "coordinator/api/catalog.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"

namespace coxswain {
namespace {

// A table NAME_bias has a number for each row of table NAME.
constexpr char kBias[] = "_bias";

absl::Status OtherData(DatasetId dataset) {
  return absl::FailedPreconditionError(absl::StrCat(
      "data set ", dataset, " is not what the checkpoint was trained on: wanted the same files, ",
      "features, split and seed, and data sets created in the same order; a run with other data ",
      "needs a checkpoint directory of its own"));
}

// The rows and shards of a table that has row numbers; empty of others.
std::string CutOf(const proto::ShardSpec& shard) {
  const proto::VariableSpec& variable = shard.variable();
  if (!variable.table() || variable.has_hash() || variable.shape().dims_size() == 0) return "";
  return absl::StrCat(shard.strategy(), " ", variable.shape().dims(0), " ", shard.count());
}

}  // namespace

PlanId Catalog::NewPlan() {
  absl::MutexLock lock(&mu_);
  return ++last_plan_;
}

ValuesId Catalog::NewValues() {
  absl::MutexLock lock(&mu_);
  return ++last_values_;
}

absl::StatusOr<Catalog::DatasetPlace> Catalog::AddDataset(uint64_t fingerprint) {
  absl::MutexLock lock(&mu_);
  DatasetId id = 1;
  while (made_.count(id) > 0) ++id;
  const auto fits = [&](const auto& data) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return made_.count(data.first) == 0 && data.second->fingerprint == fingerprint;
  };
  auto place = cursors_.find(id);
  if (place != cursors_.end() && !fits(*place) && place->second->scheduled.empty()) {
    cursors_.erase(place);  // nothing was trained on it
    place = cursors_.end();
  }
  if (place == cursors_.end() || !fits(*place)) {
    const auto same = std::find_if(cursors_.begin(), cursors_.end(), fits);
    if (same == cursors_.end() && place != cursors_.end()) return OtherData(id);
    place = same;
  }
  if (place == cursors_.end()) {
    place = cursors_.emplace(id, std::make_shared<DataCursor>()).first;
    place->second->fingerprint = fingerprint;
  }
  made_.insert(place->first);
  return DatasetPlace{place->first, place->second};
}

void Catalog::RemoveDataset(DatasetId dataset) {
  absl::MutexLock lock(&mu_);
  made_.erase(dataset);
}

void Catalog::ReleaseDataset(DatasetId dataset) {
  absl::MutexLock lock(&mu_);
  cursors_.erase(dataset);
}

std::vector<DatasetId> Catalog::TakeUnclaimed() {
  absl::MutexLock lock(&mu_);
  std::vector<DatasetId> unclaimed;
  for (auto it = cursors_.begin(); it != cursors_.end();) {
    if (made_.count(it->first) > 0) {
      ++it;
      continue;
    }
    unclaimed.push_back(it->first);
    it = cursors_.erase(it);
  }
  return unclaimed;
}

absl::Status Catalog::TakeName(const std::string& name, const std::string& owner) {
  absl::MutexLock lock(&mu_);
  const auto resumed = in_layout_.find(name);
  if (resumed != in_layout_.end() && layout_owners_.count(owner) == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("variable '", name, "' is in the checkpoint that ", resumed->second,
                     " goes on from; it is created with that one, not with ", owner));
  }
  const auto [it, taken] = owners_.emplace(name, owner);
  if (taken) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      "variable '", name, "' exists already on this cluster: ", it->second, " has made it"));
}

void Catalog::ReleaseName(const std::string& name) {
  absl::MutexLock lock(&mu_);
  owners_.erase(name);
}

// Numbers of data sets that were made cannot change.
absl::Status Catalog::CheckData(const checkpoint::Manifest& manifest) const {
  std::set<DatasetId> new_here = made_;
  for (const checkpoint::DatasetProgress& data : manifest.data) new_here.erase(data.dataset);
  for (const checkpoint::DatasetProgress& data : manifest.data) {
    if (data.scheduled.empty()) continue;
    const auto same = [&](DatasetId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      const auto cursor = cursors_.find(id);  // none of one that was released
      return cursor != cursors_.end() && cursor->second->fingerprint == data.fingerprint;
    };
    if (made_.count(data.dataset) > 0) {
      if (!same(data.dataset)) return OtherData(data.dataset);
    } else if (std::any_of(new_here.begin(), new_here.end(), same)) {
      return OtherData(data.dataset);  // it would silently begin anew, under another number
    }
  }
  return absl::OkStatus();
}

absl::Status Catalog::TakeLayout(const checkpoint::Manifest& manifest, const std::string& owner) {
  absl::MutexLock lock(&mu_);
  const std::string layout = checkpoint::ToJson(manifest);
  if (layout_of_ == layout) {
    layout_owners_.insert(owner);
    return absl::OkStatus();
  }
  if (!placed_.empty()) {
    return absl::FailedPreconditionError(
        "a checkpoint's layout must be chosen before the cluster's first variable is created, and "
        "its strategies go on from one, with the same names");
  }
  RETURN_IF_ERROR(CheckData(manifest));
  for (const checkpoint::DatasetProgress& data : manifest.data) {
    if (data.scheduled.empty() && made_.count(data.dataset) > 0) continue;
    auto& cursor = cursors_[data.dataset];
    if (cursor == nullptr) cursor = std::make_shared<DataCursor>();
    cursor->fingerprint = data.fingerprint;
    cursor->scheduled = data.scheduled;
  }
  for (const proto::SavedShard& saved : manifest.shards) {
    const ShardId id = saved.shard().id();
    in_layout_.emplace(saved.shard().variable().name(), owner);
    placed_.push_back({id, core::LoadOf(saved), -1});
    next_shard_ = std::max<ShardId>(next_shard_, id + 1);
  }
  layout_of_ = layout;
  layout_owners_ = {owner};
  core::PlaceShards(all_ps_, &placed_);
  for (const core::PlacedShard& shard : placed_) ps_of_shard_[shard.id] = shard.ps;
  PlaceBeside(manifest);
  return absl::OkStatus();
}

std::vector<std::string> Catalog::LayoutLeftOver() const {
  absl::MutexLock lock(&mu_);
  std::vector<std::string> names;
  for (const auto& [name, owner] : in_layout_) {
    if (owners_.count(name) == 0) names.push_back(name);
  }
  return names;
}

void Catalog::PlaceBeside(const checkpoint::Manifest& manifest) {
  std::map<std::string, std::vector<proto::ShardSpec>> tables;
  for (const proto::SavedShard& saved : manifest.shards) {
    if (!CutOf(saved.shard()).empty()) {
      tables[saved.shard().variable().name()].push_back(saved.shard());
    }
  }
  for (auto& [name, shards] : tables) {
    std::sort(shards.begin(), shards.end(),
              [](const auto& a, const auto& b) { return a.index() < b.index(); });
    // Who asks for a variable that lacks shards is told so.
    if (static_cast<int>(shards.size()) == shards[0].count()) NoteCut(shards);
  }
  std::map<ShardId, ShardId> beside;
  for (const auto& [name, shards] : tables) {
    const Cut* const cut = CutBeside(shards[0]);
    if (cut == nullptr || shards.size() != cut->shards.size()) continue;
    for (size_t s = 0; s < shards.size(); ++s) beside[shards[s].id()] = cut->shards[s];
  }
  for (core::PlacedShard& placed : placed_) {
    const auto other = beside.find(placed.id);
    if (other != beside.end()) placed.ps = ps_of_shard_[placed.id] = ps_of_shard_.at(other->second);
  }
}

void Catalog::NoteCut(const std::vector<proto::ShardSpec>& shards) {
  const std::string how = shards.empty() ? "" : CutOf(shards[0]);
  if (how.empty()) return;
  Cut& cut = cuts_[shards[0].variable().name()];
  cut = {how, {}};
  for (const proto::ShardSpec& shard : shards) cut.shards.push_back(shard.id());
}

const Catalog::Cut* Catalog::CutBeside(const proto::ShardSpec& first) const {
  absl::string_view name = first.variable().name();
  if (!absl::ConsumeSuffix(&name, kBias)) return nullptr;
  const auto found = cuts_.find(std::string(name));
  return found == cuts_.end() || found->second.how != CutOf(first) ? nullptr : &found->second;
}

void Catalog::Place(std::vector<proto::ShardSpec>* shards) {
  absl::MutexLock lock(&mu_);
  const size_t before = placed_.size();
  const Cut* const beside = shards->empty() ? nullptr : CutBeside((*shards)[0]);
  for (size_t s = 0; s < shards->size(); ++s) {
    proto::ShardSpec& shard = (*shards)[s];
    shard.set_id(next_shard_++);
    const int ps = beside == nullptr ? -1 : ps_of_shard_.at(beside->shards.at(s));
    placed_.push_back({shard.id(), core::LoadOf(shard), ps});
  }
  NoteCut(*shards);
  core::PlaceShards(all_ps_, &placed_);
  for (size_t s = 0; s < shards->size(); ++s) {
    (*shards)[s].set_ps(placed_[before + s].ps);
    ps_of_shard_[(*shards)[s].id()] = placed_[before + s].ps;
  }
}

void Catalog::Remove(const std::vector<proto::ShardSpec>& shards) {
  absl::MutexLock lock(&mu_);
  std::set<ShardId> gone;
  for (const proto::ShardSpec& shard : shards) gone.insert(shard.id());
  placed_.erase(std::remove_if(placed_.begin(), placed_.end(),
                               [&](const core::PlacedShard& p) { return gone.count(p.id) > 0; }),
                placed_.end());
  for (ShardId id : gone) ps_of_shard_.erase(id);
  for (const proto::ShardSpec& shard : shards) cuts_.erase(shard.variable().name());
}

int Catalog::PsOf(ShardId shard) const {
  absl::MutexLock lock(&mu_);
  const auto it = ps_of_shard_.find(shard);
  return it == ps_of_shard_.end() ? -1 : it->second;
}

}  // namespace coxswain
