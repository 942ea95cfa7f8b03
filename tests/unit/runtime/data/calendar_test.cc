// Parts of times as features.
#include "runtime/data/calendar.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using proto::FeatureSpec;
using Strings = std::vector<std::string>;

FeatureSpec* AddPart(proto::DatasetSpec* spec, const std::string& name, const std::string& part) {
  FeatureSpec* const feature = AddNumeric(spec, name);
  feature->set_column("time");
  feature->set_calendar(part);
  return feature;
}

// The values that the rows of a column `time` get.
Strings PartsOf(const Strings& times, const FeatureSpec& how) {
  DataFiles files;
  std::string text = "time,y\n";
  for (const std::string& time : times) absl::StrAppend(&text, "\"", time, "\",0\n");
  auto spec = CsvSpec(files.Write("a.csv", text));
  spec.mutable_csv()->set_quoting(true);
  *spec.add_features() = how;
  const auto data = MustLoad(spec);
  Strings parts;
  for (const int64_t id : Values<int64_t>(*data, AllOf(*data, Part::kTraining), how.name())) {
    parts.push_back((*data->vocabulary(how.name()))[static_cast<size_t>(id)]);
  }
  return parts;
}

FeatureSpec Part(const std::string& part) {
  proto::DatasetSpec spec;
  return *AddPart(&spec, "part", part);
}

TEST_CASE("calendar: numbers and dates have an hour, a day and a month, by the calendar") {
  // date -u -d @1717158600: Fri May 31 12:30:00 UTC 2024
  const Strings times = {
      "1717158600", "2024-05-31 12:30:00", "2024-05-31T14:30:00+02:00", "",          "2024-06-03",
      "-1",         "1717158600.9",        "9999-12-31 23:59:59",       "0001-01-01"};
  CHECK(PartsOf(times, Part("hour")) == Strings{"12", "12", "12", "", "0", "23", "12", "23", "0"});
  CHECK(PartsOf(times, Part("weekday")) == Strings{"Friday", "Friday", "Friday", "", "Monday",
                                                   "Wednesday", "Friday", "Friday", "Monday"});
  CHECK(PartsOf(times, Part("hour_of_week")) == Strings{"Friday 12", "Friday 12", "Friday 12", "",
                                                        "Monday 0", "Wednesday 23", "Friday 12",
                                                        "Friday 23", "Monday 0"});
  CHECK(PartsOf(times, Part("day")) == Strings{"31", "31", "31", "", "3", "31", "31", "31", "1"});
  CHECK(PartsOf(times, Part("month")) == Strings{"5", "5", "5", "", "6", "12", "5", "12", "1"});
}

TEST_CASE("calendar: the vocabulary is all that a part can be, and a missing time") {
  for (const auto& [part, count, first, last] :
       std::vector<std::tuple<std::string, size_t, std::string, std::string>>{
           {"hour", 25, "0", "23"},
           {"weekday", 8, "Monday", "Sunday"},
           {"hour_of_week", 169, "Monday 0", "Sunday 23"},
           {"day", 32, "1", "31"},
           {"month", 13, "1", "12"}}) {
    const Strings values = CalendarValuesOf(Part(part));
    INFO(part);
    REQUIRE(values.size() == count);
    CHECK(values[0] == first);
    CHECK(values[count - 2] == last);
    CHECK(values.back().empty());
  }
}

TEST_CASE("calendar: times in smaller units, and texts in a format of their own") {
  for (const auto& [unit, zeros] :
       std::vector<std::pair<std::string, std::string>>{{"seconds", ""},
                                                        {"milliseconds", "000"},
                                                        {"microseconds", "000000"},
                                                        {"nanoseconds", "000000000"}}) {
    FeatureSpec part = Part("hour");
    part.set_time_unit(unit);
    INFO(unit);
    // A date needs no unit.
    CHECK(PartsOf({"1717158600" + zeros, "2024-05-31 12:30:00", "-3600" + zeros}, part) ==
          Strings{"12", "12", "23"});
  }
  FeatureSpec part = Part("hour_of_week");
  part.set_time_format("%y%m%d%H");
  CHECK(PartsOf({"14102100", "14103023", " "}, part) == Strings{"Tuesday 0", "Thursday 23", ""});
  part.set_time_format("%d/%b/%Y:%H:%M:%S %z");
  CHECK(PartsOf({"10/Oct/2000:13:55:36 -0700"}, part) == Strings{"Tuesday 20"});
}

TEST_CASE("calendar: a time zone has its own days, and summer time") {
  FeatureSpec part = Part("hour_of_week");
  part.set_time_zone("Europe/Berlin");
  if (!IsTimeZone("Europe/Berlin")) {
    WARN("skipped: this machine has no time zones (package tzdata)");
    return;
  }
  CHECK(PartsOf({"2024-01-14 23:30:00", "2024-07-14 22:30:00", "2024-03-31 00:59:59",
                 "2024-03-31 01:00:00", "2024-07-15T00:30:00+02:00"},
                part) == Strings{"Monday 0", "Monday 0", "Sunday 1", "Sunday 3", "Monday 0"});
}

TEST_CASE("calendar: what is no time is an error with its place, and a hint at the unit") {
  DataFiles files;
  const auto error = [&](const std::string& time, const FeatureSpec& part) {
    auto spec = CsvSpec(files.Write("a.csv", "time,y\n0,0\n" + time + ",0\n"));
    *spec.add_features() = part;
    return LoadError(spec);
  };
  for (const char* wrong : {"noon", "1717158600000", "1e300", "nan", "true", "2024-02-30",
                            "infinite-past", "10000-01-01", "253402300800", "-62135596801"}) {
    INFO(wrong);
    CHECK_THAT(error(wrong, Part("hour")),
               EndsWith(absl::StrCat("a.csv:3:1: field 1 (\"time\"): wanted a date, or seconds "
                                     "since 1970, of the years 1 to 9999 (see time_unit and "
                                     "time_format), found \"",
                                     wrong, "\"")));
  }
  FeatureSpec part = Part("hour");
  part.set_time_format("%H");
  CHECK_THAT(error("24", part),
             Contains("a.csv:3:1") && Contains("wanted a time as \"%H\" has it"));
}

TEST_CASE("calendar: keys that do not fit are refused") {
  DataFiles files;
  const auto error = [&](auto change) {
    auto spec = CsvSpec(files.Write("a.csv", "time,y\n0,0\n"));
    change(AddPart(&spec, "t", "hour"));
    return LoadError(spec);
  };
  CHECK_THAT(error([](FeatureSpec* f) { f->set_calendar("century"); }),
             Contains("wanted a part of a time (hour, weekday, hour_of_week, day, month), found "
                      "\"century\""));
  CHECK_THAT(error([](FeatureSpec* f) { f->set_time_unit("minutes"); }),
             Contains("milliseconds, microseconds, nanoseconds), found \"minutes\""));
  CHECK_THAT(error([](FeatureSpec* f) { f->set_time_zone("Middle/Earth"); }),
             Contains("does not know the time zone \"Middle/Earth\""));
  CHECK_THAT(error([](FeatureSpec* f) {
               f->set_time_unit("seconds");
               f->set_time_format("%H");
             }),
             Contains("found both"));
  CHECK_THAT(error([](FeatureSpec* f) { f->add_boundaries(1); }), Contains("found both"));
  CHECK_THAT(error([](FeatureSpec* f) { f->set_hash_buckets(3); }),
             Contains("its values are the parts of a time: it takes no id"));
}

TEST_CASE("calendar: streamed parts are those in memory, crossed and joined ones too") {
  DataFiles files;
  std::string text = "a,time,k\n", side = "k,made\n";
  for (int i = 0; i < 90; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    absl::StrAppend(&text, "a", h % 4, ",", i % 7 == 0 ? "" : absl::StrCat(h % 1700000000), ",",
                    h % 6, "\n");
  }
  for (int i = 0; i < 5; ++i) absl::StrAppend(&side, i, ",2024-0", i + 1, "-01\n");
  auto spec = CsvSpec(files.Write("a.csv", text));
  proto::JoinSpec* join = spec.add_joins();
  join->set_path(files.Write("side.csv", side));
  join->set_left_on("k");
  join->mutable_csv()->set_header(true);
  AddCategorical(&spec, "a")->set_oov_buckets(1);
  AddPart(&spec, "hour", "hour");
  AddPart(&spec, "made", "month")->set_column("made");
  FeatureSpec* const crossed = AddNumeric(&spec, "axh");
  for (const char* member : {"a", "hour"}) crossed->add_crossed(member);
  crossed->set_oov_buckets(1);
  spec.mutable_split()->set_validation_fraction(0.2);
  spec.mutable_split()->set_test_fraction(0.1);
  CheckSameWhenStreamed(files, spec);
}

}  // namespace
}  // namespace coxswain::data
