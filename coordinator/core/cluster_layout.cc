// Shards that are created; the loss of a PS, and where its shards go; moves; the requests to a PS.
#include "coordinator/core/cluster_layout.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::core {
namespace {

// The saved shard as a PS is to have it: with today's optimizer settings, from an absolute path.
proto::SavedShard ToRestore(const proto::SavedShard& saved, const proto::ShardSpec& spec,
                            const std::string& path) {
  proto::SavedShard restore = checkpoint::WithPaths(saved, path);
  *restore.mutable_shard() = spec;
  return restore;
}

absl::Status CheckFits(const proto::ShardSpec& saved, const proto::ShardSpec& wanted) {
  const auto text = [](const proto::ShardSpec& s) {
    std::string shape;
    for (int64_t d : s.variable().shape().dims()) {
      absl::StrAppend(&shape, shape.empty() ? "" : "x", d);
    }
    return absl::StrCat("variable '", s.variable().name(), "' ", shape, " of dtype ",
                        s.variable().dtype(), ", optimizer '", s.variable().optimizer().kind(),
                        "', shard ", s.index(), " of ", s.count(), " (", s.strategy(), ", ",
                        s.rows(), " rows)");
  };
  if (text(saved) == text(wanted)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the checkpoint does not fit: wanted ", text(wanted), ", it has ", text(saved)));
}

// Those that have something to say.
std::vector<proto::ControlRequest> Some(proto::ControlRequest create,
                                        proto::ControlRequest restore) {
  std::vector<proto::ControlRequest> some;
  for (proto::ControlRequest* request : {&create, &restore}) {
    if (request->body_case() != proto::ControlRequest::BODY_NOT_SET) {
      some.push_back(std::move(*request));
    }
  }
  return some;
}

}  // namespace

absl::StatusOr<ClusterLayout::Creation> ClusterLayout::Create(std::vector<proto::ShardSpec> shards,
                                                              const RestorePoint* from,
                                                              const std::set<int>& there) {
  for (const proto::ShardSpec& shard : shards) {
    if (!shards_.Has(shard.id())) continue;
    return absl::AlreadyExistsError(
        absl::StrCat("shard ", shard.id(), " of variable '", shard.variable().name(),
                     "' exists already, of variable '", VariableOf(shard.id()), "'"));
  }
  Creation creation;
  std::map<int, std::pair<proto::ControlRequest, proto::ControlRequest>> requests;
  for (proto::ShardSpec& shard : shards) {
    // A PS that was given up takes no new shards, also when it is there again.
    for (int other : there) {
      if (!absent(shard.ps())) break;
      shard.set_ps(other);
    }
    auto& [create, restore] = requests[shard.ps()];
    const proto::SavedShard* saved =
        from == nullptr ? nullptr : FindSaved(from->manifest, shard.id());
    if (saved != nullptr) {
      RETURN_IF_ERROR(CheckFits(saved->shard(), shard));
      *restore.mutable_restore_shards()->add_shards() = ToRestore(*saved, shard, from->path);
    } else {
      *create.mutable_create_shards()->add_shards() = shard;
    }
    creation.shards.push_back(shard.id());
    creation.from[shard.id()] = saved == nullptr ? 0 : from->manifest.number;
  }
  for (auto& [ps, two] : requests) {
    creation.requests[ps] = Some(std::move(two.first), std::move(two.second));
  }
  for (const proto::ShardSpec& shard : shards) shards_.Add(shard);
  creating_.insert(creation.shards.begin(), creation.shards.end());
  return creation;
}

void ClusterLayout::Created(const Creation& creation, bool ok) {
  for (ShardId id : creation.shards) {
    creating_.erase(id);
    if (ok) continue;
    shards_.Remove(id);
    own_ps_.erase(id);
  }
}

bool ClusterLayout::Lost(int ps) {
  const std::vector<ShardId> shards = shards_.On(ps);
  if (shards.empty() && (absent(ps) || !shards_.shards().empty())) {
    absent_.insert(ps);
    return false;
  }
  going_back_.insert(shards.begin(), shards.end());
  return true;
}

void ClusterLayout::Intact(int ps) {
  for (ShardId shard : shards_.On(ps)) going_back_.erase(shard);
}

void ClusterLayout::BeginRecovery(const std::set<int>& there, const std::set<int>& gone, bool all,
                                  const RestorePoint& point, const std::set<int>& full) {
  for (int ps : there) absent_.erase(ps);
  std::erase_if(own_ps_, [&](const auto& own) {
    const bool back = there.count(own.second) > 0;
    if (back) shards_.Move(own.first, own.second);
    return back;
  });
  if (all) {
    for (const auto& [shard, spec] : shards_.shards()) going_back_.insert(shard);
  }
  std::set<ShardId> homeless;
  for (int ps : gone) {
    for (ShardId shard : shards_.On(ps)) {
      if (going_back_.count(shard) == 0) continue;
      homeless.insert(shard);
      own_ps_.try_emplace(shard, ps);
    }
  }
  for (const auto& [shard, own] : own_ps_) {
    if (full.count(shards_.PsOf(shard)) > 0) homeless.insert(shard);
  }
  if (!homeless.empty()) {
    std::set<int> takers = there;
    for (int ps : full) takers.erase(ps);
    std::map<ShardId, ShardLoad> loads;
    for (const proto::SavedShard& saved : point.manifest.shards) {
      loads[saved.shard().id()] = LoadOf(saved);
    }
    shards_.Spread(homeless, takers, loads);
  }
  for (int ps : gone) {
    if (shards_.On(ps).empty()) absent_.insert(ps);
  }
  // A PS gives up what it is making when it is set up anew.
  going_back_.insert(creating_.begin(), creating_.end());
}

bool ClusterLayout::takes(int ps) const {
  return std::any_of(own_ps_.begin(), own_ps_.end(),
                     [&](const auto& own) { return shards_.PsOf(own.first) == ps; });
}

std::map<ShardId, int> ClusterLayout::Moves(const std::map<ShardId, int>& to,
                                            const std::set<int>& there,
                                            const checkpoint::Manifest& manifest) const {
  std::map<ShardId, int> from;
  for (const auto& [shard, ps] : to) {
    const int now = shards_.PsOf(shard);
    const bool can = there.count(ps) > 0 && FindSaved(manifest, shard) != nullptr;
    if (now >= 0 && now != ps && can) from[shard] = now;
  }
  return from;
}

void ClusterLayout::BeginMoves(const std::map<ShardId, int>& to, const std::map<ShardId, int>& from,
                               const std::set<int>& there) {
  for (int ps : there) absent_.erase(ps);
  for (const auto& [shard, ps] : from) {
    shards_.Move(shard, to.at(shard));
    going_back_.insert(shard);
  }
}

void ClusterLayout::UndoMoves(const std::map<ShardId, int>& from) {
  for (const auto& [shard, ps] : from) shards_.Move(shard, ps);
}

uint64_t ClusterLayout::BeginRestore() {
  missed_.clear();
  ++generation_;
  return ++restores_;
}

proto::ControlRequest ClusterLayout::KeepRequest(int ps) const {
  proto::ControlRequest setup;
  setup.mutable_setup_ps()->set_generation(generation_);
  for (ShardId shard : shards_.On(ps)) setup.mutable_setup_ps()->add_keep(shard);
  return setup;
}

std::vector<proto::ControlRequest> ClusterLayout::RestoreRequests(int ps,
                                                                  const RestorePoint& point) const {
  proto::ControlRequest setup, restore, create;
  setup.mutable_setup_ps()->set_generation(generation_);
  for (ShardId shard : shards_.On(ps)) {
    if (going_back_.count(shard) == 0) {
      setup.mutable_setup_ps()->add_keep(shard);
      continue;
    }
    const proto::ShardSpec& spec = shards_.shards().at(shard);
    if (const proto::SavedShard* saved = FindSaved(point.manifest, shard)) {
      *restore.mutable_restore_shards()->add_shards() = ToRestore(*saved, spec, point.path);
    } else {
      *create.mutable_create_shards()->add_shards() = spec;
    }
  }
  std::vector<proto::ControlRequest> requests;
  requests.push_back(std::move(setup));
  for (auto& request : Some(std::move(restore), std::move(create))) {
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace coxswain::core
