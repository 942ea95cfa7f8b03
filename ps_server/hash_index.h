// Maps the ids of a hash table's shard to the numbers of their rows.
//
// Open addressing with linear probing in one flat array of 16-byte entries; look-ups of many ids
// prefetch their entries. Growing causes no pause: each insertion moves a few entries to the larger
// array, and until all are moved, look-ups search both.
//
// Thread model: one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "coxswain/tensor.h"

namespace coxswain::ps {

class HashIndex {
 public:
  // Rows are numbered 0 .. kMaxRows - 1.
  static constexpr int64_t kMaxRows = (int64_t{1} << 32) - 2;

  int64_t size() const { return size_; }
  int64_t memory_bytes() const {
    return static_cast<int64_t>(new_.memory.size() + old_.memory.size());
  }

  // -1: the id has no row.
  int64_t Find(int64_t id) const;
  // rows[i] = Find(ids[i]).
  void FindAll(const int64_t* ids, int64_t n, int64_t* rows) const;

  // Makes room for `n` more ids, so that inserting them cannot fail. Errors: ResourceExhausted.
  absl::Status Reserve(int64_t n);
  // Adds an id. It must not have a row yet, and there must be room for it.
  void Insert(int64_t id, int64_t row);
  // Removes the id; returns the row that it had, -1 for none.
  int64_t Erase(int64_t id);

  // Moves up to `entries` places of an array that is being replaced.
  void Advance(int64_t entries);
  bool growing() const { return old_.entries != nullptr; }
  // The most places that one call has moved, which bounds the longest pause.
  int64_t longest_move() const { return longest_move_; }

 private:
  struct Entry {
    int64_t id;
    uint32_t row;  // from 1; 0: free; kErased: deleted while its array was being replaced
    uint32_t unused;
  };
  struct Table {
    Buffer memory;
    Entry* entries = nullptr;
    size_t mask = 0;
    size_t capacity() const { return entries == nullptr ? 0 : mask + 1; }
  };

  static constexpr uint32_t kErased = 0xffffffff;
  static absl::StatusOr<Table> Allocate(size_t capacity);
  // Above it probe sequences get long.
  static int64_t Limit(const Table& table) {
    return static_cast<int64_t>(table.capacity() / 8 * 5);
  }
  const Entry* FindNew(int64_t id) const;
  const Entry* FindOld(int64_t id) const;
  void InsertNew(int64_t id, uint32_t row);
  void EraseNew(size_t at);

  Table new_;
  Table old_;  // the array being replaced; places below next_ are already in new_
  size_t next_ = 0;
  size_t released_ = 0;  // bytes of old_ returned to the system
  int64_t size_ = 0;
  int64_t longest_move_ = 0;
};

}  // namespace coxswain::ps
