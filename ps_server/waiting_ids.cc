#include "ps_server/waiting_ids.h"

#include <algorithm>
#include <tuple>

#include "runtime/base/id_hash.h"
#include "runtime/base/logging.h"
#include "runtime/tensor/limits.h"

namespace coxswain::ps {

int64_t WaitingIds::memory_bytes() const {
  return static_cast<int64_t>(used_.size()) * kWays * static_cast<int64_t>(sizeof(Entry));
}

absl::Status WaitingIds::Reserve() {
  if (entries_ != nullptr) return absl::OkStatus();
  return CatchAllocationErrors([this]() -> absl::Status {
    is_used_.assign(kSets, false);
    used_.reserve(kSets);
    ASSIGN_OR_RETURN(entries_, AllocateZeros<Entry>(kMaxIds));
    return absl::OkStatus();
  });
}

WaitingIds::Entry* WaitingIds::SetOf(int64_t id) {
  COX_CHECK(entries_ != nullptr, "an id is to wait before there is room for it");
  // The middle bits: the highest choose the shard, the lowest the place in its index.
  const size_t set = (HashId(id) >> 24) % kSets;
  if (!is_used_[set]) {
    is_used_[set] = true;
    used_.push_back(static_cast<uint32_t>(set));
  }
  return &entries_[set * kWays];
}

bool WaitingIds::Count(int64_t id, int64_t now, int64_t wanted, int64_t expire) {
  if (wanted <= 1) return true;
  const auto stamp = static_cast<uint32_t>(now);
  Entry* const set = SetOf(id);
  Entry* place = nullptr;
  for (Entry* entry = set; entry < set + kWays; ++entry) {
    if (entry->count == 0) {
      if (place == nullptr) place = entry;
    } else if (entry->id == id) {
      const bool expired = expire > 0 && static_cast<uint32_t>(stamp - entry->seen) > expire;
      entry->count = expired ? 1 : entry->count + 1;
      entry->seen = stamp;
      if (entry->count < wanted) return false;
      *entry = Entry();
      --size_;
      return true;
    }
  }
  if (place == nullptr) {
    const auto age = [&](const Entry& e) { return std::tuple(stamp - e.seen, e.id); };
    place = std::max_element(set, set + kWays,
                             [&](const Entry& a, const Entry& b) { return age(a) < age(b); });
    --size_;
  }
  *place = {id, 1, stamp};
  ++size_;
  return false;
}

std::vector<WaitingIds::Entry> WaitingIds::All() const {
  std::vector<uint32_t> sets = used_;
  std::sort(sets.begin(), sets.end());
  std::vector<Entry> all;
  all.reserve(static_cast<size_t>(size_));
  for (const uint32_t set : sets) {
    const Entry* first = &entries_[set * kWays];
    std::copy_if(first, first + kWays, std::back_inserter(all),
                 [](const Entry& e) { return e.count != 0; });
  }
  return all;
}

void WaitingIds::Restore(const Entry& entry) {
  if (entry.count == 0) return;
  Entry* const set = SetOf(entry.id);
  Entry* const place = std::find_if(set, set + kWays, [](const Entry& e) { return e.count == 0; });
  if (place == set + kWays) return;
  *place = entry;
  ++size_;
}

}  // namespace coxswain::ps
