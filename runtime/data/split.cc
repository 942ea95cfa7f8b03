#include "runtime/data/split.h"

#include <algorithm>
#include <utility>

#include "runtime/data/hash.h"

namespace coxswain::data {
namespace {

constexpr uint64_t kFractionStream = 1;
constexpr uint64_t kHoldoutStream = 2;
constexpr int64_t kNoRow = -1;

// Which of the rows of a group is held out: the first in this order, by draws or by RowOrder::by.
class HoldoutOrder {
 public:
  HoldoutOrder(const proto::SplitSpec& split, uint64_t seed, const RowOrder& order)
      : key_(HoldoutKey(seed)), by_(split.holdout_last() ? order.by : absl::Span<const double>()) {}

  // Whether a row comes before another one with a smaller number.
  bool IsBefore(int64_t row, int64_t earlier) const {
    if (by_.empty()) return Draw(row) < Draw(earlier);
    return by_[static_cast<size_t>(row)] >= by_[static_cast<size_t>(earlier)];
  }

 private:
  uint64_t Draw(int64_t row) const { return HashPair(key_, static_cast<uint64_t>(row)); }

  uint64_t key_;
  absl::Span<const double> by_;
};

// The parts of rows [0, rows) that are held out because of their group; the others are training
// rows. Empty: none is.
std::vector<Part> HeldOutByGroup(const proto::SplitSpec& split, uint64_t seed, int64_t rows,
                                 const RowOrder& order) {
  if (split.holdout_per().empty()) return {};
  struct Group {
    int64_t first = kNoRow,
            second = kNoRow;  // of its rows, in the order in which they are held out
    int64_t rows = 0;
  };
  const HoldoutOrder before(split, seed, order);
  std::vector<Group> groups(static_cast<size_t>(order.groups));
  for (int64_t row = 0; row < rows; ++row) {
    Group& group = groups[static_cast<size_t>(order.group_of[static_cast<size_t>(row)])];
    ++group.rows;
    if (group.first == kNoRow || before.IsBefore(row, group.first)) {
      group.second = std::exchange(group.first, row);
    } else if (group.second == kNoRow || before.IsBefore(row, group.second)) {
      group.second = row;
    }
  }
  std::vector<Part> parts(static_cast<size_t>(rows), Part::kTraining);
  for (const Group& group : groups) {
    if (group.rows == 0 || group.rows < split.holdout_min()) continue;
    parts[static_cast<size_t>(group.first)] = Part::kTest;
    if (!split.holdout_validation() || group.rows <= split.holdout_min()) continue;
    parts[static_cast<size_t>(group.second)] = Part::kValidation;
  }
  return parts;
}

// The parts of rows [0, rows), none of which comes from test_paths.
std::vector<Part> PartsByOrder(const proto::SplitSpec& split, uint64_t seed, int64_t rows,
                               const RowOrder& order) {
  return SplitByValue(split, rows, order, HeldOutByGroup(split, seed, rows, order));
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
  const std::vector<Part> held_out = HeldOutByGroup(split, seed, own_rows, order);
  const std::vector<Part> held_out_before = HeldOutByGroup(split, seed, kept_rows, order);
  PartRows parts;
  const auto add = [&](Part part, int64_t row) {
    parts[static_cast<size_t>(part)].push_back(static_cast<uint32_t>(row));
  };
  const PartDraw draw(split, seed);
  for (int64_t row = 0; row < own_rows; ++row) {
    const std::vector<Part>& by_group = row < kept_rows ? held_out_before : held_out;
    const Part held = by_group.empty() ? Part::kTraining : by_group[static_cast<size_t>(row)];
    add(held == Part::kTraining ? draw(row) : held, row);
  }
  for (int64_t row = own_rows; row < rows; ++row) add(Part::kTest, row);
  return parts;
}

}  // namespace coxswain::data
