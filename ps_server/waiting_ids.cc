#include "ps_server/waiting_ids.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "runtime/base/id_hash.h"
#include "runtime/base/logging.h"

namespace coxswain::ps {

int64_t WaitingIds::memory_bytes() const {
  if (first_ == nullptr) return 0;
  constexpr auto kOfSet = static_cast<int64_t>(sizeof(uint32_t) + sizeof(uint8_t));
  return taken_ * static_cast<int64_t>(sizeof(Block)) + sets_ * kOfSet;
}

absl::Status WaitingIds::Reserve(int64_t n) {
  if (n == 0) return absl::OkStatus();
  const int64_t most = sets_ * kBlocksOfSet;
  if (first_ == nullptr) {
    const auto sets = static_cast<size_t>(sets_);
    ASSIGN_OR_RETURN(auto blocks,
                     GrowingStorage::Create(static_cast<size_t>(most) * sizeof(Block)));
    ASSIGN_OR_RETURN(auto sizes, AllocateZeros<uint8_t>(sets));
    ASSIGN_OR_RETURN(first_, AllocateZeros<uint32_t>(sets));
    blocks_ = std::move(blocks);
    sizes_ = std::move(sizes);
  }
  // Each of them may be the first of a block, but no set has more of them than its ids fill.
  const int64_t wanted = std::min(most - taken_, std::max<int64_t>(0, n - num_free_));
  return blocks_.Grow(static_cast<size_t>(taken_ + wanted) * sizeof(Block));
}

// By the middle bits: the highest choose the shard, the lowest the place in its index.
size_t WaitingIds::SetOf(int64_t id) const {
  COX_CHECK(first_ != nullptr, "an id is to wait before there is room for it");
  return static_cast<size_t>(HashId(id) >> 24 & static_cast<uint64_t>(sets_ - 1));
}

WaitingIds::Block& WaitingIds::At(uint32_t block) const {
  return reinterpret_cast<Block*>(blocks_.data())[block - 1];
}

uint32_t WaitingIds::TakeBlock() {
  uint32_t block = free_;
  if (block != 0) {
    free_ = At(block).next;
    --num_free_;
  } else {
    block = static_cast<uint32_t>(++taken_);
    COX_CHECK(static_cast<size_t>(taken_) * sizeof(Block) <= blocks_.bytes(),
              "no room for waiting id number ", size_ + 1);
  }
  At(block).next = 0;
  return block;
}

uint32_t* WaitingIds::BlockOf(size_t set, int64_t at) {
  uint32_t* block = &first_[set];
  for (int64_t passed = 0; passed < at / kBlockIds; ++passed) block = &At(*block).next;
  return block;
}

void WaitingIds::Append(size_t set, const Entry& entry) {
  const int64_t at = sizes_[set]++;
  uint32_t* const block = BlockOf(set, at);
  if (at % kBlockIds == 0) *block = TakeBlock();
  At(*block).entries[at % kBlockIds] = entry;
  ++size_;
}

void WaitingIds::Remove(size_t set, Entry* entry) {
  const int64_t at = --sizes_[set];
  uint32_t* const block = BlockOf(set, at);
  *entry = At(*block).entries[at % kBlockIds];
  --size_;
  if (at % kBlockIds != 0) return;
  At(*block).next = free_;
  free_ = std::exchange(*block, 0);
  ++num_free_;
}

void WaitingIds::RemoveIf(size_t set, absl::FunctionRef<bool(const Entry&)> goes) {
  for (int64_t at = sizes_[set] - 1; at >= 0; --at) {
    Entry* const entry = &At(*BlockOf(set, at)).entries[at % kBlockIds];
    if (goes(*entry)) Remove(set, entry);
  }
}

bool WaitingIds::Count(int64_t id, int64_t now, int64_t wanted, int64_t expire) {
  if (wanted <= 1) return true;
  const size_t set = SetOf(id);
  const auto stamp = static_cast<uint32_t>(now);
  const auto age = [stamp](const Entry& e) { return static_cast<uint32_t>(stamp - e.seen); };
  const auto expired = [&](const Entry& e) { return expire > 0 && age(e) > expire; };
  Entry* oldest = nullptr;
  int64_t left = sizes_[set];
  for (uint32_t block = first_[set]; left > 0; left -= kBlockIds) {
    Block& of = At(block);
    block = of.next;
    if (block != 0) __builtin_prefetch(&At(block));
    for (Entry* e = of.entries; e < of.entries + std::min(left, kBlockIds); ++e) {
      if (e->id == id) {
        e->count = expired(*e) ? 1 : e->count + 1;
        e->seen = stamp;
        if (e->count < wanted) return false;
        Remove(set, e);
        return true;
      }
      const auto rank = [&](const Entry& x) { return std::tuple(age(x), x.id); };
      if (oldest == nullptr || rank(*oldest) < rank(*e)) oldest = e;
    }
  }
  const Entry entry{id, 1, stamp};
  if (oldest != nullptr && expired(*oldest)) RemoveIf(set, expired);
  if (sizes_[set] < kWays) {
    Append(set, entry);
  } else {
    *oldest = entry;
    ++forgotten_;
  }
  return false;
}

void WaitingIds::ForEach(absl::FunctionRef<void(const Entry&)> visit) const {
  constexpr int64_t kAhead = 8;  // sets whose memory is asked for in advance
  for (int64_t set = 0; size_ > 0 && set < sets_; ++set) {
    if (set + kAhead < sets_ && first_[set + kAhead] != 0) {
      __builtin_prefetch(&At(first_[set + kAhead]));
    }
    int64_t left = sizes_[set];
    for (uint32_t block = first_[set]; left > 0; left -= kBlockIds) {
      const Block& of = At(block);
      block = of.next;
      if (block != 0) __builtin_prefetch(&At(block));
      std::for_each_n(of.entries, std::min(left, kBlockIds), visit);
    }
  }
}

void WaitingIds::Restore(const Entry& entry) {
  if (entry.count == 0) return;
  const size_t set = SetOf(entry.id);
  if (sizes_[set] < kWays) Append(set, entry);
}

}  // namespace coxswain::ps
