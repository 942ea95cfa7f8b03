#include "runtime/data/dates.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"

namespace coxswain::data {
namespace {

// The number of `size` digits from `at` on; below 0 where there is something else.
int Digits(absl::string_view text, size_t at, size_t size) {
  int number = 0;
  for (const char c : text.substr(at, size)) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return -1;
    number = 10 * number + (c - '0');
  }
  return number;
}

// "2024-05-31", "2024-05-31 12:30", "2024-05-31 12:30:00", "2024-05-31T12:30:00Z": nearly all that
// there are. Others, right or wrong, are left to ParseTime, which takes ten times as long.
bool ParsePlain(absl::string_view text, double* seconds) {
  constexpr size_t kDay = 10, kMinute = 16, kTime = 19;
  if (text.size() > kMinute && text.back() == 'Z') text.remove_suffix(1);
  if (text.size() != kDay && text.size() != kMinute && text.size() != kTime) return false;
  if (text[4] != '-' || text[7] != '-') return false;
  const int year = Digits(text, 0, 4), month = Digits(text, 5, 2), day = Digits(text, 8, 2);
  int hour = 0, minute = 0, second = 0;
  if (text.size() > kDay) {
    if ((text[10] != ' ' && text[10] != 'T') || text[13] != ':') return false;
    hour = Digits(text, 11, 2);
    minute = Digits(text, 14, 2);
  }
  if (text.size() == kTime) {
    if (text[16] != ':') return false;
    second = Digits(text, 17, 2);
  }
  if (year < 1 || month < 1 || day < 1 || hour < 0 || minute < 0 || second < 0) return false;
  const absl::CivilSecond time(year, month, day, hour, minute, second);
  // Of a month 13 or an hour 24 it makes another one.
  const bool same = time.month() == month && time.day() == day && time.hour() == hour &&
                    time.minute() == minute && time.second() == second;
  if (same) *seconds = static_cast<double>(time - absl::CivilSecond(1970));
  return same;
}

}  // namespace

bool ParseDate(absl::string_view text, double* seconds) {
  if (ParsePlain(text, seconds)) return true;
  absl::Time time;
  for (const char* format :
       {"%Y-%m-%d", "%Y-%m-%d%ET%H:%M:%E*S", "%Y-%m-%d %H:%M:%E*S", "%Y-%m-%d%ET%H:%M:%E*S%Ez",
        "%Y-%m-%d %H:%M:%E*S%Ez", "%Y-%m-%d%ET%H:%M%Ez", "%Y-%m-%d %H:%M%Ez"}) {
    if (!absl::ParseTime(format, text, absl::UTCTimeZone(), &time, nullptr)) continue;
    if (time == absl::InfiniteFuture() || time == absl::InfinitePast()) return false;
    // In one number ToDoubleSeconds would lose some of the last digits.
    const int64_t whole = absl::ToUnixSeconds(time);
    *seconds =
        static_cast<double>(whole) + absl::ToDoubleSeconds(time - absl::FromUnixSeconds(whole));
    return true;
  }
  return false;
}

}  // namespace coxswain::data
