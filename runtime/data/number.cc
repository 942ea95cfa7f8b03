#include "runtime/data/number.h"

#include <cmath>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"

namespace coxswain::data {
namespace {

constexpr double kPowersOfTen[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

// Up to 15 digits and a point: integer and power of ten are exact in f64, so that one division
// rounds correctly. This covers nearly every field.
bool ParseShort(absl::string_view digits, double* number) {
  if (digits.size() > 16) return false;
  int64_t mantissa = 0;
  int count = 0;
  int after_point = -1;
  for (char c : digits) {
    if (c >= '0' && c <= '9') {
      mantissa = mantissa * 10 + (c - '0');
      ++count;
      if (after_point >= 0) ++after_point;
    } else if (c == '.' && after_point < 0) {
      after_point = 0;
    } else {
      return false;
    }
  }
  if (count == 0 || count > 15) return false;
  *number = static_cast<double>(mantissa);
  if (after_point > 0) *number /= kPowersOfTen[after_point];
  return true;
}

// Removes the point from the digits of `chars`; returns the number of digits after it. -1: there is
// no point.
int TakePoint(uint64_t* chars) {
  constexpr uint64_t kEach = 0x0101010101010101u;
  const uint64_t others = *chars ^ uint64_t { '.' } * kEach;  // 0 where there is a point
  const uint64_t points = (others - kEach) & ~others & 0x80 * kEach;
  if (points == 0) return -1;
  const int bits = std::countr_zero(points) / 8 * 8;
  const uint64_t before = *chars & ((uint64_t{1} << bits) - 1);
  const uint64_t behind = *chars & ~uint64_t{0} << bits << 8;
  *chars = behind | before << 8 | '0';
  return 7 - bits / 8;
}

}  // namespace

bool ParseNumber(absl::string_view text, const char* limit, double* number) {
  absl::string_view digits = text;
  const bool negative = !text.empty() && text.front() == '-';
  if (negative) digits.remove_prefix(1);
  int64_t integer = 0;
  if (ParseDigits(digits, limit, &integer)) {
    *number = static_cast<double>(negative ? -integer : integer);
    if (negative && integer == 0) *number = -0.0;
    return true;
  }
  if (digits.size() < 2 || digits.size() > 8 || limit - digits.data() < 8) {
    return ParseNumber(text, number);
  }
  uint64_t chars = word::Load(digits.data(), digits.size());
  const int behind = TakePoint(&chars);
  if (behind < 0 || !word::AreDigits(chars)) return ParseNumber(text, number);
  double value = static_cast<double>(word::Value(chars));
  if (behind > 0) value /= kPowersOfTen[behind];
  *number = negative ? -value : value;
  return true;
}

bool ParseNumber(absl::string_view text, double* number) {
  if (!text.empty() && (absl::ascii_isspace(text.front()) || absl::ascii_isspace(text.back()))) {
    text = absl::StripAsciiWhitespace(text);
  }
  if (text.empty()) return false;
  const bool negative = text.front() == '-';
  if (negative || text.front() == '+') text.remove_prefix(1);
  if (text.empty() || text.front() == '-' || text.front() == '+') return false;
  double value = 0;
  if (!ParseShort(text, &value)) {
    if (text.size() > 1 && (text[1] == 'x' || text[1] == 'X')) return false;  // hexadecimal
    const char* end = text.data() + text.size();
    const absl::from_chars_result result = absl::from_chars(text.data(), end, value);
    if (result.ptr != end || result.ec == std::errc::invalid_argument) return false;
    // Too small becomes 0; too large is refused.
    if (result.ec == std::errc::result_out_of_range && std::fabs(value) > 1) return false;
    if (!std::isfinite(value)) return false;
  }
  *number = negative ? -value : value;
  return true;
}

bool ParseIndex(absl::string_view text, int64_t* index) {
  if (text.empty() || text.size() > 18) return false;
  int64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + (c - '0');
  }
  *index = value;
  return true;
}

}  // namespace coxswain::data
