#include "coordinator/core/closure_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain {
namespace {

int64_t BytesOf(const ClosureLog::Entry& entry) {
  int64_t bytes = 0;
  for (const Tensor& argument : entry.spec.arguments) {
    bytes += static_cast<int64_t>(argument.bytes());
  }
  return bytes;
}

}  // namespace

std::string DescribeClosure(ClosureId id, const ClosureSpec& spec) {
  if (spec.dataset == 0) return absl::StrCat("closure ", id);
  return absl::StrCat("closure ", id, " (", spec.ticket.ToString(), ")");
}

void ClosureLog::Add(ClosureId id, Entry entry) {
  if (id < first_) return;
  const int64_t bytes = BytesOf(entry);
  const auto added = entries_.try_emplace(entries_.end(), id);
  bytes_ += bytes - BytesOf(added->second);
  added->second = std::move(entry);
  while (size() > max_entries_ || (bytes_ > max_bytes_ && size() > 0)) {
    Trim(entries_.begin()->first + 1);
  }
}

std::vector<std::pair<ClosureId, ClosureLog::Entry>> ClosureLog::TakeFrom(ClosureId first) {
  std::vector<std::pair<ClosureId, Entry>> taken;
  const auto begin = entries_.lower_bound(first);
  for (auto it = begin; it != entries_.end(); ++it) {
    bytes_ -= BytesOf(it->second);
    taken.emplace_back(it->first, std::move(it->second));
  }
  entries_.erase(begin, entries_.end());
  return taken;
}

void ClosureLog::Trim(ClosureId first) {
  if (first <= first_) return;
  first_ = first;
  const auto end = entries_.lower_bound(first);
  for (auto it = entries_.begin(); it != end; ++it) bytes_ -= BytesOf(it->second);
  entries_.erase(entries_.begin(), end);
}

}  // namespace coxswain
