#include "runtime/data/bad_rows.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"

namespace coxswain::data {

absl::Status TooManyBadRows(const std::string& last, int64_t count, int64_t most) {
  return absl::InvalidArgumentError(absl::StrCat(
      last, "; ", count, " rows cannot be read: wanted at most ", most, " (dataset.max_bad_rows)"));
}

void LogBadRows(const BadRows& bad) {
  if (bad.count == 0) return;
  for (const std::string& wrong : bad.first) LogWarning("data set: a row is passed over: ", wrong);
  LogWarning("data set: ", bad.count, bad.count == 1 ? " row was" : " rows were",
             " passed over (dataset.max_bad_rows)");
}

}  // namespace coxswain::data
