// Parts by the value of a column, such as a time: the last rows are held out.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "protos/dataset.pb.h"
#include "runtime/data/ticket.h"

namespace coxswain::data {

// What a split by a column goes by, each with an entry for every row.
struct RowOrder {
  absl::Span<const double> by;
  absl::Span<const int32_t> group_of;  // with holdout_per, else empty
  int64_t groups = 0;
};

// The parts of rows [0, rows) of a spec with `by`. With holdout_last the last row of each group
// that has holdout_min rows is a test row. Of what is left, the last test_fraction are test rows,
// and the validation_fraction before them validation rows. Where values are equal, the row that
// comes later in the files is the later one. `held_out`: rows that are test rows already.
std::vector<Part> SplitByValue(const proto::SplitSpec& split, int64_t rows, const RowOrder& order,
                               const std::vector<bool>& held_out);

// Of each group the last row, where it has at least `min_rows` among [0, rows).
std::vector<bool> LastRows(int64_t rows, int64_t min_rows, const RowOrder& order);

}  // namespace coxswain::data
