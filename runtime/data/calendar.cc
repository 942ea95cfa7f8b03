#include "runtime/data/calendar.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "runtime/data/dates.h"
#include "runtime/data/names.h"
#include "runtime/data/number.h"

namespace coxswain::data {
namespace {

using proto::FeatureSpec;

constexpr const char* kDays[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                 "Friday", "Saturday", "Sunday"};
constexpr int kHours = 24;

int HourOf(const absl::CivilSecond& time) { return time.hour(); }
int WeekdayOf(const absl::CivilSecond& time) { return static_cast<int>(absl::GetWeekday(time)); }

std::string Number(int number) { return absl::StrCat(number); }

// A part of a time: values 0 to `count` - 1, each with its text.
struct Part {
  const char* name;
  int count;
  int (*of)(const absl::CivilSecond& time);
  std::string (*text)(int value);
};

constexpr Part kParts[] = {
    {"hour", kHours, HourOf, Number},
    {"weekday", 7, WeekdayOf, [](int day) { return std::string(kDays[day]); }},
    {"hour_of_week", 7 * kHours,
     [](const absl::CivilSecond& time) { return WeekdayOf(time) * kHours + HourOf(time); },
     [](int hour) { return absl::StrCat(kDays[hour / kHours], " ", hour % kHours); }},
    {"day", 31, [](const absl::CivilSecond& time) { return time.day() - 1; },
     [](int day) { return Number(day + 1); }},
    {"month", 12, [](const absl::CivilSecond& time) { return time.month() - 1; },
     [](int month) { return Number(month + 1); }},
};

const Part* FindPart(const std::string& name) {
  for (const Part& part : kParts) {
    if (part.name == name) return &part;
  }
  return nullptr;
}

struct Unit {
  const char* name;
  double per_second;
};

constexpr Unit kUnits[] = {
    {"seconds", 1}, {"milliseconds", 1e3}, {"microseconds", 1e6}, {"nanoseconds", 1e9}};

// Null when there is none of this name.
const Unit* UnitOf(const FeatureSpec& feature) {
  for (const Unit& unit : kUnits) {
    if (feature.time_unit().empty() || unit.name == feature.time_unit()) return &unit;
  }
  return nullptr;
}

bool FindZone(const std::string& name, absl::TimeZone* zone) {
  *zone = absl::UTCTimeZone();
  return name.empty() || absl::LoadTimeZone(name, zone);
}

template <typename... Args>
absl::Status Invalid(const FeatureSpec& feature, const Args&... args) {
  return absl::InvalidArgumentError(
      absl::StrCat("data set: feature ", Quoted(feature.name()), ": ", args...));
}

class CalendarSink : public FieldSink {
 public:
  CalendarSink(const FeatureSpec& feature, std::unique_ptr<FieldSink> sink)
      : part_(*FindPart(feature.calendar())),
        unit_(*UnitOf(feature)),
        format_(feature.time_format()),
        values_(CalendarValuesOf(feature)),
        sink_(std::move(sink)) {
    FindZone(feature.time_zone(), &zone_);  // CheckCalendar has found it
  }

  bool Append(absl::string_view text) override {
    text = absl::StripAsciiWhitespace(text);
    time_ = true;
    if (text.empty()) return sink_->Append(values_.back());
    absl::Time time;
    // Further away there are no dates, but times in another unit.
    time_ = Parse(text, &time) && time >= kFirst && time < kEnd;
    if (!time_) return false;
    const int value = part_.of(absl::ToCivilSecond(time, zone_));
    return sink_->Append(values_[static_cast<size_t>(value)]);
  }
  std::string Wanted() const override {
    if (time_) return sink_->Wanted();
    if (!format_.empty()) {
      return absl::StrCat("a time as ", Quoted(format_), " has it, of the years 1 to 9999");
    }
    return absl::StrCat("a date, or ", unit_.name,
                        " since 1970, of the years 1 to 9999 (see time_unit and time_format)");
  }

 private:
  static constexpr absl::Time kFirst = absl::FromUnixSeconds(-62135596800);
  static constexpr absl::Time kEnd = absl::FromUnixSeconds(253402300800);

  bool Parse(absl::string_view text, absl::Time* time) const {
    if (!format_.empty()) {
      return absl::ParseTime(format_, text, absl::UTCTimeZone(), time, nullptr);
    }
    double seconds = 0;
    if (ParseNumber(text, &seconds)) {
      seconds /= unit_.per_second;
    } else if (!ParseDate(text, &seconds)) {
      return false;
    }
    constexpr double kMost = 1e12;  // an int64_t holds it
    if (!(std::abs(seconds) < kMost)) return false;
    *time = absl::FromUnixSeconds(static_cast<int64_t>(std::floor(seconds)));
    return true;
  }

  const Part& part_;
  const Unit& unit_;
  const std::string format_;
  const std::vector<std::string> values_;
  absl::TimeZone zone_;
  std::unique_ptr<FieldSink> sink_;
  bool time_ = true;  // the last field was one, or empty
};

}  // namespace

bool IsCalendar(const FeatureSpec& feature) { return !feature.calendar().empty(); }

bool IsTimeZone(const std::string& name) {
  absl::TimeZone zone;
  return FindZone(name, &zone);
}

std::vector<std::string> CalendarValuesOf(const FeatureSpec& feature) {
  std::vector<std::string> values;
  if (const Part* const part = FindPart(feature.calendar())) {
    for (int value = 0; value < part->count; ++value) values.push_back(part->text(value));
  }
  values.push_back("");
  return values;
}

absl::Status CheckCalendar(const FeatureSpec& feature) {
  if (FindPart(feature.calendar()) == nullptr) {
    return Invalid(
        feature, "wanted a part of a time (",
        absl::StrJoin(kParts, ", ", [](std::string* out, const Part& part) { *out += part.name; }),
        "), found ", Quoted(feature.calendar()));
  }
  if (UnitOf(feature) == nullptr) {
    return Invalid(
        feature, "wanted the unit of a time (",
        absl::StrJoin(kUnits, ", ", [](std::string* out, const Unit& unit) { *out += unit.name; }),
        "), found ", Quoted(feature.time_unit()));
  }
  if (!feature.time_unit().empty() && !feature.time_format().empty()) {
    return Invalid(feature, "wanted time_unit, for numbers, or time_format, for texts; found both");
  }
  if (!IsTimeZone(feature.time_zone())) {
    return Invalid(feature, "this machine does not know the time zone ",
                   Quoted(feature.time_zone()),
                   " (wanted a name such as \"Europe/Berlin\", and the package tzdata)");
  }
  return absl::OkStatus();
}

std::unique_ptr<FieldSink> NewCalendarSink(const FeatureSpec& feature,
                                           std::unique_ptr<FieldSink> sink) {
  return std::make_unique<CalendarSink>(feature, std::move(sink));
}

}  // namespace coxswain::data
