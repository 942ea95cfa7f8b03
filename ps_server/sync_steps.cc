#include "ps_server/sync_steps.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace coxswain::ps {

absl::Status SyncSteps::Check(const SyncStep& step, ClosureId closure) const {
  if (!IsPossible(step, closure)) {
    return absl::InvalidArgumentError(absl::StrCat("closure ", closure, " is not one of the ",
                                                   step.count, " from ", step.first, " on"));
  }
  if (Applied(step.first)) return absl::OkStatus();
  const auto found = open_.find(step.first);
  if (found == open_.end()) {
    if (open_.size() < kMostOpen) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("closure ", closure, " is of the step that begins with ", step.first, ", and ",
                     open_.size(), " others are open, from ", open_.begin()->first, " on"));
  }
  const SyncStep& known = found->second.step;
  if (known.count == step.count && known.mean == step.mean) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("closure ", closure, ": the step from ",
                                                 step.first, " on had ", known.count,
                                                 " closures, found ", step.count));
}

bool SyncSteps::Holds(const SyncStep& step, ClosureId closure, const graph::Update& update) const {
  if (Applied(step.first)) return true;
  const auto open = open_.find(step.first);
  if (open == open_.end()) return false;
  const auto found = open->second.of.find(closure);
  if (found == open->second.of.end()) return false;
  // All of it is held, whatever is sent now.
  if (found->second.everywhere) return true;
  const std::vector<graph::Update>& updates = found->second.updates;
  return std::any_of(updates.begin(), updates.end(), [&](const graph::Update& u) {
    return u.shard == update.shard && u.key == update.key;
  });
}

int64_t SyncSteps::IdsFor(ShardId shard) const {
  int64_t ids = 0;
  for (const auto& [first, open] : open_) {
    for (const auto& [closure, contribution] : open.of) {
      for (const graph::Update& update : contribution.updates) {
        if (update.shard == shard && update.ids.has_value()) ids += update.ids.num_elements();
      }
    }
  }
  return ids;
}

SyncSteps::Open& SyncSteps::At(const SyncStep& step) {
  Open& open = open_[step.first];
  open.step = step;
  return open;
}

void SyncSteps::Hold(const SyncStep& step, ClosureId closure, graph::Update update) {
  At(step).of[closure].updates.push_back(std::move(update));
}

std::optional<SyncSteps::Ready> SyncSteps::HeldEverywhere(const SyncStep& step, ClosureId closure) {
  if (Applied(step.first)) return std::nullopt;  // told again
  Open& open = At(step);
  if (std::exchange(open.of[closure].everywhere, true)) return std::nullopt;
  uint32_t wanted = step.count;
#ifdef COXSWAIN_MUTATE_SYNC  // a build that must fail the simulator's tests
  wanted = std::max<uint32_t>(1, wanted - 1);
#endif
  if (++open.everywhere < wanted) return std::nullopt;
  Ready ready{open.step, std::move(open.of)};
  open_.erase(step.first);
  applied_ = step.first;
  return ready;
}

void SyncSteps::Clear() {
  applied_ = 0;
  open_.clear();
}

}  // namespace coxswain::ps
