// From an example of an epoch back to the line of the file that it came from.
#include "runtime/data/row_places.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

// The places of a part's examples, in the order of the epoch.
std::vector<std::string> Places(const Dataset& data, Part part, int64_t epoch = 0) {
  std::vector<std::string> places;
  for (int64_t i = 0; i < data.num_examples(part); ++i) {
    places.push_back(data.PlaceOf({part, epoch, i, i + 1}).value_or("nowhere"));
  }
  return places;
}

TEST_CASE("row places: files without rows, blank lines and rows of several lines are counted") {
  RowPlaces places;
  places.StartFile("a");
  for (const int64_t line : {2, 3, 6, 7, 9}) places.AddRow(line);
  places.StartFile("empty");
  places.StartFile("b");
  places.AddRow(1);
  places.ShrinkToFit();
  std::vector<std::string> all;
  for (int64_t row = 0; row < 6; ++row) all.push_back(places.Of(row));
  CHECK(all == std::vector<std::string>{"a:2", "a:3", "a:6", "a:7", "a:9", "b:1"});
}

TEST_CASE("row places: an example of a shuffled epoch is found on the line that has its values") {
  const DataFiles files;
  std::string a = "x,note\n", b = "note,x\n";
  std::vector<std::string> place_of(1000);
  int line_a = 2, line_b = 2;
  for (int row = 0; row < 1000; ++row) {
    const bool first = row < 400;
    int* line = first ? &line_a : &line_b;
    place_of[static_cast<size_t>(row)] =
        absl::StrCat(files.Path(first ? "a.csv" : "b.csv"), ":", *line);
    const std::string note = row % 7 == 0 ? "\"two\nlines\"" : "one";
    absl::StrAppend(first ? &a : &b,
                    first ? absl::StrCat(row, ",", note) : absl::StrCat(note, ",", row), "\n",
                    row % 11 == 0 ? "\n" : "");
    *line += 1 + (row % 7 == 0) + (row % 11 == 0);
  }
  auto spec = CsvSpec(files.Write("a.csv", a));
  spec.mutable_csv()->set_quoting(true);
  spec.add_paths(files.WriteGzip("b.csv", b));
  spec.mutable_split()->set_validation_fraction(0.2);
  AddNumeric(&spec, "x");
  for (const bool shuffle : {false, true}) {
    spec.set_shuffle(shuffle);
    const auto data = MustLoad(spec);
    for (const Part part : {Part::kTraining, Part::kValidation}) {
      const int64_t epoch = 3;
      std::vector<std::string> wanted;
      for (const float row : Values<float>(*data, AllOf(*data, part, epoch), "x")) {
        wanted.push_back(place_of[static_cast<size_t>(row)]);
      }
      CHECK(Places(*data, part, epoch) == wanted);
    }
  }
}

TEST_CASE("row places: test files and libsvm's lines are known, those of a text are not") {
  const DataFiles files;
  auto csv = CsvSpec(files.Write("a.csv", "x\n1\n"));
  csv.mutable_split()->add_test_paths(files.Write("b.csv", "x\n\n5\n6\n"));
  AddNumeric(&csv, "x");
  const auto rows = MustLoad(csv);
  CHECK(Places(*rows, Part::kTest) ==
        std::vector<std::string>{files.Path("b.csv:3"), files.Path("b.csv:4")});
  CHECK_FALSE(rows->PlaceOf({Part::kTest, 0, 0, 0}));
  CHECK_FALSE(rows->PlaceOf({Part::kTest, 0, 2, 3}));

  proto::DatasetSpec libsvm;
  libsvm.set_format("libsvm");
  libsvm.add_paths(files.Write("a.svm", "1 1:1\n\n# nothing\n0 2:1\n"));
  AddCategorical(&libsvm, "f")->set_column("features");
  libsvm.mutable_features(0)->set_multi_valued(true);
  CHECK(Places(*MustLoad(libsvm), Part::kTraining) ==
        std::vector<std::string>{files.Path("a.svm:1"), files.Path("a.svm:4")});

  proto::DatasetSpec text;
  text.set_format("text");
  text.add_paths(files.Write("a.txt", "to be or not\nto be\n"));
  text.mutable_text()->set_window(2);
  const auto words = MustLoad(text);
  REQUIRE(words->num_examples(Part::kTraining) > 0);
  CHECK_FALSE(words->PlaceOf(AllOf(*words, Part::kTraining)));
}

}  // namespace
}  // namespace coxswain::data
