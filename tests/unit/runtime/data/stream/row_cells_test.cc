#include "runtime/data/stream/row_cells.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <vector>

namespace coxswain::data {
namespace {

constexpr int64_t kWide = int64_t{1} << 40;

// A block of these columns: numbers, ids that are wide if the block says so, nothing, and ids.
struct Block {
  Block(int64_t rows, int64_t base, bool wide) {
    for (int64_t row = 0; row < rows; ++row) {
      numbers.push_back(static_cast<float>(base + row) + 0.5f);
      narrow.push_back(static_cast<int32_t>(-base - row));
      large.push_back(wide ? kWide + base + row : base + row);
      small.push_back(static_cast<int32_t>(base + row));
    }
    CellColumn second;
    if (wide) second.wide = large.data();
    if (!wide) second.narrow = small.data();
    const std::vector<CellColumn> columns = {
        {.numbers = numbers.data()}, second, {}, {.narrow = narrow.data()}};
    cells = RowCells(columns, rows);
  }
  std::vector<float> numbers;
  std::vector<int32_t> narrow, small;
  std::vector<int64_t> large;
  RowCells cells;
};

// What a gather of these rows should give, and gives.
void CheckGather(const std::vector<const Block*>& blocks, const std::vector<CellRow>& rows) {
  std::vector<float> numbers(rows.size());
  std::vector<int64_t> second(rows.size()), third(rows.size());
  const std::vector<CellTarget> targets = {{.column = 3, .ids = third.data()},
                                           {.column = 0, .numbers = numbers.data()},
                                           {.column = 1, .ids = second.data()}};
  std::vector<const RowCells*> cells;
  for (const Block* block : blocks) cells.push_back(&block->cells);
  GatherCells(cells, rows, targets);
  for (size_t i = 0; i < rows.size(); ++i) {
    const Block& block = *blocks[rows[i].block];
    CAPTURE(i, rows[i].block, rows[i].row);
    REQUIRE(numbers[i] == block.numbers[rows[i].row]);
    REQUIRE(second[i] == block.large[rows[i].row]);
    REQUIRE(third[i] == block.narrow[rows[i].row]);
  }
}

TEST_CASE("row cells: rows of several blocks are gathered in any order and number") {
  const Block a(100, 0, false), b(37, 1000, false);
  for (const size_t count : {0u, 1u, 31u, 32u, 33u, 64u, 137u}) {
    std::vector<CellRow> rows;
    for (size_t i = 0; i < count; ++i) {
      const auto at = static_cast<uint32_t>((i * 61) % 137);
      rows.push_back(at < 100 ? CellRow{0, at} : CellRow{1, at - 100});
    }
    CheckGather({&a, &b}, rows);
  }
}

TEST_CASE("row cells: ids are wide in some of the blocks only") {
  const Block a(40, 0, false), b(40, 1000, true), c(40, 2000, false);
  std::vector<CellRow> rows;
  for (uint32_t i = 0; i < 120; ++i) rows.push_back({i % 3, i / 3});
  CheckGather({&a, &b, &c}, rows);
  CheckGather({&b}, {{0, 39}, {0, 0}});
  CHECK(a.cells.bytes() == 40 * 3 * 4);
  CHECK(b.cells.bytes() == 40 * 4 * 4);
}

TEST_CASE("row cells: a column without values is not there") {
  const Block a(3, 0, false);
  CHECK(a.cells.Has(0));
  CHECK_FALSE(a.cells.Has(2));
  CHECK(a.cells.Has(3));
  CHECK_FALSE(a.cells.Has(4));
  CHECK(RowCells().empty());
  const RowCells none(std::vector<CellColumn>(2), 5);
  CHECK(none.empty());
  CHECK_FALSE(none.Has(0));
}

}  // namespace
}  // namespace coxswain::data
