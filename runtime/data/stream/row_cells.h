// The columns of a block that have one value in each row, kept row by row: all that a row has is
// near each other. Shuffled rows are anywhere in their blocks, so that kept by columns each of a
// row's values would be a cache miss of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace coxswain::data {

// One column before it is kept by rows: one of the three, of as many values as there are rows.
struct CellColumn {
  const float* numbers = nullptr;
  const int32_t* narrow = nullptr;  // ids
  const int64_t* wide = nullptr;    // ids
};

struct ReleaseCells {
  void* mapped = nullptr;  // null: they were allocated
  size_t bytes = 0;
  void operator()(uint32_t* cells) const;
};

// A value takes a cell of 4 bytes; a wide id takes two. Thread model: immutable.
class RowCells {
 public:
  RowCells() = default;  // of no columns
  // Columns without any values are left out.
  RowCells(absl::Span<const CellColumn> columns, int64_t rows);

  // Where in a row a column's value is.
  struct Place {
    int32_t cell = -1;  // -1: the column is not here
    bool wide = false;  // an id of two cells
    bool operator==(const Place& other) const { return cell == other.cell && wide == other.wide; }
  };
  const std::vector<Place>& places() const { return places_; }  // parallel to the columns
  bool Has(size_t column) const { return column < places_.size() && places_[column].cell >= 0; }
  bool empty() const { return rows_ * stride_ == 0; }
  const uint32_t* row(int64_t row) const { return cells_.get() + row * stride_; }
  int64_t stride() const { return stride_; }  // cells of a row
  int64_t bytes() const { return rows_ * stride_ * static_cast<int64_t>(sizeof(uint32_t)); }

 private:
  using Cells = std::unique_ptr<uint32_t[], ReleaseCells>;
  static Cells Allocate(size_t cells);

  std::vector<Place> places_;
  int64_t rows_ = 0;
  int64_t stride_ = 0;
  Cells cells_;
};

// Where the values of a column go: to numbers or to ids.
struct CellTarget {
  size_t column = 0;
  float* numbers = nullptr;
  int64_t* ids = nullptr;
};

// A row of one of several blocks.
struct CellRow {
  uint32_t block = 0;
  uint32_t row = 0;
};

// Writes the values of the rows, in their order, to each target. Every block that a row is in has
// the targets' columns, each as wide as it is there.
void GatherCells(absl::Span<const RowCells* const> blocks, absl::Span<const CellRow> rows,
                 absl::Span<const CellTarget> targets);

}  // namespace coxswain::data
