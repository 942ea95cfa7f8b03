#include "runtime/data/table_rows.h"

#include <limits>

#include "absl/strings/str_cat.h"

namespace coxswain::data {
namespace {

constexpr int64_t kMaxRows = std::numeric_limits<uint32_t>::max() - 1;

}  // namespace

absl::Status TableRows::EndRow(const std::string& path, int64_t line) {
  table_->places.AddRow(line);
  chain_.EndRow();
  if (++table_->rows <= kMaxRows) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(path, ": wanted at most ", kMaxRows, " rows in a data set, found more"));
}

}  // namespace coxswain::data
