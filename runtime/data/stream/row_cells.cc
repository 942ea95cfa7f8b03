#include "runtime/data/stream/row_cells.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace coxswain::data {
namespace {

// Rows that are turned at a time: those of one kind must stay in the first-level cache.
constexpr int64_t kTile = 32;
constexpr int64_t kCellsPerLine = 64 / sizeof(uint32_t);

int64_t IdIn(const uint32_t* cell, bool wide) {
  if (!wide) return static_cast<int32_t>(*cell);
  int64_t id = 0;
  std::memcpy(&id, cell, sizeof(id));
  return id;
}

float NumberIn(const uint32_t* cell) {
  float number = 0;
  std::memcpy(&number, cell, sizeof(number));
  return number;
}

}  // namespace

RowCells::RowCells(absl::Span<const CellColumn> columns, int64_t rows) : rows_(rows) {
  for (const CellColumn& column : columns) {
    Place place;
    if (column.numbers != nullptr || column.narrow != nullptr || column.wide != nullptr) {
      place = {static_cast<int32_t>(stride_), column.wide != nullptr};
      stride_ += place.wide ? 2 : 1;
    }
    places_.push_back(place);
  }
  cells_ = std::make_unique_for_overwrite<uint32_t[]>(static_cast<size_t>(rows * stride_));
  for (int64_t first = 0; first < rows; first += kTile) {
    const int64_t end = std::min(first + kTile, rows);
    for (size_t i = 0; i < columns.size(); ++i) {
      if (places_[i].cell < 0) continue;
      uint32_t* to = cells_.get() + first * stride_ + places_[i].cell;
      const auto turn = [&](const auto* values) {
        for (int64_t row = first; row < end; ++row, to += stride_) {
          std::memcpy(to, values + row, sizeof(*values));
        }
      };
      if (columns[i].numbers != nullptr) {
        turn(columns[i].numbers);
      } else if (columns[i].narrow != nullptr) {
        turn(columns[i].narrow);
      } else {
        turn(columns[i].wide);
      }
    }
  }
}

void GatherCells(absl::Span<const RowCells* const> blocks, absl::Span<const CellRow> rows,
                 absl::Span<const CellTarget> targets) {
  // Nearly always all blocks have the same widths of ids, and so the same places.
  const bool same = std::all_of(blocks.begin(), blocks.end(), [&](const RowCells* block) {
    return block->places() == blocks[0]->places();
  });
  std::array<const uint32_t*, kTile> from{};
  for (size_t first = 0; first < rows.size(); first += kTile) {
    const size_t count = std::min(rows.size() - first, static_cast<size_t>(kTile));
    for (size_t i = 0; i < count; ++i) {
      const CellRow& row = rows[first + i];
      from[i] = blocks[row.block]->row(row.row);
      // All lines of all rows are on their way before the first value is read.
      for (int64_t cell = 0; cell < blocks[row.block]->stride(); cell += kCellsPerLine) {
        __builtin_prefetch(from[i] + cell);
      }
    }
    for (const CellTarget& target : targets) {
      const auto place = [&](size_t i) {
        return blocks[same ? 0 : rows[first + i].block]->places()[target.column];
      };
      const RowCells::Place at = place(0);
      for (size_t i = 0; i < count; ++i) {
        const RowCells::Place own = same ? at : place(i);
        const uint32_t* const cell = from[i] + own.cell;
        if (target.numbers != nullptr) {
          target.numbers[first + i] = NumberIn(cell);
        } else {
          target.ids[first + i] = IdIn(cell, own.wide);
        }
      }
    }
  }
}

}  // namespace coxswain::data
