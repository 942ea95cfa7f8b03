// Features that are vectors of numbers: from columns, from lists, from images.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/arrow_specs.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using proto::FeatureSpec;

FeatureSpec* AddVector(proto::DatasetSpec* spec, const std::string& name, int64_t width) {
  FeatureSpec* feature = AddNumeric(spec, name);
  feature->set_kind(FeatureSpec::VECTOR);
  feature->set_width(width);
  return feature;
}

std::string Columns(int rows) {
  std::string text = "a,b,c,y\n";
  for (int i = 0; i < rows; ++i) {
    absl::StrAppend(&text, i, ",", i % 7 == 0 ? "" : absl::StrCat(i, ".5"), ",-", i, ",", i % 2,
                    "\n");
  }
  return text;
}

proto::DatasetSpec ThreeColumns(proto::DatasetSpec spec) {
  FeatureSpec* feature = AddVector(&spec, "v", 3);
  for (const char* column : {"c", "a", "b"}) feature->add_columns(column);
  feature->set_missing_value(9);
  feature->set_normalization(FeatureSpec::DIVIDE);
  feature->set_divisor(2);
  AddNumeric(&spec, "a");
  spec.mutable_label()->set_column("y");
  return spec;
}

TEST_CASE("a vector of several columns is a row of numbers in their order", "[data]") {
  DataFiles files;
  const auto data = MustLoad(ThreeColumns(CsvSpec(files.Write("a.csv", Columns(3)))));
  const Ticket all = AllOf(*data, Part::kTraining);
  CHECK(data->columns(Part::kTraining)[0].type.shape == Shape{kUnknownDim, 3});
  CHECK(Values<float>(*data, all, "v") ==
        std::vector<float>{0, 0, 4.5, -0.5, 0.5, 0.75, -1, 1, 1.25});
  CHECK(Values<float>(*data, all, "a") == std::vector<float>{0, 1, 2});
  CHECK(data->learned()[0].scale() == 2);
}

TEST_CASE("a vector's columns may be missing, or come from a side table, in any row", "[data]") {
  DataFiles files;
  std::string text = "key,a,y\n";
  for (int i = 0; i < 300; ++i) {
    absl::StrAppend(&text, i % 3, ",", i % 5 == 0 ? "?" : absl::StrCat(i), ",", i % 2, "\n");
  }
  auto spec = CsvSpec(files.Write("a.csv", text));
  spec.mutable_csv()->add_missing_values("?");
  proto::JoinSpec* const join = spec.add_joins();
  join->set_path(files.Write("side.csv", "key,b\n0,70\n1,71\n"));
  join->mutable_csv()->set_header(true);
  join->set_left_on("key");
  FeatureSpec* const feature = AddVector(&spec, "v", 3);
  for (const char* column : {"b", "a", "key"}) feature->add_columns(column);
  feature->set_missing_value(-1);
  spec.mutable_label()->set_column("y");
  const auto data = MustLoad(spec);
  const std::vector<float> found = Values<float>(*data, AllOf(*data, Part::kTraining), "v");
  REQUIRE(found.size() == 900);
  for (int i = 0; i < 300; ++i) {
    const size_t at = static_cast<size_t>(3 * i);
    INFO(i);
    CHECK(found[at] == static_cast<float>(i % 3 == 2 ? -1 : 70 + i % 3));
    CHECK(found[at + 1] == static_cast<float>(i % 5 == 0 ? -1 : i));
    CHECK(found[at + 2] == static_cast<float>(i % 3));
  }
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("streaming: vectors of columns and of lists", "[data]") {
  DataFiles files;
  const std::string csv = files.Write("a.csv", Columns(90));
  auto spec = ThreeColumns(CsvSpec(csv));
  spec.mutable_split()->set_test_fraction(0.2);
  SECTION("csv") { CheckSameWhenStreamed(files, spec); }
  SECTION("parquet") {
    if (!HasArrow()) return;
    auto columns = ThreeColumns(ParquetSpec(
        WriteParquet(files, csv, "a.parquet", 40, {"a:i32", "b:f64", "c:f32", "y:i8"})));
    columns.mutable_split()->set_test_fraction(0.2);
    CheckSameWhenStreamed(files, columns);
    const auto found = MustLoad(columns), wanted = MustLoad(spec);
    CHECK(Bytes(*found, AllOf(*found, Part::kTest)) == Bytes(*wanted, AllOf(*wanted, Part::kTest)));
  }
  SECTION("lists") {
    if (!HasArrow()) return;
    std::string text = "p,y\n";
    for (int i = 0; i < 90; ++i) absl::StrAppend(&text, i, "|", i, ".5,", i % 2, "\n");
    auto lists = ParquetSpec(
        WriteParquet(files, files.Write("l.csv", text), "l.parquet", 40, {"p:pair", "y:i8"}));
    AddVector(&lists, "p", 2)->set_normalization(FeatureSpec::LOG1P);
    lists.mutable_label()->set_column("y");
    CheckSameWhenStreamed(files, lists);
  }
}

TEST_CASE("a vector that has another number of values is told by its place", "[data]") {
  if (!HasArrow()) return;
  DataFiles files;
  const std::string csv = files.Write("a.csv", "i,y\n1|2|3,0\n4|5|6,1\n7|8,1\n");
  auto spec = ParquetSpec(WriteParquet(files, csv, "a.parquet", 40, {"i:integers", "y:i8"}));
  AddVector(&spec, "i", 3);
  CHECK_THAT(LoadError(spec),
             Contains("row group 0, row 3, column \"i\": wanted a list of 3 finite "
                      "numbers (f32), found [7, 8]"));
}

TEST_CASE("a vector of one column without numbers is its missing_value, where that is given",
          "[data]") {
  DataFiles files;
  const std::string jsonl = files.Write(
      "a.jsonl",
      "{\"v\": [1, 2], \"y\": 1}\n{\"v\": null, \"y\": 0}\n{\"v\": [3, null], \"y\": 0}\n"
      "{\"v\": \"\", \"y\": 0}\n{\"v\": [], \"y\": 0}\n{\"y\": 0}\n");
  auto spec = CsvSpec(jsonl);
  spec.set_format("jsonl");
  spec.clear_csv();
  FeatureSpec* const feature = AddVector(&spec, "v", 2);
  spec.mutable_label()->set_column("y");
  const std::string wanted =
      "a list of 2 finite numbers (f32) (of an empty one, the feature's "
      "missing_value)";
  CHECK_THAT(LoadError(spec), Contains("a.jsonl:2: key \"v\"") && Contains(wanted));
  const auto numbers = [&](float missing) {
    feature->set_missing_value(missing);
    const auto data = MustLoad(spec);
    CheckSameWhenStreamed(files, spec);
    return Values<float>(*data, AllOf(*data, Part::kTraining), "v");
  };
  CHECK(numbers(7) == std::vector<float>{1, 2, 7, 7, 3, 7, 7, 7, 7, 7, 7, 7});
  CHECK(numbers(-0.0f) == std::vector<float>{1, 2, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0});
  SECTION("csv") {
    auto csv = CsvSpec(files.Write("a.csv", "v,y\n1 2,1\n,0\n3 4,0\n"));
    FeatureSpec* const v = AddVector(&csv, "v", 2);
    csv.mutable_label()->set_column("y");
    CHECK_THAT(LoadError(csv), Contains(wanted));
    v->set_missing_value(7);
    const auto data = MustLoad(csv);
    CHECK(Values<float>(*data, AllOf(*data, Part::kTraining), "v") ==
          std::vector<float>{1, 2, 7, 7, 3, 4});
  }
  SECTION("parquet") {
    if (!HasArrow()) return;
    auto lists = ParquetSpec(WriteParquet(files, files.Write("l.csv", "p,y\n1|2,1\n,0\n3|4,0\n"),
                                          "l.parquet", 40, {"p:integers", "y:i8"}));
    FeatureSpec* const p = AddVector(&lists, "p", 2);
    lists.mutable_label()->set_column("y");
    CHECK_THAT(LoadError(lists), Contains(wanted));
    p->set_missing_value(7);
    const auto data = MustLoad(lists);
    CHECK(Values<float>(*data, AllOf(*data, Part::kTraining), "p") ==
          std::vector<float>{1, 2, 7, 7, 3, 4});
  }
}

TEST_CASE("a vector that contradicts itself is an error that names it", "[data]") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", Columns(3)));
  FeatureSpec* feature = AddVector(&spec, "v", 0);
  CHECK_THAT(LoadError(spec), Contains("feature \"v\": a vector: wanted a width of 1 to"));
  feature->set_width(2);
  feature->add_columns("a");
  CHECK_THAT(LoadError(spec), Contains("wanted 2 columns, as its width is, found 1"));
  feature->add_columns("b");
  feature->set_normalization(FeatureSpec::STANDARD);
  CHECK_THAT(LoadError(spec), Contains("a vector's normalization is none, log1p or divide"));
  feature->set_normalization(FeatureSpec::DIVIDE);
  CHECK_THAT(LoadError(spec), Contains("wanted a divisor above 0, found 0"));
}

// Two numbers of 32 bits and so on.
std::string Idx(std::vector<int> sizes, const std::string& bytes) {
  std::string file{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const int size : sizes) {
    file += {'\0', '\0', static_cast<char>(size / 256), static_cast<char>(size % 256)};
  }
  return file + bytes;
}

proto::DatasetSpec Images(const std::string& path) {
  proto::DatasetSpec spec;
  spec.set_format("idx");
  spec.add_paths(path);
  AddVector(&spec, "image", 4)->set_normalization(FeatureSpec::DIVIDE);
  spec.mutable_features(0)->set_divisor(255);
  spec.mutable_label()->set_column("label");
  return spec;
}

TEST_CASE("idx: images are vectors, and labels are in the file of that name, packed or not",
          "[data]") {
  DataFiles files;
  const std::string images =
      Idx({3, 2, 2}, std::string("\x00\x33\xff\x66", 4) + "\x99\x99\x99\x99" +
                         std::string("\xff\x00\x00\x00", 4));
  const std::string labels = Idx({3}, std::string("\x07\x00\x02", 3));
  const auto check = [](const std::string& path) {
    const auto data = MustLoad(Images(path));
    const Ticket all = AllOf(*data, Part::kTraining);
    const float f = 0x99 / 255.0f;
    CHECK(Values<float>(*data, all, "image") ==
          std::vector<float>{0, 0x33 / 255.0f, 1, 0x66 / 255.0f, f, f, f, f, 1, 0, 0, 0});
    CHECK(Values<float>(*data, all, "label") == std::vector<float>{7, 0, 2});
    return data->fingerprint();
  };
  files.WriteGzip("train-labels-idx1-ubyte.gz", labels);
  files.Write("plain-labels-idx1-ubyte", labels);
  CHECK(check(files.WriteGzip("train-images-idx3-ubyte.gz", images)) ==
        check(files.Write("plain-images-idx3-ubyte", images)));
}

TEST_CASE("idx: what is no pair of such files is an error that names the file", "[data]") {
  DataFiles files;
  const std::string images = Idx({2, 2, 2}, std::string(8, 'x'));
  const std::string path = files.Write("a-images-idx3-ubyte", images);
  const std::string labels = files.Path("a-labels-idx1-ubyte");
  CHECK_THAT(LoadError(Images(path)), Contains("a-labels-idx1-ubyte") && Contains("No such file"));
  files.Write("a-labels-idx1-ubyte", Idx({3}, "abc"));
  CHECK_THAT(LoadError(Images(path)),
             Contains("a-labels-idx1-ubyte: wanted 2 labels") && Contains("has images, found 3"));
  files.Write("a-labels-idx1-ubyte", images);
  CHECK_THAT(LoadError(Images(path)), Contains("wanted labels, of 1 dimension, found 3"));
  files.Write("a-labels-idx1-ubyte", Idx({2}, "\x01\x0a"));
  auto spec = Images(path);
  spec.mutable_label()->set_bounded(true);
  spec.mutable_label()->set_high(9);
  CHECK_THAT(LoadError(spec), Contains("a-labels-idx1-ubyte: item 2: wanted a label from 0 to 9") &&
                                  Contains("found 10"));
  spec = Images(path);
  spec.mutable_features(0)->set_width(5);
  CHECK_THAT(LoadError(spec), Contains("a-images-idx3-ubyte: item 1: wanted a list of 5") &&
                                  Contains("found 4 bytes"));
  files.Write("a-images-idx3-ubyte", images.substr(0, 20));
  CHECK_THAT(LoadError(Images(path)), Contains("wanted 8 bytes more, found the end of the file"));
  files.Write("a-images-idx3-ubyte", images + "x");
  CHECK_THAT(LoadError(Images(path)), Contains("wanted the end of the file after 2 items"));
  files.Write("a-images-idx3-ubyte", "something");
  CHECK_THAT(LoadError(Images(path)), Contains("wanted an IDX file"));
  CHECK_THAT(LoadError(Images(files.Write("digits", images))), Contains("\"images\" in it"));
}

}  // namespace
}  // namespace coxswain::data
