// Parts and histories that go by a column's values: the last rows are held out, and nothing looks
// into the future.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "runtime/data/time_split.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Ids = std::vector<int64_t>;
using Offsets = std::vector<int32_t>;
using Floats = std::vector<float>;

// Rows with their number and a time, those in no order.
proto::DatasetSpec TimedSpec(const std::string& path) {
  auto spec = CsvSpec(path);
  AddNumeric(&spec, "n");
  spec.mutable_split()->set_by("t");
  return spec;
}

Floats Rows(const Dataset& data, Part part) { return Values<float>(data, AllOf(data, part), "n"); }

TEST_CASE("time split: test is the last rows, validation those before, wherever they stand") {
  DataFiles files;
  auto spec = TimedSpec(files.Write("a.csv",
                                    "n,t\n0,50\n1,10\n2,90\n3,20\n4,70\n5,30\n6,80\n7,40\n"
                                    "8,60\n9,100\n"));
  spec.mutable_split()->set_test_fraction(0.2);
  spec.mutable_split()->set_validation_fraction(0.3);
  const auto data = MustLoad(spec);
  CHECK(Rows(*data, Part::kTest) == Floats{2, 9});
  CHECK(Rows(*data, Part::kValidation) == Floats{4, 6, 8});
  CHECK(Rows(*data, Part::kTraining) == Floats{0, 1, 3, 5, 7});
  // The seed has no say.
  spec.set_seed(99);
  CHECK(Rows(*MustLoad(spec), Part::kTest) == Floats{2, 9});
}

TEST_CASE("time split: parts begin at the values that the spec names, whatever the rows are") {
  DataFiles files;
  auto spec = TimedSpec(files.Write("a.csv",
                                    "n,t\n0,2024-06-01 12:00:00\n1,2024-06-03\n2,2024-05-01\n"
                                    "3,2024-06-02 23:59:59\n4,2024-06-02\n5,2024-06-07\n"));
  spec.mutable_split()->set_test_from(1717372800);        // 2024-06-03
  spec.mutable_split()->set_validation_from(1717286400);  // 2024-06-02
  const auto data = MustLoad(spec);
  CHECK(Rows(*data, Part::kTraining) == Floats{0, 2});
  CHECK(Rows(*data, Part::kValidation) == Floats{3, 4});
  CHECK(Rows(*data, Part::kTest) == Floats{1, 5});
  spec.mutable_split()->clear_validation_from();
  CHECK(Rows(*MustLoad(spec), Part::kTraining) == Floats{0, 2, 3, 4});
  spec.mutable_split()->clear_test_from();
  spec.mutable_split()->set_validation_from(1717286400);
  CHECK(Rows(*MustLoad(spec), Part::kValidation) == Floats{1, 3, 4, 5});
  CHECK(Rows(*MustLoad(spec), Part::kTest).empty());
}

TEST_CASE("time split: what does not go with parts from values on is refused") {
  DataFiles files;
  const auto error = [&](auto change) {
    auto spec = TimedSpec(files.Write("a.csv", "n,t\n0,1\n1,2\n"));
    spec.mutable_split()->set_test_from(2);
    change(spec.mutable_split());
    return LoadError(spec);
  };
  CHECK_THAT(error([](auto* split) { split->clear_by(); }), Contains("need by"));
  CHECK_THAT(error([](auto* split) { split->set_test_fraction(0.1); }), Contains("found both"));
  CHECK_THAT(error([](auto* split) { split->set_validation_fraction(0.1); }),
             Contains("found both"));
  CHECK_THAT(error([](auto* split) { split->set_holdout_per("n"); }), Contains("found both"));
  CHECK_THAT(error([](auto* split) { split->add_test_paths("b.csv"); }), Contains("found both"));
  CHECK_THAT(error([](auto* split) { split->set_validation_from(2); }),
             Contains("below test_from, found 2 and 2"));
  CHECK_THAT(error([](auto* split) { split->set_test_from(std::nan("")); }),
             Contains("wanted a finite value"));
}

TEST_CASE("time split: of equal values the row that comes later in the files is the later one") {
  DataFiles files;
  auto spec = TimedSpec(files.Write("a.csv", "n,t\n0,5\n1,5\n2,1\n3,5\n4,5\n"));
  spec.mutable_split()->set_test_fraction(0.4);
  spec.mutable_split()->set_validation_fraction(0.2);
  const auto data = MustLoad(spec);
  CHECK(Rows(*data, Part::kTest) == Floats{3, 4});
  CHECK(Rows(*data, Part::kValidation) == Floats{1});
}

TEST_CASE("time split: dates are as good as numbers, and what is neither is told by its place") {
  DataFiles files;
  auto spec = TimedSpec(files.Write("a.csv",
                                    "n,t\n0,2024-05-31\n1,2024-05-31T12:30:00Z\n"
                                    "2,2023-12-01 08:00:00\n3,2024-05-31T23:00:00.25+12:00\n"));
  spec.mutable_split()->set_test_fraction(0.25);
  spec.mutable_split()->set_validation_fraction(0.25);
  const auto data = MustLoad(spec);
  CHECK(Rows(*data, Part::kTest) == Floats{1});
  CHECK(Rows(*data, Part::kValidation) == Floats{3});  // 11:00 in UTC
  for (const char* bad : {"", "31/05/2024", "2024-13-01", "infinite-future", "nan"}) {
    spec.set_paths(0, files.Write("b.csv", absl::StrCat("n,t\n0,1\n1,", bad, "\n")));
    CHECK_THAT(LoadError(spec),
               EndsWith(absl::StrCat("b.csv:3:3: field 2 (\"t\"): wanted a number, or a date as in "
                                     "2024-05-31 or 2024-05-31T12:30:00Z, found \"",
                                     bad, "\"")));
  }
}

TEST_CASE("time split: the last row of each group is held out, where the group has enough") {
  DataFiles files;
  auto spec = TimedSpec(files.Write(
      "a.csv", "n,t,u\n0,9,a\n1,7,b\n2,1,a\n3,8,b\n4,3,c\n5,8,b\n6,4,d\n7,2,d\n8,6,a\n"));
  spec.mutable_split()->set_holdout_per("u");
  spec.mutable_split()->set_holdout_last(true);
  CHECK(Rows(*MustLoad(spec), Part::kTest) == Floats{0, 5, 6});
  spec.mutable_split()->set_holdout_min(3);
  // Of what is left, the last third by time.
  spec.mutable_split()->set_validation_fraction(0.3);
  const auto data = MustLoad(spec);
  CHECK(Rows(*data, Part::kTest) == Floats{0, 5});
  CHECK(Rows(*data, Part::kValidation) == Floats{1, 3});
  CHECK(Rows(*data, Part::kTraining) == Floats{2, 4, 6, 7, 8});
}

TEST_CASE(
    "time split: the row before the last of each group is for validation, if that is wanted") {
  DataFiles files;
  auto spec = TimedSpec(files.Write(
      "a.csv", "n,t,u\n0,9,a\n1,7,b\n2,1,a\n3,8,b\n4,3,c\n5,8,b\n6,4,d\n7,2,d\n8,6,a\n"));
  spec.mutable_split()->set_holdout_per("u");
  spec.mutable_split()->set_holdout_last(true);
  spec.mutable_split()->set_holdout_validation(true);
  const auto data = MustLoad(spec);
  CHECK(Rows(*data, Part::kTest) == Floats{0, 5, 6});
  CHECK(Rows(*data, Part::kValidation) == Floats{3, 8});  // d has no third row
  CHECK(Rows(*data, Part::kTraining) == Floats{1, 2, 4, 7});
  spec.mutable_split()->set_holdout_min(3);
  const auto fewer = MustLoad(spec);
  CHECK(Rows(*fewer, Part::kTest) == Floats{0, 5});
  CHECK(Rows(*fewer, Part::kValidation).empty());
  // The same where rows are drawn: another one of each group, and the same one for testing.
  spec.mutable_split()->clear_by();
  spec.mutable_split()->clear_holdout_last();
  spec.mutable_split()->set_holdout_min(2);
  const auto drawn = MustLoad(spec);
  CHECK(Rows(*drawn, Part::kTest).size() == 3);
  CHECK(Rows(*drawn, Part::kValidation).size() == 2);
  spec.mutable_split()->clear_holdout_validation();
  CHECK(Rows(*MustLoad(spec), Part::kTest) == Rows(*drawn, Part::kTest));
}

TEST_CASE("time split: two ways to hold out for validation, or one without groups, are errors") {
  DataFiles files;
  auto spec = TimedSpec(files.Write("a.csv", "n,t,u\n0,9,a\n1,7,b\n"));
  spec.mutable_split()->set_test_fraction(0.5);
  spec.mutable_split()->set_holdout_validation(true);
  CHECK_THAT(LoadError(spec), Contains("holdout_validation needs holdout_per"));
  spec.mutable_split()->clear_test_fraction();
  spec.mutable_split()->set_holdout_per("u");
  spec.mutable_split()->set_validation_fraction(0.1);
  CHECK_THAT(LoadError(spec), Contains("validation_fraction or holdout_validation, found both"));
}

TEST_CASE("time split: rows that a model was trained on keep their parts when newer ones come") {
  DataFiles files;
  const std::string old_rows = "n,t\n0,1\n1,2\n2,3\n3,4\n";
  auto spec = TimedSpec(files.Write("a.csv", old_rows));
  AddNumeric(&spec, "t");  // what is read stays the same without the split
  spec.mutable_split()->set_test_fraction(0.5);
  const auto before = MustLoad(spec);
  CHECK(Rows(*before, Part::kTraining) == Floats{0, 1});
  spec.set_paths(0, files.Write("b.csv", old_rows + "4,5\n5,6\n6,7\n7,8\n"));
  *spec.mutable_trained() = before->trained_rows();
  const auto grown = MustLoad(spec);
  CHECK(grown->since_training() == SinceTraining::kGrown);
  CHECK(Rows(*grown, Part::kTraining) == Floats{0, 1});
  CHECK(Rows(*grown, Part::kTest) == Floats{2, 3, 4, 5, 6, 7});
  spec.mutable_split()->clear_by();
  CHECK(MustLoad(spec)->since_training() == SinceTraining::kOtherDraw);
  CHECK_THAT(DrawChange(spec), EndsWith("split.by was \"t\" and is \"\""));
  spec.mutable_split()->set_by("t");
  spec.mutable_split()->set_holdout_validation(true);
  CHECK_THAT(DrawChange(spec), EndsWith("split.holdout_validation was 0 and is 1"));
}

TEST_CASE("time split: shares of many rows are those of a sorted list") {
  std::vector<double> times;
  for (uint64_t i = 0; i < 5000; ++i) times.push_back(static_cast<double>(Mix64(i) % 700));
  RowOrder order;
  order.by = times;
  proto::SplitSpec split;
  split.set_test_fraction(0.13);
  split.set_validation_fraction(0.21);
  const std::vector<Part> parts = SplitByValue(split, 5000, order, {});
  std::vector<uint32_t> sorted(5000);
  for (uint32_t i = 0; i < 5000; ++i) sorted[i] = i;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](uint32_t a, uint32_t b) { return times[a] < times[b]; });
  for (size_t i = 0; i < sorted.size(); ++i) {
    const Part wanted = i >= 5000 - 650          ? Part::kTest
                        : i >= 5000 - 650 - 1050 ? Part::kValidation
                                                 : Part::kTraining;
    REQUIRE(parts[sorted[i]] == wanted);
  }
}

TEST_CASE(
    "time split: a history with an order has what came before, the last of it first to stay") {
  DataFiles files;
  auto spec = CsvSpec(files.Write(
      "a.csv", "u,item,t\nu,a,30\nv,a,5\nu,b,10\nu,c,20\nu,b,40\nu,d,20\nv,c,5\nu,a,50\n"));
  AddCategorical(&spec, "u");
  proto::FeatureSpec* item = AddCategorical(&spec, "item");
  for (const char* name : {"a", "b", "c", "d"}) item->add_vocabulary(name);
  proto::FeatureSpec* history = AddCategorical(&spec, "history");
  history->set_history_of("item");
  history->set_group_by("u");
  history->set_by("t");
  spec.mutable_label()->set_feature("item");
  const auto data = MustLoad(spec);
  const Ticket all = AllOf(*data, Part::kTraining);
  // Of u by time: b 10, c 20, d 20, a 30, b 40, a 50. Equal times see nothing of each other, and
  // the b of 10 is what is known where b comes again.
  CHECK(Values<int32_t>(*data, all, "history.offsets") == Offsets{0, 3, 3, 3, 4, 8, 9, 9, 14});
  CHECK(Values<int64_t>(*data, all, "history.values") ==
        Ids{1, 2, 3, 1, 1, 2, 3, 0, 1, 1, 2, 3, 0, 1});
  history->set_max_values(2);
  const auto last = MustLoad(spec);
  CHECK(Values<int64_t>(*last, all, "history.values") == Ids{2, 3, 1, 3, 0, 1, 0, 1});
  // What is known of a group is all of training, as it is without an order.
  const auto known = last->GroupHistory(0);
  CHECK(Ids(known.begin(), known.end()) == Ids{0, 0, 1, 1, 2, 3});
}

TEST_CASE("time split: held-out rows see the training rows before them and no others") {
  DataFiles files;
  auto spec =
      CsvSpec(files.Write("a.csv", "u,item,t\nu,a,1\nu,b,2\nu,c,3\nu,d,4\nv,a,1\nv,b,9\nw,c,8\n"));
  proto::FeatureSpec* item = AddCategorical(&spec, "item");
  for (const char* name : {"a", "b", "c", "d"}) item->add_vocabulary(name);
  proto::FeatureSpec* history = AddCategorical(&spec, "history");
  history->set_history_of("item");
  history->set_group_by("u");
  history->set_by("t");
  spec.mutable_label()->set_feature("item");
  spec.mutable_split()->set_by("t");
  spec.mutable_split()->set_holdout_per("u");
  spec.mutable_split()->set_holdout_last(true);
  const auto data = MustLoad(spec);
  const Ticket test = AllOf(*data, Part::kTest);
  CHECK(Values<int64_t>(*data, test, "item") == Ids{3, 1});
  CHECK(Values<int64_t>(*data, test, "history.values") == Ids{0, 1, 2, 0});
}

TEST_CASE("time split: what contradicts itself is told by its key") {
  DataFiles files;
  auto spec = TimedSpec(files.Write("a.csv", "n,t\n0,1\n1,2\n2,3\n"));
  CHECK_THAT(LoadError(spec), Contains("by needs a fraction, a value or holdout_last"));
  spec.mutable_split()->set_test_fraction(0.3);
  spec.mutable_split()->set_holdout_last(true);
  CHECK_THAT(LoadError(spec), Contains("holdout_last needs holdout_per"));
  spec.mutable_split()->set_holdout_last(false);
  spec.mutable_features(0)->set_by("t");
  CHECK_THAT(LoadError(spec), Contains("by is for histories"));
}

}  // namespace
}  // namespace coxswain::data
