#include "runtime/data/column_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/data/names.h"
#include "runtime/data/number.h"

namespace coxswain::data {
namespace {

constexpr int64_t kMostDescribed = 4;

}  // namespace

bool ColumnValues::Number(int64_t entry, double* number) const {
  const CoxArrowValues& values = column_->values;
  switch (values.kind) {
    case COX_ARROW_INTEGER:
      *number = static_cast<double>(static_cast<const int64_t*>(values.numbers)[entry]);
      return true;
    case COX_ARROW_UNSIGNED:
      *number = static_cast<double>(static_cast<const uint64_t*>(values.numbers)[entry]);
      return true;
    case COX_ARROW_REAL:
      *number = static_cast<const double*>(values.numbers)[entry];
      return std::isfinite(*number);
    case COX_ARROW_BOOL:
      *number = static_cast<const uint8_t*>(values.numbers)[entry];
      return true;
    default:
      return ParseNumber(Text(entry, nullptr), number);
  }
}

absl::string_view ColumnValues::NumberText(int64_t entry, std::string* scratch) const {
  const CoxArrowValues& values = column_->values;
  if (values.kind == COX_ARROW_BOOL) {
    return static_cast<const uint8_t*>(values.numbers)[entry] != 0 ? "true" : "false";
  }
  constexpr size_t kMostDigits = 32;
  scratch->resize(kMostDigits);
  char* const begin = scratch->data();
  char* const end = begin + kMostDigits;
  std::to_chars_result written{};
  if (values.kind == COX_ARROW_INTEGER) {
    written = std::to_chars(begin, end, static_cast<const int64_t*>(values.numbers)[entry]);
  } else if (values.kind == COX_ARROW_UNSIGNED) {
    written = std::to_chars(begin, end, static_cast<const uint64_t*>(values.numbers)[entry]);
  } else {
    written = std::to_chars(begin, end, static_cast<const double*>(values.numbers)[entry]);
  }
  return {begin, static_cast<size_t>(written.ptr - begin)};
}

uint64_t ColumnValues::Bits(int64_t entry) const {
  const CoxArrowValues& values = column_->values;
  if (values.kind == COX_ARROW_BOOL) return static_cast<const uint8_t*>(values.numbers)[entry];
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(values.numbers) + entry * 8, sizeof(bits));
  return bits;
}

std::string ColumnValues::Describe(int64_t row) const {
  const Range values = Of(row);
  std::string scratch, text;
  const int64_t shown = std::min(values.end, values.begin + kMostDescribed);
  for (int64_t i = values.begin; i < shown; ++i) {
    const int64_t entry = Entry(i);
    absl::StrAppend(&text, i > values.begin ? ", " : "",
                    entry == kMissing ? "null"
                    : has_texts()     ? Quoted(Text(entry, &scratch))
                                      : std::string(Text(entry, &scratch)));
  }
  if (!has_lists()) return text;
  return absl::StrCat("[", text, shown < values.end ? ", ..." : "", "]");
}

}  // namespace coxswain::data
