#include "runtime/data/split.h"

#include <algorithm>
#include <utility>

#include "runtime/data/hash.h"

namespace coxswain::data {
namespace {

constexpr uint64_t kFractionStream = 1;
constexpr uint64_t kHoldoutStream = 2;
constexpr uint32_t kNoRow = 0xffffffffu;

// The row of each group that is held out, or kNoRow.
std::vector<uint32_t> HeldOutRows(uint64_t seed, int64_t rows, absl::Span<const int32_t> group_of,
                                  int64_t groups, int64_t min_rows) {
  struct Draw {
    uint64_t hash = 0;
    uint32_t row = kNoRow;
    int64_t count = 0;
  };
  const uint64_t key = HoldoutKey(seed);
  std::vector<Draw> draws(static_cast<size_t>(groups));
  for (int64_t row = 0; row < rows; ++row) {
    Draw& draw = draws[static_cast<size_t>(group_of[static_cast<size_t>(row)])];
    const uint64_t hash = HashPair(key, static_cast<uint64_t>(row));
    if (draw.count++ == 0 || hash < draw.hash) {
      draw.hash = hash;
      draw.row = static_cast<uint32_t>(row);
    }
  }
  std::vector<uint32_t> held_out;
  held_out.reserve(draws.size());
  for (const Draw& draw : draws) held_out.push_back(draw.count >= min_rows ? draw.row : kNoRow);
  return held_out;
}

// The parts of rows [0, rows), none of which comes from test_paths.
std::vector<Part> PartsByOrder(const proto::SplitSpec& split, uint64_t seed, int64_t rows,
                               const RowOrder& order) {
  std::vector<bool> held_out;
  if (!split.holdout_per().empty() && split.holdout_last()) {
    held_out = LastRows(rows, split.holdout_min(), order);
  } else if (!split.holdout_per().empty()) {
    held_out.resize(static_cast<size_t>(rows));
    for (const uint32_t row :
         HeldOutRows(seed, rows, order.group_of, order.groups, split.holdout_min())) {
      if (row != kNoRow) held_out[row] = true;
    }
  }
  return SplitByValue(split, rows, order, held_out);
}

PartRows SplitByOrder(const proto::SplitSpec& split, uint64_t seed, int64_t own_rows, int64_t rows,
                      const RowOrder& order, int64_t kept_rows) {
  std::vector<Part> of_row = PartsByOrder(split, seed, own_rows, order);
  const std::vector<Part> before = PartsByOrder(split, seed, kept_rows, order);
  std::copy(before.begin(), before.end(), of_row.begin());
  of_row.resize(static_cast<size_t>(rows), Part::kTest);
  PartRows parts;
  for (size_t row = 0; row < of_row.size(); ++row) {
    parts[static_cast<size_t>(of_row[row])].push_back(static_cast<uint32_t>(row));
  }
  return parts;
}

}  // namespace

uint64_t HoldoutKey(uint64_t seed) { return HashPair(seed, kHoldoutStream); }

PartDraw::PartDraw(const proto::SplitSpec& split, uint64_t seed)
    : key_(HashPair(seed, kFractionStream)),
      test_(split.test_fraction()),
      not_training_(split.test_fraction() + split.validation_fraction()) {}

Part PartDraw::operator()(int64_t row) const {
  const uint64_t hash = HashPair(key_, static_cast<uint64_t>(row));
  const double draw = static_cast<double>(hash >> 11) * 0x1p-53;
  return draw < test_ ? Part::kTest : draw < not_training_ ? Part::kValidation : Part::kTraining;
}

PartRows SplitRows(const proto::SplitSpec& split, uint64_t seed, int64_t own_rows, int64_t rows,
                   const RowOrder& order, int64_t kept_rows) {
  if (!split.by().empty()) return SplitByOrder(split, seed, own_rows, rows, order, kept_rows);
  const absl::Span<const int32_t> group_of = order.group_of;
  std::vector<uint32_t> held_out, held_out_before;
  if (!split.holdout_per().empty()) {
    held_out = HeldOutRows(seed, own_rows, group_of, order.groups, split.holdout_min());
    held_out_before = HeldOutRows(seed, kept_rows, group_of, order.groups, split.holdout_min());
  }
  PartRows parts;
  const auto add = [&](Part part, int64_t row) {
    parts[static_cast<size_t>(part)].push_back(static_cast<uint32_t>(row));
  };
  const PartDraw draw(split, seed);
  for (int64_t row = 0; row < own_rows; ++row) {
    const std::vector<uint32_t>& by_group = row < kept_rows ? held_out_before : held_out;
    if (!by_group.empty() &&
        by_group[static_cast<size_t>(group_of[static_cast<size_t>(row)])] == row) {
      add(Part::kTest, row);
      continue;
    }
    add(draw(row), row);
  }
  for (int64_t row = own_rows; row < rows; ++row) add(Part::kTest, row);
  return parts;
}

}  // namespace coxswain::data
