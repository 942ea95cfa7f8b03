#include "coordinator/model/table_version.h"

#include <algorithm>
#include <utility>

namespace coxswain::model {

TableVersion::TableVersion(std::shared_ptr<RowSlots> memory,
                           std::shared_ptr<const TableLayout> layout, std::vector<SlotMap> slots,
                           IdMap ids)
    : memory_(std::move(memory)),
      layout_(std::move(layout)),
      slots_(std::move(slots)),
      ids_(std::move(ids)),
      zeros_(layout_->hash ? 0 : layout_->row_bytes, '\0'),
      number_(memory_->Begin()),
      addresses_(memory_->Addresses()) {}

TableVersion::~TableVersion() { memory_->End(number_); }

const char* TableVersion::Row(int64_t position) const {
  const auto count = static_cast<int64_t>(slots_.size());
  const int64_t place = layout_->mix ? layout_->mix->Place(position) : position;
  const char* row = nullptr;
  if (layout_->interleaved) {
    row = RowAt(static_cast<size_t>(place % count), place / count);
  } else {
    const auto next = std::upper_bound(layout_->begins.begin(), layout_->begins.end(), place);
    const auto shard =
        static_cast<size_t>(std::max<int64_t>(0, next - layout_->begins.begin() - 1));
    row = RowAt(shard, place - layout_->begins[shard]);
  }
  return row != nullptr ? row : zeros_.data();
}

const char* TableVersion::RowOfId(int64_t id) const {
  const int64_t at = ids_.Find(id);
  if (at < 0) return nullptr;
  const auto count = static_cast<int64_t>(slots_.size());
  return RowAt(static_cast<size_t>(at % count), at / count);
}

}  // namespace coxswain::model
