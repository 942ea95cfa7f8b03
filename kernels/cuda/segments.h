// Rows in segments, one behind the other: segment s is the rows offsets[s] .. offsets[s + 1] - 1.
#pragma once

#include "kernels/cuda/op.h"

namespace coxswain::cuda {

// Rows from `first` to before `last`.
struct RowRange {
  int64_t segment, first, last;

  COX_DEVICE bool Has(int64_t row) const { return first <= row && row < last; }
};

// An input of offsets. Whatever they are, ranges lie within the rows.
struct Segments {
  const int32_t* offsets;
  int64_t count, rows;
  int32_t input;
  FaultSink faults;

  // Segment s; none of the rows, and a fault if `report`, where its offsets do not say which.
  COX_DEVICE RowRange Of(int64_t s, bool report) const {
    const int64_t first = offsets[s], last = offsets[s + 1];
    if (0 <= first && first <= last && last <= rows) return RowRange{s, first, last};
    if (report) {
      const bool begin = first < 0 || first > rows;
      faults.Index(input, begin ? s : s + 1, begin ? first : last, rows + 1);
    }
    return RowRange{s, 0, 0};
  }

  // The segment that has the row; a range without rows if there is none.
  COX_DEVICE RowRange Find(int64_t row) const {
    // Rising offsets are at most `row` up to `low`, and beyond it from `high` on.
    int64_t low = -1, high = count + 1;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      if (offsets[middle] <= row) {
        low = middle;
      } else {
        high = middle;
      }
    }
    if (low < 0 || low >= count) return RowRange{low, 0, 0};
    const RowRange found = Of(low, false);
    return found.Has(row) ? found : RowRange{low, 0, 0};
  }
};

inline Segments SegmentsOf(const Run& run, int input, int64_t rows) {
  const CoxTensor& offsets = run.input(input);
  return Segments{Data<int32_t>(offsets), offsets.dims[0] - 1, rows, input, run.faults()};
}

}  // namespace coxswain::cuda
