#include "coordinator/core/closure_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::core {
namespace {

constexpr int kDropPerAdd = 4, kDropPerTrim = 1 << 14;

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

void ClosureLog::Count(const Entry& entry) {
  bytes_ += BytesOf(entry);
  ++by_plan_[entry.spec.plan];
}

void ClosureLog::Uncount(const Entry& entry) {
  bytes_ -= BytesOf(entry);
  const auto plan = by_plan_.find(entry.spec.plan);
  if (--plan->second > 0) return;
  gone_.push_back(plan->first);
  by_plan_.erase(plan);
}

void ClosureLog::Add(ClosureId id, Entry entry) {
  if (id < first_) return;
  entry.order = next_order_++;
  Count(entry);
  const int64_t before = size();
  const auto added = entries_.try_emplace(entries_.end(), id);
  if (size() == before) Uncount(added->second);
  added->second = std::move(entry);
  while (size() > max_entries_ || (bytes_ > max_bytes_ && size() > 0)) {
    first_ = std::max<ClosureId>(first_, entries_.begin()->first + 1);
    Drop(1);
  }
  Drop(kDropPerAdd);
}

std::vector<std::pair<ClosureId, ClosureLog::Entry>> ClosureLog::Take(ClosureId first,
                                                                      ClosureId end) {
  std::vector<std::pair<ClosureId, Entry>> taken;
  const auto begin = entries_.lower_bound(std::max(first, first_));
  auto it = begin;
  for (; it != entries_.end() && it->first < end; ++it) {
    Uncount(it->second);
    taken.emplace_back(it->first, std::move(it->second));
  }
  entries_.erase(begin, it);
  return taken;
}

void ClosureLog::Trim(ClosureId first) {
  first_ = std::max(first_, first);
  Drop(kDropPerTrim);
}

void ClosureLog::Drop(int most) {
  for (auto it = entries_.begin(); most > 0 && it != entries_.end() && it->first < first_; --most) {
    Uncount(it->second);
    it = entries_.erase(it);
  }
}

}  // namespace coxswain::core
