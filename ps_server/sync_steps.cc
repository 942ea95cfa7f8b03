#include "ps_server/sync_steps.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::ps {
namespace {

size_t BytesOf(const Tensor& tensor) { return tensor.has_value() ? tensor.bytes() : 0; }

Tensor CopyOf(const Tensor& tensor) {
  if (!tensor.has_value()) return tensor;
  Tensor copy(tensor.dtype(), tensor.shape());
  if (tensor.bytes() > 0) std::memcpy(copy.mutable_raw(), tensor.raw(), tensor.bytes());
  return copy;
}

}  // namespace

bool SyncSteps::Applied(const SyncStep& step) const {
  if (!step.free) return Applied(step.first);
  return step.end() <= low_water_ || applied_steps_.contains(step.first);
}

absl::Status SyncSteps::Check(const SyncStep& step, ClosureId closure) const {
  if (!IsPossible(step, closure)) {
    return absl::InvalidArgumentError(absl::StrCat("closure ", closure, " is not one of the ",
                                                   step.closures(), " from ", step.first, " on"));
  }
  if (!step.free) RETURN_IF_ERROR(CheckOrder(step, closure));
  if (Applied(step)) return absl::OkStatus();
  const auto found = open_.find(step.first);
  if (found == open_.end()) {
    if (open_.size() < (step.free ? kMostFreeOpen : kMostOpen)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("closure ", closure, " is of the step that begins with ", step.first, ", and ",
                     open_.size(), " others are open, from ", open_.begin()->first, " on"));
  }
  const SyncStep& known = found->second.step;
  if (known.count == step.count && known.mean == step.mean && known.backup == step.backup &&
      known.free == step.free && known.each == step.each) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("closure ", closure, ": the step from ",
                                                 step.first, " on had ", known.count,
                                                 " closures, found ", step.count));
}

absl::Status SyncSteps::CheckOrder(const SyncStep& step, ClosureId closure) const {
  const auto wrong = [&](absl::string_view what, ClosureId other) {
    return absl::InternalError(absl::StrCat("closure ", closure,
                                            " is of the synchronous step from ", step.first,
                                            " on, and ", what, " from ", other, " on"));
  };
  if (Applied(step.first)) {
    // Of those that are over nobody waits for what comes late.
    const bool known = step.end() <= low_water_ || applied_steps_.contains(step.first);
    return known ? absl::OkStatus() : wrong("was overtaken by the one", applied_);
  }
  const auto earlier = std::find_if(open_.begin(), open_.lower_bound(step.first),
                                    [](const auto& open) { return !open.second.step.free; });
  if (earlier == open_.lower_bound(step.first)) return absl::OkStatus();
  return wrong("not applied is the one", earlier->first);
}

bool SyncSteps::Holds(const SyncStep& step, ClosureId closure, const graph::Update& update) const {
  if (Applied(step)) return true;
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

int64_t SyncSteps::NewRowsFor(ShardId shard) const {
  int64_t rows = 0;
  for (const auto& [first, open] : open_) {
    for (const auto& [closure, contribution] : open.of) {
      const auto found = contribution.new_rows.find(shard);
      if (found != contribution.new_rows.end()) rows += found->second;
    }
  }
  return rows;
}

SyncSteps::Open& SyncSteps::At(const SyncStep& step) {
  Open& open = open_[step.first];
  open.step = step;
  return open;
}

bool SyncSteps::MayHoldAsItCame() const {
  size_t lent = 0, bytes = 0;
  for (const auto& [first, open] : open_) {
    lent += open.lent;
    bytes += open.lent_bytes;
  }
  return lent < kMostLent && bytes < kMostLentBytes;
}

void SyncSteps::Hold(const SyncStep& step, ClosureId closure, uint64_t seed, graph::Update update) {
  const bool as_it_came = MayHoldAsItCame();
  Open& open = At(step);
  if (as_it_came) {
    ++open.lent;
    open.lent_bytes += BytesOf(update.ids) + BytesOf(update.values);
  } else {
    update.ids = CopyOf(update.ids);
    update.values = CopyOf(update.values);
  }
  Contribution& of = open.of[closure];
  of.seed = seed;
  of.updates.push_back(std::move(update));
}

std::optional<SyncSteps::Ready> SyncSteps::HeldEverywhere(const SyncStep& step, ClosureId closure,
                                                          uint64_t seed) {
  if (Applied(step)) return std::nullopt;  // told again
  Open& open = At(step);
  Contribution& of = open.of[closure];
  of.seed = seed;
  if (std::exchange(of.everywhere, true)) return std::nullopt;
  uint32_t wanted = step.count;
#ifdef COXSWAIN_MUTATE_SYNC  // a build that must fail the simulator's tests
  wanted = std::max<uint32_t>(1, wanted - 1);
#endif
  if (++open.everywhere < wanted || step.backup > 0) return std::nullopt;
  return TakeReady(step);
}

SyncSteps::Ready SyncSteps::TakeReady(const SyncStep& step) {
  Ready ready{step, std::move(At(step).of)};
  open_.erase(step.first);
  applied_steps_.insert(step.first);
  if (!step.free) applied_ = step.first;
  return ready;
}

absl::StatusOr<std::optional<SyncSteps::Ready>> SyncSteps::Choose(
    const SyncStep& step, const std::vector<ClosureId>& chosen) {
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("the step that begins with closure ", step.first,
                                                   " takes ", step.count, " of ", step.closures(),
                                                   " closures: ", what));
  };
  if (step.backup == 0) return wrong("there is nothing to choose");
  if (chosen.size() != step.count) return wrong(absl::StrCat("found ", chosen.size()));
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (i > 0 && chosen[i] <= chosen[i - 1]) return wrong("they are not in order");
    RETURN_IF_ERROR(Check(step, chosen[i]));
  }
  if (Applied(step)) return std::optional<Ready>();
  Ready ready = TakeReady(step);
#ifndef COXSWAIN_MUTATE_BACKUP  // a build that must fail the simulator's tests
  std::erase_if(ready.of, [&](const auto& one) {
    return !std::binary_search(chosen.begin(), chosen.end(), one.first);
  });
#endif
  return std::optional<Ready>(std::move(ready));
}

void SyncSteps::SetLowWater(ClosureId closure) {
  if (closure <= low_water_) return;
  low_water_ = closure;
  if (applied_steps_.empty() && open_.empty()) return;
  applied_steps_.erase(applied_steps_.begin(), applied_steps_.lower_bound(closure));
  std::erase_if(open_, [closure](const auto& open) {
    return open.second.step.free && open.second.step.end() <= closure;
  });
}

void SyncSteps::Clear() {
  applied_ = 0;
  applied_steps_.clear();
  low_water_ = 0;
  open_.clear();
}

}  // namespace coxswain::ps
