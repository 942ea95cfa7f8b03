// Several labels: columns of the batch with their names, in memory and streamed.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Floats = std::vector<float>;

proto::LabelSpec* AddLabel(proto::DatasetSpec* spec, const std::string& name,
                           const std::string& column) {
  proto::LabelSpec* label = spec->add_labels();
  label->set_name(name);
  label->set_column(column);
  return label;
}

TEST_CASE("labels: each is a column of the batch, with its own positive values and weights") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "n,y,z,w\n1,0,1,1\n2,1,7,0\n3,1,4,2.5\n"));
  AddNumeric(&spec, "n");
  spec.set_example_ids(true);
  AddLabel(&spec, "click", "y");
  proto::LabelSpec* stars = AddLabel(&spec, "stars", "z");
  stars->set_positive_comparison(">");
  stars->set_positive_threshold(3);
  stars->set_weight("w");
  const auto data = MustLoad(spec);
  const Ticket all = AllOf(*data, Part::kTraining);
  CHECK(Values<float>(*data, all, "label.click") == Floats{0, 1, 1});
  CHECK(Values<float>(*data, all, "label.stars") == Floats{0, 1, 1});
  CHECK(Values<float>(*data, all, "label.stars.weight") == Floats{1, 0, 2.5});
  std::vector<std::string> names;
  for (const ColumnSpec& column : data->columns(Part::kTraining)) names.push_back(column.name);
  CHECK(names == std::vector<std::string>{"n", "label.click", "label.stars", "label.stars.weight",
                                          "example_id"});
  CHECK(data->label_summary(Part::kTraining, "click").mean() == Approx(2.0 / 3));
  CHECK(data->label_summary(Part::kTraining, "stars").count == 2);  // one has the weight 0
  CHECK(data->label_summary(Part::kTraining, "nobody").count == 0);
  CHECK(data->label_summary(Part::kTraining).count == 0);
  // Beside the one without a name, the same column more than once.
  spec.mutable_label()->set_column("z");
  const auto both = MustLoad(spec);
  CHECK(Values<float>(*both, all, "label") == Floats{1, 7, 4});
  CHECK(Values<float>(*both, all, "label.click") == Floats{0, 1, 1});
  CHECK(both->label_summary(Part::kTraining).high == 7);
}

TEST_CASE("labels: what is wrong is told by the file's line, or by the label's name") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "n,y\n1,0\n2,x\n"));
  AddNumeric(&spec, "n");
  AddLabel(&spec, "click", "y");
  CHECK_THAT(LoadError(spec), Contains("a.csv:3:3: field 2 (\"y\")") && Contains("found \"x\""));
  spec.mutable_labels(0)->set_column("nothing");
  CHECK_THAT(LoadError(spec), Contains("\"nothing\""));
  spec.mutable_labels(0)->set_column("");
  CHECK_THAT(LoadError(spec), Contains("label \"click\": wanted a column and no feature"));
  spec.mutable_labels(0)->set_column("y");
  for (const char* bad : {"", "weight", "a.b", "a b"}) {
    spec.mutable_labels(0)->set_name(bad);
    CHECK_THAT(LoadError(spec), Contains("labels: wanted a name of ASCII letters"));
  }
  spec.mutable_labels(0)->set_name("click");
  AddLabel(&spec, "click", "n");
  CHECK_THAT(LoadError(spec), Contains("two labels are named \"click\""));
}

void AddClass(proto::DatasetSpec* spec, const std::string& name, const std::string& separator) {
  proto::LabelSpec* const label = AddLabel(spec, name, "tags");
  label->add_positive_values(name);
  label->set_value_separator(separator);
}

TEST_CASE("labels of lists: 1 where the class is one of the row's values, as a whole") {
  const DataFiles files;
  auto spec = CsvSpec(
      files.Write("a.csv", "n,tags\n1,red|blue\n2,\n3,redder|re\n4,blue||red\n5,|blue|\n6,red\n"));
  AddNumeric(&spec, "n");
  for (const char* name : {"red", "blue"}) AddClass(&spec, name, "|");
  const auto check = [&spec] {
    const auto data = MustLoad(spec);
    const Ticket all = AllOf(*data, Part::kTraining);
    CHECK(Values<float>(*data, all, "label.red") == Floats{1, 0, 0, 1, 0, 1});
    CHECK(Values<float>(*data, all, "label.blue") == Floats{1, 0, 0, 1, 1, 0});
  };
  check();
  spec.set_paths(
      0, files.Write("b.csv", "n,tags\n1,red::blue\n2,\n3,red:blue\n4,blue::red\n5,blue\n6,red\n"));
  for (auto& label : *spec.mutable_labels()) label.set_value_separator("::");
  check();
  spec.set_paths(0, files.Write("c.jsonl",
                                "{\"n\":1,\"tags\":[\"red\",\"blue\"]}\n{\"n\":2,\"tags\":[]}\n"
                                "{\"n\":3,\"tags\":[\"red::blue\"]}\n"
                                "{\"n\":4,\"tags\":\"blue::red\"}\n{\"n\":5,\"tags\":[\"blue\"]}\n"
                                "{\"n\":6,\"tags\":\"red\"}\n"));
  spec.set_format("jsonl");
  spec.clear_csv();
  check();
}

TEST_CASE("labels of lists: streamed, and what is missing is no empty list") {
  const DataFiles files;
  std::string text = "n,tags\n";
  for (int i = 0; i < 90; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    absl::StrAppend(&text, i, ",", h % 2 == 0 ? "a " : "", h % 3 == 0 ? "b" : "c", "\n");
  }
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddNumeric(&spec, "n");
  for (const char* name : {"a", "b"}) AddClass(&spec, name, " ");
  CheckSameWhenStreamed(files, spec);
  spec.set_paths(0, files.Write("b.csv", "n,tags\n1,a\n2,?\n"));
  spec.mutable_csv()->add_missing_values("?");
  CHECK_THAT(LoadError(spec), Contains("b.csv:3:3") && Contains("wanted a list of labels"));
  spec.mutable_labels(0)->clear_positive_values();
  CHECK_THAT(LoadError(spec), Contains("label \"a\"") && Contains("wanted positive_values"));
}

TEST_CASE("labels: streamed ones are those in memory, with their summaries") {
  const DataFiles files;
  std::string text = "n,y,z,w\n";
  for (int i = 0; i < 90; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    absl::StrAppend(&text, h % 100, ",", h % 2, ",", h % 9, ",", h % 7, ".5\n");
  }
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddNumeric(&spec, "n");
  AddLabel(&spec, "click", "y");
  AddLabel(&spec, "stars", "z")->set_weight("w");
  spec.mutable_split()->set_validation_fraction(0.2);
  CheckSameWhenStreamed(files, spec);
  const auto whole = MustLoad(spec);
  const auto streamed = MustLoad(Streamed(files, spec, 100, 2));
  for (const char* name : {"click", "stars"}) {
    for (const Part part : {Part::kTraining, Part::kValidation}) {
      const auto wanted = whole->label_summary(part, name);
      const auto found = streamed->label_summary(part, name);
      CHECK(wanted.count > 0);
      CHECK(found.count == wanted.count);
      CHECK(found.ToString() == wanted.ToString());
    }
  }
}

TEST_CASE("labels: a data set without names has the fingerprint that it had") {
  const DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "n,y\n1,0\n2,1\n"));
  AddNumeric(&spec, "n");
  spec.mutable_label()->set_column("y");
  const uint64_t one = MustLoad(spec)->fingerprint();
  AddLabel(&spec, "y", "y");
  CHECK(MustLoad(spec)->fingerprint() != one);
  spec.clear_labels();
  CHECK(MustLoad(spec)->fingerprint() == one);
}

}  // namespace
}  // namespace coxswain::data
