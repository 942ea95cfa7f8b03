#include "runtime/data/stream/row_cells.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

namespace coxswain::data {
namespace {

// Rows that are turned at a time: those of one kind must stay in the first-level cache.
constexpr int64_t kTile = 32;
constexpr int64_t kCellsPerLine = 64 / sizeof(uint32_t);
constexpr size_t kHugePage = size_t{2} << 20;

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

void ReleaseCells::operator()(uint32_t* cells) const {
  if (mapped == nullptr) {
    delete[] cells;
  } else {
    munmap(mapped, bytes);
  }
}

// Rows are anywhere in it. Huge pages spare most misses of the table of pages, and nearly all
// faults.
RowCells::Cells RowCells::Allocate(size_t cells) {
  const size_t bytes = cells * sizeof(uint32_t);
  if (bytes < kHugePage) return Cells(new uint32_t[cells], ReleaseCells());
  const size_t mapped_bytes = bytes + kHugePage;  // what is not touched takes no memory
  void* const mapped =
      mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();  // as new
  const size_t lead = (kHugePage - reinterpret_cast<uintptr_t>(mapped) % kHugePage) % kHugePage;
  char* const begin = static_cast<char*>(mapped) + lead;
  madvise(begin, bytes, MADV_HUGEPAGE);  // without them all works, only slower
  return Cells(reinterpret_cast<uint32_t*>(begin), ReleaseCells{mapped, mapped_bytes});
}

RowCells::RowCells(absl::Span<const CellColumn> columns, int64_t rows) : rows_(rows) {
  for (const CellColumn& column : columns) {
    Place place;
    if (column.numbers != nullptr || column.narrow != nullptr || column.wide != nullptr) {
      place = {static_cast<int32_t>(stride_), column.wide != nullptr};
      stride_ += place.wide ? 2 : 1;
    }
    places_.push_back(place);
  }
  cells_ = Allocate(static_cast<size_t>(rows * stride_));
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
  // The lines of a tile are on their way while the values of the one in front are read.
  std::array<std::array<const uint32_t*, kTile>, 2> tiles;
  const auto start = [&](size_t first) {
    const size_t end = std::min(rows.size(), first + kTile);
    for (size_t i = first; i < end; ++i) {
      const RowCells& block = *blocks[rows[i].block];
      const uint32_t* const row = block.row(rows[i].row);
      tiles[first / kTile % 2][i - first] = row;
      for (int64_t cell = 0; cell < block.stride(); cell += kCellsPerLine) {
        __builtin_prefetch(row + cell);
      }
      __builtin_prefetch(row + block.stride() - 1);
    }
  };
  start(0);
  for (size_t first = 0; first < rows.size(); first += kTile) {
    start(first + kTile);
    const auto& from = tiles[first / kTile % 2];
    const size_t count = std::min(rows.size() - first, static_cast<size_t>(kTile));
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
