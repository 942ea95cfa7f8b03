#include "ps_server/hash_index.h"

#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <unordered_map>
#include <vector>

#include "ps_server/growing_storage.h"
#include "ps_server/waiting_ids.h"
#include "runtime/base/id_hash.h"

namespace coxswain::ps {
namespace {

int64_t InsertNext(HashIndex* index, int64_t id) {
  REQUIRE(index->Reserve(1).ok());
  const int64_t row = index->size();
  index->Insert(id, row);
  return row;
}

TEST_CASE("hash index: it is a map, also while it grows and loses ids") {
  // Few different ids, so that they come and go; ids in a row, whose places are not; and extremes.
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    HashIndex index;
    std::unordered_map<int64_t, int64_t> wanted;
    const uint64_t ids = seed % 2 == 0 ? 300 : 40000;
    int64_t next_row = 0;
    int64_t while_growing = 0;
    for (int step = 0; step < 60000; ++step) {
      int64_t id = static_cast<int64_t>(random() % ids);
      if (id == 7) id = std::numeric_limits<int64_t>::min();
      if (id % 3 == 0) id = -id * 1000003;
      while_growing += index.growing();
      // Rising in waves: it grows, and is emptied down to a third.
      if (random() % 100 < (step / 10000 % 2 == 0 ? 70 : 40)) {
        const auto found = wanted.find(id);
        REQUIRE(index.Find(id) == (found == wanted.end() ? -1 : found->second));
        if (found != wanted.end()) continue;
        REQUIRE(index.Reserve(1).ok());
        index.Insert(id, next_row);
        wanted[id] = next_row++;
      } else {
        const auto found = wanted.find(id);
        REQUIRE(index.Erase(id) == (found == wanted.end() ? -1 : found->second));
        if (found != wanted.end()) wanted.erase(found);
      }
      REQUIRE(index.size() == static_cast<int64_t>(wanted.size()));
      if (step % 5000 != 0) continue;
      std::vector<int64_t> all, rows;
      for (const auto& entry : wanted) all.push_back(entry.first);
      all.push_back(int64_t{1} << 50);
      rows.resize(all.size());
      index.FindAll(all.data(), static_cast<int64_t>(all.size()), rows.data());
      for (size_t i = 0; i + 1 < all.size(); ++i) REQUIRE(rows[i] == wanted[all[i]]);
      REQUIRE(rows.back() == -1);
    }
    CHECK(while_growing > 0);
  }
}

TEST_CASE("hash index: it grows to ten million ids, and no insertion moves more than a few") {
  HashIndex index;
  constexpr int64_t kIds = 10'000'000;
  int64_t growths = 0;
  bool grew = false;
  for (int64_t id = 0; id < kIds; ++id) {
    if (InsertNext(&index, id * 7919) != id) FAIL("row of " << id);
    growths += index.growing() && !grew;
    grew = index.growing();
  }
  CHECK(index.size() == kIds);
  CHECK(growths >= 17);  // from 64 places to 16 million
  CHECK(index.longest_move() <= 8);
  int64_t wrong = 0;
  for (int64_t id = 0; id < kIds; ++id) wrong += index.Find(id * 7919) != id;
  CHECK(wrong == 0);
  CHECK(index.Find(1) == -1);
  // 16 bytes an entry, and the array that is being replaced.
  CHECK(index.memory_bytes() <= 16 * 3 * (int64_t{1} << 24));
}

TEST_CASE("hash index: while it grows it finds what the array's end had sent to its beginning") {
  // 64 places at first; 20 ids of the last one, so that 19 stand at the beginning.
  std::vector<int64_t> ids;
  for (int64_t id = 0; ids.size() < 20; ++id) {
    if ((HashId(id) & 63) == 63) ids.push_back(id);
  }
  HashIndex index;
  REQUIRE(index.Reserve(40).ok());
  for (size_t i = 0; i < ids.size(); ++i) index.Insert(ids[i], static_cast<int64_t>(i));
  REQUIRE(index.Reserve(40).ok());
  REQUIRE(index.growing());
  for (int moved = 0; index.growing(); ++moved) {
    std::vector<int64_t> rows(ids.size());
    index.FindAll(ids.data(), static_cast<int64_t>(ids.size()), rows.data());
    for (size_t i = 0; i < ids.size(); ++i) {
      CAPTURE(moved, i);
      CHECK(index.Find(ids[i]) == static_cast<int64_t>(i));
      CHECK(rows[i] == static_cast<int64_t>(i));
    }
    index.Advance(1);
  }
}

TEST_CASE("hash index: room for many at once is made before they come") {
  HashIndex index;
  for (const int64_t n : {1, 1000, 3, 500000, 7}) {
    REQUIRE(index.Reserve(n).ok());
    for (int64_t i = 0; i < n; ++i) index.Insert(index.size() + 1'000'000'000'000, index.size());
  }
  for (int64_t i = 0; i < index.size(); ++i) {
    if (index.Find(i + 1'000'000'000'000) != i) FAIL("id " << i);
  }
  CHECK(index.Reserve(HashIndex::kMaxRows).code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE(
    "growing storage: bytes stay where they are, new ones are zero, and the end is an error") {
  GrowingStorage storage = GrowingStorage::Create(size_t{64} << 20).value();
  REQUIRE(storage.Grow(100).ok());
  char* const data = storage.data();
  const size_t first = storage.bytes();
  CHECK(first >= 100);
  for (size_t i = 0; i < first; ++i) data[i] = static_cast<char>(i);
  for (const size_t bytes : {size_t{200000}, size_t{9} << 20, size_t{64} << 20}) {
    const size_t before = storage.bytes();
    REQUIRE(storage.Grow(bytes).ok());
    REQUIRE(storage.data() == data);
    REQUIRE(storage.bytes() >= bytes);
    for (size_t i = before; i < storage.bytes(); i += 509) REQUIRE(data[i] == 0);
    data[storage.bytes() - 1] = 1;
  }
  for (size_t i = 0; i < first; i += 61) REQUIRE(data[i] == static_cast<char>(i));
  CHECK(storage.Grow((size_t{64} << 20) + 1).code() == absl::StatusCode::kResourceExhausted);
  CHECK(storage.bytes() == size_t{64} << 20);
}

TEST_CASE(
    "waiting ids: an id is let in with its wanted-th update, not before, and then forgotten") {
  WaitingIds waiting;
  REQUIRE(waiting.Reserve(1).ok());
  for (int64_t id = -500; id < 500; ++id) {
    for (int round = 0; round < 2; ++round) {
      CHECK_FALSE(waiting.Count(id, 1, 3, 0));
      CHECK_FALSE(waiting.Count(id, 2, 3, 0));
      CHECK(waiting.size() == 1);
      CHECK(waiting.Count(id, 3, 3, 0));
      CHECK(waiting.size() == 0);
    }
  }
  CHECK(waiting.Count(9, 1, 1, 0));
  CHECK(waiting.size() == 0);
}

TEST_CASE("waiting ids: a count that was not raised for too long starts anew") {
  WaitingIds waiting;
  REQUIRE(waiting.Reserve(3).ok());
  CHECK_FALSE(waiting.Count(5, 10, 2, 100));
  CHECK_FALSE(waiting.Count(6, 10, 2, 100));
  CHECK(waiting.Count(5, 110, 2, 100));
  CHECK_FALSE(waiting.Count(6, 111, 2, 100));
  CHECK(waiting.Count(6, 112, 2, 100));
  // The number of the update wraps in the counter, its distance does not.
  const int64_t far = (int64_t{1} << 32) - 5;
  CHECK_FALSE(waiting.Count(7, far, 2, 100));
  CHECK(waiting.Count(7, far + 50, 2, 100));
}

// As a shard calls it, which has the memory ready before.
bool CountNext(WaitingIds* waiting, int64_t id, int64_t now, int64_t wanted, int64_t expire = 0) {
  REQUIRE(waiting->Reserve(1).ok());
  return waiting->Count(id, now, wanted, expire);
}

TEST_CASE("waiting ids: no count is lost while as many wait as are promised") {
  for (const int64_t sets : {1 << 4, 1 << 12, 1 << 14}) {
    const int64_t ids = WaitingIds::kMostExact / WaitingIds::kSets * sets;
    WaitingIds waiting(sets);
    const int64_t empty = waiting.memory_bytes();
    int64_t let_in = 0;
    for (int64_t round = 1; round <= 2; ++round) {
      for (int64_t id = 0; id < ids; ++id) let_in += CountNext(&waiting, id * 7919, round, 3);
      CHECK(let_in == 0);
      CHECK(waiting.size() == ids);
    }
    CHECK(waiting.memory_bytes() - empty < ids * 24 + sets * 64);
    for (int64_t id = 0; id < ids; ++id) let_in += CountNext(&waiting, id * 7919, 3, 3);
    CHECK(let_in == ids);
    CHECK(waiting.size() == 0);
    CHECK(waiting.forgotten() == 0);
    // The memory of those that were let in is used again.
    const int64_t bytes = waiting.memory_bytes();
    for (int64_t id = 0; id < ids; ++id) CountNext(&waiting, -1 - id * 7919, 4, 3);
    CHECK(waiting.memory_bytes() < bytes + bytes / 8);
  }
}

std::vector<WaitingIds::Entry> AllOf(const WaitingIds& waiting) {
  std::vector<WaitingIds::Entry> all;
  waiting.ForEach([&all](const WaitingIds::Entry& entry) { all.push_back(entry); });
  return all;
}

TEST_CASE("waiting ids: memory is bounded, the latest are remembered, and a copy goes on alike") {
  constexpr int64_t kSets = 1 << 10, kMost = kSets * WaitingIds::kWays, kIds = 3 * kMost;
  WaitingIds waiting(kSets);
  for (int64_t id = 0; id < kIds; ++id) REQUIRE_FALSE(CountNext(&waiting, id, id, 2));
  CHECK(waiting.size() <= kMost);
  CHECK(waiting.size() > kMost * 9 / 10);
  CHECK(waiting.forgotten() == kIds - waiting.size());
  CHECK(waiting.memory_bytes() <= kMost / 7 * 128 + kSets * 5);
  WaitingIds copy(kSets);
  const std::vector<WaitingIds::Entry> all = AllOf(waiting);
  CHECK(static_cast<int64_t>(all.size()) == waiting.size());
  REQUIRE(copy.Reserve(waiting.size()).ok());
  for (const WaitingIds::Entry& entry : all) copy.Restore(entry);
  CHECK(copy.size() == waiting.size());
  int64_t remembered = 0;
  for (int64_t id = kIds - kMost / 2; id < kIds; ++id) {
    const bool known = CountNext(&waiting, id, kIds, 2);
    remembered += known;
    if (CountNext(&copy, id, kIds, 2) != known) FAIL("the copy differs in id " << id);
  }
  CHECK(remembered > kMost / 2 * 9 / 10);
  // Others, that make both forget again.
  std::mt19937_64 random(1);
  for (int64_t i = 0; i < kMost; ++i) {
    const auto id = static_cast<int64_t>(random() % (2 * kMost)) + kIds;
    if (CountNext(&copy, id, kIds + i, 2) != CountNext(&waiting, id, kIds + i, 2)) FAIL(id);
  }
  const std::vector<WaitingIds::Entry> of_copy = AllOf(copy), of_first = AllOf(waiting);
  REQUIRE(of_copy.size() == of_first.size());
  for (size_t i = 0; i < of_first.size(); ++i) {
    const WaitingIds::Entry &a = of_first[i], &b = of_copy[i];
    if (a.id != b.id || a.count != b.count || a.seen != b.seen) FAIL("entry " << i);
  }
}

TEST_CASE("waiting ids: those whose counts have expired give their places to others") {
  WaitingIds waiting(1 << 6);
  for (int64_t id = 0; id < 200'000; ++id) REQUIRE_FALSE(CountNext(&waiting, id, id, 2, 100));
  CHECK(waiting.size() <= 3 * 100);
  CHECK(waiting.forgotten() == 0);
}

}  // namespace
}  // namespace coxswain::ps
