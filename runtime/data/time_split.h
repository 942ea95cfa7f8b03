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

// Whether parts begin at values that the spec names, and not where shares of the rows do.
bool SplitsAtValues(const proto::SplitSpec& split);

// The parts of rows [0, rows) of a spec with `by`. Where it splits at values: rows from test_from
// on are test rows, those from validation_from on validation rows. Else by shares: of the rows that
// are not held out already, which `held_out` says where it is not empty (Part::kTraining: it is
// not), the last test_fraction are test rows, and the validation_fraction before them validation
// rows. Where values are equal, the row that comes later in the files is the later one.
std::vector<Part> SplitByValue(const proto::SplitSpec& split, int64_t rows, const RowOrder& order,
                               std::vector<Part> held_out);

}  // namespace coxswain::data
