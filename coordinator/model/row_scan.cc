#include "coordinator/model/row_scan.h"

#include <algorithm>
#include <vector>

#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

// Moves the rows in use to the front, in their order; returns how many there are.
absl::StatusOr<int64_t> DropFree(const SavedRows& rows, int64_t begin, int64_t n, float* values,
                                 int64_t* ids) {
  if (!rows.has_free_rows()) return n;
  std::vector<char> live(static_cast<size_t>(n));
  RETURN_IF_ERROR(rows.ReadLive(begin, n, live.data()));
  const int64_t width = rows.row_elements();
  int64_t used = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!live[static_cast<size_t>(i)]) continue;
    if (used != i) std::copy_n(values + i * width, width, values + used * width);
    ids[used++] = ids[i];
  }
  return used;
}

}  // namespace

RowScan ScanSaved(const SavedRows* rows) {
  const auto run = [rows](const TakeRows& take) -> absl::Status {
    const int64_t block = std::max<int64_t>(1, std::min(rows->block_rows(), rows->rows()));
    std::vector<float> values(static_cast<size_t>(block * rows->row_elements()));
    std::vector<int64_t> ids(static_cast<size_t>(block));
    for (int64_t begin = 0; begin < rows->rows(); begin += block) {
      const int64_t n = std::min(block, rows->rows() - begin);
      RETURN_IF_ERROR(rows->ReadFloats(begin, n, values.data()));
      RETURN_IF_ERROR(rows->ReadIds(begin, n, ids.data()));
      ASSIGN_OR_RETURN(const int64_t used, DropFree(*rows, begin, n, values.data(), ids.data()));
      RETURN_IF_ERROR(take(values.data(), ids.data(), used));
    }
    return absl::OkStatus();
  };
  return {rows->row_elements(), run};
}

}  // namespace coxswain::model
