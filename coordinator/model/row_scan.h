// A table's rows one block after the other, wherever they are, for tables larger than memory.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "coordinator/model/saved_reader.h"

namespace coxswain::model {

// `n` rows, f32 one after the other, and their ids. What it returns ends the scan unless it is OK.
using TakeRows = std::function<absl::Status(const float* rows, const int64_t* ids, int64_t n)>;

// A table that can be gone through, as often as one likes; every row comes once.
struct RowScan {
  int64_t dim = 0;
  std::function<absl::Status(const TakeRows& take)> run;
};

// Saved rows, which must outlive the scan. Errors: those of reading.
RowScan ScanSaved(const SavedRows* rows);

}  // namespace coxswain::model
