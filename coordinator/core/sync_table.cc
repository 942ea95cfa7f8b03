#include "coordinator/core/sync_table.h"

#include <algorithm>

namespace coxswain::core {

void SyncTable::Begin(ClosureId first) {
  const auto found = open_.find(first);
  if (found == open_.end()) return;
  found->second.begun = true;
  if (!found->second.step.free) newest_begun_ = std::max(newest_begun_, first);
}

ClosureId SyncTable::NewestOpen(ClosureId first) const {
  if (first == 0) return 0;
#ifdef COXSWAIN_MUTATE_CANCELLED  // a build that must fail the simulator's tests
  return IsOpen(first) ? first : ClosureId(0);
#endif
  for (auto it = open_.upper_bound(first); it != open_.begin();) {
    --it;
    if (!it->second.step.free) return it->first;
  }
  return 0;
}

bool SyncTable::HasBegun(ClosureId first) const {
  const auto found = open_.find(first);
  if (found == open_.end()) return false;
  return found->second.begun || (!found->second.step.free && first <= newest_begun_);
}

// Steps begin in their order, so few are looked at.
ClosureId SyncTable::begun_end() const {
  ClosureId end = 0;
  for (const auto& [first, open] : open_) {
    if (open.step.free) continue;
    if (!open.begun) break;
    end = open.step.end();
  }
  return end;
}

std::vector<SyncTable::Done> SyncTable::Finish(const SyncStep& step, ClosureId closure,
                                               std::vector<Tensor> results) {
  std::vector<Done> over;
  const auto found = open_.find(step.first);
  if (found == open_.end()) return over;
  if (found->second.chosen) return over;
  auto& done = found->second.done;
  done[closure] = std::move(results);
  if (done.size() < step.count) return over;
  if (found->second.step.backup > 0) {
    ready_.insert(step.first);
    return over;
  }
  for (auto& [id, its] : done) over.push_back({id, std::move(its)});
  open_.erase(found);
  return over;
}

std::optional<SyncTable::Choice> SyncTable::Choose() {
  if (ready_.empty()) return std::nullopt;
  Open& open = open_.at(*ready_.begin());
  ready_.erase(ready_.begin());
  open.chosen = true;
  Choice choice{open.step, {}};
  for (auto it = open.done.begin(); it != open.done.end();) {
    if (choice.chosen.size() < open.step.count) {
      choice.chosen.push_back(it->first);
      ++it;
    } else {
      it = open.done.erase(it);
    }
  }
  return choice;
}

std::vector<SyncTable::Done> SyncTable::Conclude(ClosureId first) {
  std::vector<Done> over;
  const auto found = open_.find(first);
  if (found == open_.end() || !found->second.chosen) return over;
  for (auto& [id, its] : found->second.done) over.push_back({id, std::move(its)});
  open_.erase(found);
  return over;
}

std::vector<ClosureId> SyncTable::BeginAnew() {
  std::vector<ClosureId> done;
  ready_.clear();
  newest_begun_ = 0;
  for (auto& [first, open] : open_) {
    open.begun = open.chosen = false;
    for (const auto& [closure, results] : open.done) done.push_back(closure);
    open.done.clear();
  }
  return done;
}

}  // namespace coxswain::core
