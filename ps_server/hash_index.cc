#include "ps_server/hash_index.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ps_server/growing_storage.h"
#include "ps_server/storage.h"
#include "runtime/base/id_hash.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain::ps {
namespace {

constexpr size_t kMinCapacity = 64;
constexpr int64_t kAhead = 32;  // ids whose memory is asked for in advance
// Places moved with each insertion. The old array is moved long before the new one is full.
constexpr int64_t kMovedWithInsert = 8;
constexpr size_t kReleaseBytes = size_t{2} << 20;

}  // namespace

absl::StatusOr<HashIndex::Table> HashIndex::Allocate(size_t capacity) {
  Table table;
  RETURN_IF_ERROR(CheckRoom(capacity * sizeof(Entry), capacity * sizeof(Entry)));
  ASSIGN_OR_RETURN(table.memory, AllocateStorage(capacity * sizeof(Entry)));
  table.entries = static_cast<Entry*>(table.memory.data());
  table.mask = capacity - 1;
  return table;
}

const HashIndex::Entry* HashIndex::FindNew(int64_t id) const {
  if (new_.entries == nullptr) return nullptr;
  for (size_t at = HashId(id) & new_.mask;; at = (at + 1) & new_.mask) {
    const Entry& entry = new_.entries[at];
    if (entry.row == 0) return nullptr;
    if (entry.id == id) return &entry;
  }
}

// Nothing below next_ is looked at: what stood there is in the new array. What the end of the array
// had sent to its beginning may still stand behind it.
const HashIndex::Entry* HashIndex::FindOld(int64_t id) const {
  if (!growing()) return nullptr;
  const size_t home = HashId(id) & old_.mask;
  const auto matches = [id](const Entry& e) { return e.id == id && e.row != kErased; };
  for (size_t at = std::max(home, next_); at <= old_.mask; ++at) {
    const Entry& entry = old_.entries[at];
    if (entry.row == 0) return nullptr;
    if (matches(entry)) return &entry;
  }
  for (size_t at = next_; at < home; ++at) {
    const Entry& entry = old_.entries[at];
    if (entry.row == 0) return nullptr;
    if (matches(entry)) return &entry;
  }
  return nullptr;
}

int64_t HashIndex::Find(int64_t id) const {
  const Entry* entry = FindNew(id);
  if (entry == nullptr) entry = FindOld(id);
  return entry == nullptr ? -1 : static_cast<int64_t>(entry->row) - 1;
}

void HashIndex::FindAll(const int64_t* ids, int64_t n, int64_t* rows) const {
  if (new_.entries == nullptr) {
    std::fill_n(rows, n, -1);
    return;
  }
  const bool old = growing();
  const Entry* const entries = new_.entries;
  const size_t mask = new_.mask;
  // Hashes are kept until their entries have come.
  std::array<uint64_t, kAhead> hashes;
  const auto ask = [&](int64_t i) {
    const uint64_t hash = HashId(ids[i]);
    hashes[static_cast<size_t>(i % kAhead)] = hash;
    __builtin_prefetch(&entries[hash & mask]);
    if (old) __builtin_prefetch(&old_.entries[hash & old_.mask]);
  };
  for (int64_t i = 0; i < std::min(n, kAhead); ++i) ask(i);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t id = ids[i];
    size_t at = hashes[static_cast<size_t>(i % kAhead)] & mask;
    if (i + kAhead < n) ask(i + kAhead);
    while (entries[at].row != 0 && entries[at].id != id) at = (at + 1) & mask;
    rows[i] = static_cast<int64_t>(entries[at].row) - 1;
    if (rows[i] >= 0 || !old) continue;
    const Entry* entry = FindOld(id);
    if (entry != nullptr) rows[i] = static_cast<int64_t>(entry->row) - 1;
  }
}

absl::Status HashIndex::Reserve(int64_t n) {
  const int64_t wanted = size_ + n;
  if (wanted <= Limit(new_)) return absl::OkStatus();
  if (n > kMaxRows - size_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "wanted at most ", kMaxRows, " ids in one shard, found ", size_, " and ", n, " more"));
  }
  // Twice as many as now, also when fewer would do: the next growth is far then.
  size_t capacity = std::max(kMinCapacity, 2 * new_.capacity());
  while (static_cast<int64_t>(capacity / 8 * 5) < wanted) capacity *= 2;
  ASSIGN_OR_RETURN(Table larger, Allocate(capacity));
  // Only when one update brings about as many ids as there are.
  if (growing()) Advance(static_cast<int64_t>(old_.capacity()));
  old_ = std::exchange(new_, std::move(larger));
  next_ = released_ = 0;
  return absl::OkStatus();
}

void HashIndex::InsertNew(int64_t id, uint32_t row) {
  size_t at = HashId(id) & new_.mask;
  while (new_.entries[at].row != 0) at = (at + 1) & new_.mask;
  new_.entries[at] = {id, row, 0};
}

void HashIndex::Insert(int64_t id, int64_t row) {
  COX_CHECK(size_ < Limit(new_), "no room for id ", id, " among ", size_);
  Advance(kMovedWithInsert);
  InsertNew(id, static_cast<uint32_t>(row + 1));
  ++size_;
}

// Entries behind the gap that their probing would pass move into it, so that no marks stay behind.
void HashIndex::EraseNew(size_t at) {
  Entry* entries = new_.entries;
  const size_t mask = new_.mask;
  for (size_t next = (at + 1) & mask; entries[next].row != 0; next = (next + 1) & mask) {
    const size_t home = HashId(entries[next].id) & mask;
    if (((next - home) & mask) < ((next - at) & mask)) continue;  // it starts behind the gap
    entries[at] = entries[next];
    at = next;
  }
  entries[at] = {0, 0, 0};
}

int64_t HashIndex::Erase(int64_t id) {
  if (const Entry* entry = FindNew(id)) {
    const int64_t row = static_cast<int64_t>(entry->row) - 1;
    EraseNew(static_cast<size_t>(entry - new_.entries));
    --size_;
    return row;
  }
  const Entry* entry = FindOld(id);
  if (entry == nullptr) return -1;
  const int64_t row = static_cast<int64_t>(entry->row) - 1;
  old_.entries[entry - old_.entries].row = kErased;
  --size_;
  return row;
}

void HashIndex::Advance(int64_t entries) {
  if (!growing()) return;
  longest_move_ = std::max(longest_move_, entries);
  const size_t end = std::min(old_.capacity(), next_ + static_cast<size_t>(entries));
  for (; next_ < end; ++next_) {
    const Entry& entry = old_.entries[next_];
    if (entry.row != 0 && entry.row != kErased) InsertNew(entry.id, entry.row);
  }
  if (next_ == old_.capacity()) {
    old_ = Table();
    return;
  }
  // Bit by bit: giving back gigabytes at once is a stop, too.
  const size_t passed = next_ * sizeof(Entry) / kReleaseBytes * kReleaseBytes;
  if (passed > released_) {
    ReleasePages(reinterpret_cast<char*>(old_.entries) + released_, passed - released_);
    released_ = passed;
  }
}

}  // namespace coxswain::ps
