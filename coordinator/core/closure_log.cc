#include "coordinator/core/closure_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain {

std::string DescribeClosure(ClosureId id, const ClosureSpec& spec) {
  if (spec.dataset == 0) return absl::StrCat("closure ", id);
  return absl::StrCat("closure ", id, " (", spec.ticket.ToString(), ")");
}

void ClosureLog::Add(ClosureId id, Entry entry) {
  if (id < first_) return;
  entries_.insert_or_assign(entries_.end(), id, std::move(entry));
  if (static_cast<int64_t>(entries_.size()) > max_entries_) Trim(entries_.begin()->first + 1);
}

std::vector<std::pair<ClosureId, ClosureLog::Entry>> ClosureLog::TakeFrom(ClosureId first) {
  std::vector<std::pair<ClosureId, Entry>> taken;
  const auto begin = entries_.lower_bound(first);
  for (auto it = begin; it != entries_.end(); ++it) {
    taken.emplace_back(it->first, std::move(it->second));
  }
  entries_.erase(begin, entries_.end());
  return taken;
}

void ClosureLog::Trim(ClosureId first) {
  if (first <= first_) return;
  first_ = first;
  entries_.erase(entries_.begin(), entries_.lower_bound(first));
}

}  // namespace coxswain
