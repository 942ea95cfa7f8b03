// Dates that are read quickly are what ParseTime makes of them.
#include "runtime/data/dates.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "runtime/data/hash.h"

namespace coxswain::data {
namespace {

std::optional<double> Parsed(const std::string& text) {
  double seconds = 0;
  if (!ParseDate(text, &seconds)) return std::nullopt;
  return seconds;
}

std::optional<double> Wanted(const std::string& text, const char* format) {
  absl::Time time;
  if (!absl::ParseTime(format, text, absl::UTCTimeZone(), &time, nullptr)) return std::nullopt;
  return static_cast<double>(absl::ToUnixSeconds(time));
}

TEST_CASE("dates: the usual ways to write them, right or wrong, are as ParseTime reads them") {
  int good = 0;
  for (uint64_t i = 0; i < 20000; ++i) {
    const auto draw = [i](uint64_t salt, uint64_t below) { return HashPair(i, salt) % below; };
    const std::string day = absl::StrFormat("%04d-%02d-%02d", draw(1, 4) * 700 + draw(2, 400),
                                            draw(3, 14), draw(4, 33));
    const std::string time =
        absl::StrFormat("%02d:%02d:%02d", draw(5, 25), draw(6, 61), draw(7, 61));
    INFO(day << " " << time);
    CHECK(Parsed(day) == Wanted(day, "%Y-%m-%d"));
    const std::string spaced = absl::StrCat(day, " ", time), iso = absl::StrCat(day, "T", time);
    CHECK(Parsed(spaced) == Wanted(spaced, "%Y-%m-%d %H:%M:%S"));
    CHECK(Parsed(iso) == Wanted(iso, "%Y-%m-%dT%H:%M:%S"));
    CHECK(Parsed(iso + "Z") == Wanted(iso + "Z", "%Y-%m-%dT%H:%M:%S%Ez"));
    good += Parsed(iso) ? 1 : 0;
  }
  CHECK(good > 10000);
}

TEST_CASE("dates: zones, fractions and what is no date") {
  CHECK(Parsed("1970-01-01") == 0);
  CHECK(Parsed("1970-01-02T00:00:00.5Z") == 86400.5);
  CHECK(Parsed("1970-01-01T02:00:00+02:00") == 0);
  CHECK(Parsed("1969-12-31 23:59:59") == -1);
  CHECK(Parsed("2024-02-29") == 1709164800);
  for (const char* wrong : {"", "2023-02-29", "2024-13-01", "2024-05-31T", "2024-05-31x12:30:00",
                            "2024-05-31 12.30.00", "+024-05-31", "2024-05-3a", "2024-05-31Z9",
                            "infinite-future", "31/05/2024", "2024-05-31 1a:30:00"}) {
    INFO(wrong);
    CHECK_FALSE(Parsed(wrong));
  }
}

}  // namespace
}  // namespace coxswain::data
