// The next version of a table while it is read: rows that equal those of the version before share
// their memory with it. Until Finish nothing has changed for anyone; a draft that is given up gives
// back what it took.
//
// Thread model: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/model/row_slots.h"
#include "coordinator/model/shared_maps.h"
#include "coordinator/model/table_version.h"

namespace coxswain::model {

// Bytes of a slot: the row, and the id of a hash table's row.
size_t SlotBytes(const TableLayout& layout);

class TableDraft {
 public:
  // `before`: null for a table without rows.
  TableDraft(std::shared_ptr<RowSlots> memory, std::shared_ptr<const TableLayout> layout,
             std::shared_ptr<const TableVersion> before, size_t shards,
             std::shared_ptr<SharedBytes> bytes);
  ~TableDraft();
  TableDraft(const TableDraft&) = delete;
  TableDraft& operator=(const TableDraft&) = delete;

  // How many places the shard has now, before any of its rows.
  void Resize(size_t shard, int64_t places);
  // What the place has now, called at most once for each: a row, with its id in a hash table; or
  // none. Errors: ResourceExhausted.
  absl::Status Put(size_t shard, int64_t place, const char* row, int64_t id);
  void Clear(size_t shard, int64_t place);

  // Ends the draft. `path`: of the checkpoint, for messages. Errors: DataLoss for an id with two
  // rows.
  absl::StatusOr<std::shared_ptr<const TableVersion>> Finish(const std::string& path);
  // After Finish: the places that differ from the version before, ascending. Nothing if there was
  // none.
  std::vector<int64_t> TakeChanged(size_t shard) { return std::move(shards_[shard].changed); }

 private:
  struct Shard {
    SlotMap slots;
    std::vector<int64_t> changed;
  };
  uint32_t Before(size_t shard, int64_t place) const;
  int64_t IdAt(const char* slot) const;
  void Note(Shard* shard, int64_t place, uint32_t slot);
  absl::Status UpdateIds(const std::string& path);

  const std::shared_ptr<RowSlots> memory_;
  const std::shared_ptr<const TableLayout> layout_;
  const std::shared_ptr<const TableVersion> before_;
  const size_t id_offset_;  // in a slot
  std::vector<Shard> shards_;
  IdMap ids_;
  std::vector<uint32_t> taken_;
};

}  // namespace coxswain::model
