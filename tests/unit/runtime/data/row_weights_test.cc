// Weights of rows: a column beside the label, in memory and streamed.
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
using Floats = std::vector<float>;

TEST_CASE("row weights: a column of the batch behind the label, or where a feature is the label") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "n,y,w\n1,0,1\n2,1,0\n3,1,2.5\n"));
  AddNumeric(&spec, "n");
  spec.mutable_label()->set_column("y");
  spec.mutable_label()->set_weight("w");
  spec.set_example_ids(true);
  const auto data = MustLoad(spec);
  const Ticket all = AllOf(*data, Part::kTraining);
  CHECK(Values<float>(*data, all, "label.weight") == Floats{1, 0, 2.5});
  std::vector<std::string> names;
  for (const ColumnSpec& column : data->columns(Part::kTraining)) names.push_back(column.name);
  CHECK(names == std::vector<std::string>{"n", "label", "label.weight", "example_id"});
  AddCategorical(&spec, "c")->set_column("y");
  spec.mutable_label()->set_column("");
  spec.mutable_label()->set_feature("c");
  CHECK(Values<float>(*MustLoad(spec), all, "label.weight") == Floats{1, 0, 2.5});
  spec.mutable_label()->clear_feature();
  CHECK_THAT(LoadError(spec), Contains("a weight is given, but no column and no feature"));
}

TEST_CASE("row weights: what is negative, missing or not finite is told by file and line") {
  DataFiles files;
  for (const char* bad : {"-1", "", "nan", "inf", "1e39", "-0.001", "much"}) {
    auto spec = CsvSpec(files.Write("a.csv", absl::StrCat("y,w\n1,1\n0,", bad, "\n")));
    spec.mutable_label()->set_column("y");
    spec.mutable_label()->set_weight("w");
    CHECK_THAT(LoadError(spec), EndsWith(absl::StrCat("a.csv:3:3: field 2 (\"w\"): wanted a "
                                                      "weight, a finite number (f32) of at least "
                                                      "0, found \"",
                                                      bad, "\"")));
  }
}

// Three numbers that are no label of such a loss, in rows of weight 0.
void BoundLabel(proto::LabelSpec* label) {
  label->set_column("y");
  label->set_weight("w");
  label->set_bounded(true);
  label->set_high(1);
}

TEST_CASE(
    "row weights: the label of a row of weight 0 may be any number, whatever the loss wants") {
  DataFiles files;
  const std::string paths[] = {
      files.Write("a.csv", "n,y,w\n1,1,1\n2,-1,0\n3,1e30,0\n4,1e300,0\n5,0.5,2\n"),
      files.Write("b.csv", "w,n,y\n1,1,1\n0,\"2\",-1\n0,3,\"1e30\"\n0,4,1e300\n2,5,0.5\n"),
      files.Write("c.jsonl",
                  "{\"n\":1,\"y\":1,\"w\":1}\n{\"n\":2,\"y\":-1,\"w\":0}\n"
                  "{\"n\":3,\"y\":1e30,\"w\":0}\n{\"n\":4,\"y\":1e300,\"w\":0}\n"
                  "{\"n\":5,\"y\":0.5,\"w\":2}\n")};
  for (const std::string& path : paths) {
    CAPTURE(path);
    auto spec = CsvSpec(path);
    if (path == paths[1]) spec.mutable_csv()->set_quoting(true);
    if (path == paths[2]) {
      spec.set_format("jsonl");
      spec.clear_csv();
    }
    AddNumeric(&spec, "n");
    BoundLabel(spec.mutable_label());
    proto::LabelSpec* const named = spec.add_labels();
    named->set_name("other");
    BoundLabel(named);
    const auto data = MustLoad(spec);
    const Ticket all = AllOf(*data, Part::kTraining);
    CHECK(Values<float>(*data, all, "label") == Floats{1, -1, 1e30f, 0, 0.5});
    CHECK(Values<float>(*data, all, "label.other") == Floats{1, -1, 1e30f, 0, 0.5});
    CHECK(data->label_summary(Part::kTraining).ToString() == "0.5 50.0%, 1 50.0%");
    CHECK(data->label_summary(Part::kTraining, "other").count == 2);
  }
  for (const char* bad : {"2,0.1", "nan,0", "inf,0", ",0", "x,0"}) {
    CAPTURE(bad);
    auto spec = CsvSpec(files.Write("bad.csv", absl::StrCat("y,w\n1,1\n", bad, "\n")));
    BoundLabel(spec.mutable_label());
    CHECK_THAT(LoadError(spec), Contains("bad.csv:3:1: field 1 (\"y\"): wanted a label from 0"));
  }
}

TEST_CASE("row weights: libsvm's lines have no column for them") {
  DataFiles files;
  proto::DatasetSpec spec;
  spec.set_format("libsvm");
  spec.add_paths(files.Write("a.svm", "1 1:1\n0 2:1\n"));
  spec.mutable_label()->set_weight("w");
  CHECK_THAT(LoadError(spec), Contains("wanted a column \"w\""));
}

TEST_CASE("row weights: streamed ones are those in memory") {
  DataFiles files;
  std::string text = "n,y,w\n";
  for (int i = 0; i < 90; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    const bool known = h % 5 != 0;
    absl::StrAppend(&text, h % 100, ",", known ? static_cast<int>(h % 2) : -1, ",",
                    known ? absl::StrCat(h % 7, ".5") : "0", "\n");
  }
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddNumeric(&spec, "n");
  BoundLabel(spec.mutable_label());
  spec.mutable_split()->set_validation_fraction(0.2);
  spec.mutable_split()->set_test_fraction(0.1);
  CheckSameWhenStreamed(files, spec);
  const LabelSummary labels =
      MustLoad(Streamed(files, spec, 100, 2))->label_summary(Part::kTraining);
  CHECK(labels.low == 0);
  CHECK(labels.count == MustLoad(spec)->label_summary(Part::kTraining).count);
}

}  // namespace
}  // namespace coxswain::data
