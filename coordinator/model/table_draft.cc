#include "coordinator/model/table_draft.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

size_t IdOffset(const TableLayout& layout) {
  return (layout.row_bytes + sizeof(int64_t) - 1) / sizeof(int64_t) * sizeof(int64_t);
}

}  // namespace

size_t SlotBytes(const TableLayout& layout) {
  return layout.hash ? IdOffset(layout) + sizeof(int64_t) : layout.row_bytes;
}

TableDraft::TableDraft(std::shared_ptr<RowSlots> memory, std::shared_ptr<const TableLayout> layout,
                       std::shared_ptr<const TableVersion> before, size_t shards,
                       std::shared_ptr<SharedBytes> bytes)
    : memory_(std::move(memory)),
      layout_(std::move(layout)),
      before_(std::move(before)),
      id_offset_(IdOffset(*layout_)),
      ids_(before_ != nullptr ? before_->ids().Share() : IdMap(bytes)) {
  for (size_t shard = 0; shard < shards; ++shard) {
    shards_.push_back({before_ != nullptr ? before_->slots(shard).Share() : SlotMap(bytes), {}});
  }
}

TableDraft::~TableDraft() { memory_->GiveBack(taken_); }

uint32_t TableDraft::Before(size_t shard, int64_t place) const {
  if (before_ == nullptr || place >= before_->slots(shard).size()) return RowSlots::kNone;
  return before_->slots(shard).At(place);
}

int64_t TableDraft::IdAt(const char* slot) const {
  int64_t id = 0;
  std::memcpy(&id, slot + id_offset_, sizeof(id));
  return id;
}

void TableDraft::Note(Shard* shard, int64_t place, uint32_t slot) {
  shard->slots.Set(place, slot);
  if (before_ != nullptr || layout_->hash) shard->changed.push_back(place);
}

void TableDraft::Resize(size_t shard, int64_t places) {
  Shard& of = shards_[shard];
  for (int64_t place = places; place < of.slots.size(); ++place) {
    if (of.slots.At(place) != RowSlots::kNone) of.changed.push_back(place);
  }
  of.slots.Resize(places);
}

absl::Status TableDraft::Put(size_t shard, int64_t place, const char* row, int64_t id) {
  const uint32_t before = Before(shard, place);
  if (before != RowSlots::kNone) {
    const char* const there = before_->At(before);
    const bool same = std::memcmp(there, row, layout_->row_bytes) == 0;
    if (same && (!layout_->hash || IdAt(there) == id)) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const RowSlots::Slot slot, memory_->Take());
  if (before_ != nullptr) taken_.push_back(slot.number);  // else all of the memory goes
  std::memcpy(slot.memory, row, layout_->row_bytes);
  if (layout_->hash) std::memcpy(slot.memory + id_offset_, &id, sizeof(id));
  Note(&shards_[shard], place, slot.number);
  return absl::OkStatus();
}

void TableDraft::Clear(size_t shard, int64_t place) {
  if (Before(shard, place) != RowSlots::kNone) Note(&shards_[shard], place, RowSlots::kNone);
}

// An id may have moved to another place: all go before any come.
absl::Status TableDraft::UpdateIds(const std::string& path) {
  const SlotAddresses addresses = memory_->Addresses();
  const auto count = static_cast<int64_t>(shards_.size());
  for (int64_t s = 0; s < count; ++s) {
    const auto shard = static_cast<size_t>(s);
    for (const int64_t place : shards_[shard].changed) {
      const uint32_t before = Before(shard, place);
      if (before != RowSlots::kNone) ids_.Erase(IdAt(addresses.At(before)), place * count + s);
    }
  }
  for (int64_t s = 0; s < count; ++s) {
    const Shard& shard = shards_[static_cast<size_t>(s)];
    for (const int64_t place : shard.changed) {
      if (place >= shard.slots.size() || shard.slots.At(place) == RowSlots::kNone) continue;
      const int64_t id = IdAt(addresses.At(shard.slots.At(place)));
      if (ids_.Insert(id, place * count + s)) continue;
      return absl::DataLossError(absl::StrCat(path, ": id ", id, " has two rows"));
    }
  }
  ids_.Count();
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const TableVersion>> TableDraft::Finish(const std::string& path) {
  if (layout_->hash) RETURN_IF_ERROR(UpdateIds(path));
  std::vector<uint32_t> gone;
  for (size_t s = 0; s < shards_.size(); ++s) {
    std::vector<int64_t>& changed = shards_[s].changed;
    std::sort(changed.begin(), changed.end());
    for (const int64_t place : changed) {
      const uint32_t before = Before(s, place);
      if (before != RowSlots::kNone) gone.push_back(before);
    }
  }
  std::vector<SlotMap> slots;
  for (Shard& shard : shards_) slots.push_back(std::move(shard.slots));
  auto version =
      std::make_shared<const TableVersion>(memory_, layout_, std::move(slots), std::move(ids_));
  memory_->Retire(std::move(gone));
  taken_.clear();
  return version;
}

}  // namespace coxswain::model
