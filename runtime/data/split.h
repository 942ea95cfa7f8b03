// Which part each row belongs to.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "protos/dataset.pb.h"
#include "runtime/data/ticket.h"
#include "runtime/data/time_split.h"

namespace coxswain::data {

// The rows of each part, ascending; index: Part.
using PartRows = std::array<std::vector<uint32_t>, 3>;

// The part of a row of spec.paths, by its number: drawn from a hash of (seed, row) alone. A value.
class PartDraw {
 public:
  PartDraw(const proto::SplitSpec& split, uint64_t seed);
  Part operator()(int64_t row) const;

 private:
  uint64_t key_;
  double test_, not_training_;
};

// What draws the row of each group that holdout_per holds out: that with the smallest hash of this
// and of the row's number, of equal ones the first.
uint64_t HoldoutKey(uint64_t seed);

// Splits rows [0, rows); those from `own_rows` on are from test_paths. A row's part is drawn from a
// hash of (seed, row) alone, so that it stays when rows are appended. `group_of` has the group of
// each row when the spec has holdout_per: of a group, the row with the smallest hash is held out,
// with holdout_last the last one, and with holdout_validation the next in that order, too; the
// fractions are drawn from what is left. The first `kept_rows` were split alone before, and
// keep their parts: none of them is held out because a group has more rows now, or because later
// ones have come. With split.by (`order`.by) the rows' values decide and not draws: see
// time_split.h.
PartRows SplitRows(const proto::SplitSpec& split, uint64_t seed, int64_t own_rows, int64_t rows,
                   const RowOrder& order, int64_t kept_rows = 0);

}  // namespace coxswain::data
