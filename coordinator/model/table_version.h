// The rows of one version of a table, in memory, as a value that never changes.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/model/row_slots.h"
#include "coordinator/model/shared_maps.h"
#include "runtime/base/row_mix.h"

namespace coxswain::model {

// Which of a table's rows each shard has.
struct TableLayout {
  size_t row_bytes = 0;
  bool hash = false;                         // rows have ids of their own
  bool interleaved = false;                  // position p is row p / n of shard p % n
  std::optional<RowMix> mix = std::nullopt;  // the same with the position's place
  std::vector<int64_t> begins;               // else: the position of each shard's first row
};

class TableVersion {
 public:
  // `slots`: of each shard; all rows that they name were taken from `memory`. `ids` where the table
  // is a hash table: at place * shards + shard.
  TableVersion(std::shared_ptr<RowSlots> memory, std::shared_ptr<const TableLayout> layout,
               std::vector<SlotMap> slots, IdMap ids);
  ~TableVersion();
  TableVersion(const TableVersion&) = delete;
  TableVersion& operator=(const TableVersion&) = delete;

  // The row's bytes, valid as long as this version. Zeros for a position without a row. Not of a
  // hash table.
  const char* Row(int64_t position) const;
  // Of a hash table; null for an id without a row.
  const char* RowOfId(int64_t id) const;

  // For the next version.
  const SlotMap& slots(size_t shard) const { return slots_[shard]; }
  const IdMap& ids() const { return ids_; }
  const char* At(uint32_t slot) const { return addresses_.At(slot); }

 private:
  const char* RowAt(size_t shard, int64_t place) const {
    const SlotMap& slots = slots_[shard];
    const uint32_t slot = place < slots.size() ? slots.At(place) : RowSlots::kNone;
    return slot == RowSlots::kNone ? nullptr : addresses_.At(slot);
  }

  const std::shared_ptr<RowSlots> memory_;
  const std::shared_ptr<const TableLayout> layout_;
  const std::vector<SlotMap> slots_;
  const IdMap ids_;
  const std::string zeros_;
  const uint64_t number_;
  const SlotAddresses addresses_;
};

}  // namespace coxswain::model
