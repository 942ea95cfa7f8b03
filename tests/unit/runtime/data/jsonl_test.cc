// JSON lines: values of all types, paths, what is missing and what is wrong.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "runtime/data/json_line.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using proto::FeatureSpec;
using Floats = std::vector<float>;
using Strings = std::vector<std::string>;

proto::DatasetSpec JsonSpec(const std::string& path) {
  proto::DatasetSpec spec;
  spec.set_format("jsonl");
  spec.add_paths(path);
  return spec;
}

FeatureSpec* AddList(proto::DatasetSpec* spec, const std::string& name) {
  FeatureSpec* feature = AddCategorical(spec, name);
  feature->set_multi_valued(true);
  feature->set_value_separator("|");
  return feature;
}

Strings Texts(const Dataset& data, const std::string& feature, const std::string& column) {
  Strings texts;
  for (const int64_t id : Values<int64_t>(data, AllOf(data, Part::kTraining), column)) {
    texts.push_back((*data.vocabulary(feature))[static_cast<size_t>(id)]);
  }
  return texts;
}

TEST_CASE("jsonl: numbers, texts, truths and nothing are what a feature makes of them") {
  DataFiles files;
  auto spec = JsonSpec(
      files.Write("a.jsonl",
                  "\xef\xbb\xbf{\"n\": 1.5, \"c\": \"caf\\u00e9\", \"y\": true}\r\n"
                  "\n"
                  "  {\"c\": 7, \"n\": \"2\", \"y\": 0, \"more\": {\"deep\": [1, [2, {}]]}}\n"
                  "{\"c\": 0.50, \"n\": true, \"y\": 1}\n"
                  "{\"c\": null, \"n\": null, \"y\": 0}\n"
                  "{\"y\": 1}\n"
                  "{\"c\": false, \"n\": 18446744073709551615, \"y\": 1e0}"));
  AddNumeric(&spec, "n")->set_missing_value(-1);
  AddCategorical(&spec, "c");
  spec.mutable_label()->set_column("y");
  const auto data = MustLoad(spec);
  const Ticket all = AllOf(*data, Part::kTraining);
  CHECK(Values<float>(*data, all, "n") == Floats{1.5, 2, 1, -1, -1, 18446744073709551615.0f});
  CHECK(Texts(*data, "c", "c") == Strings{"caf\xc3\xa9", "7", "0.5", "", "", "false"});
  CHECK(Values<float>(*data, all, "label") == Floats{1, 0, 1, 0, 1, 1});
  CHECK(*data->PlaceOf({Part::kTraining, 0, 1, 2}) == files.Path("a.jsonl:3"));
}

TEST_CASE("jsonl: lists are several values, which are taken as they are") {
  DataFiles files;
  auto spec = JsonSpec(files.Write(
      "a.jsonl", "{\"t\": [\"a|b\", 1, null, true]}\n{\"t\": \"a|b\"}\n{\"t\": []}\n{}\n"));
  AddList(&spec, "t");
  const auto data = MustLoad(spec);
  CHECK(Texts(*data, "t", "t.values") == Strings{"a|b", "1", "true", "a", "b"});
  CHECK(Values<int32_t>(*data, AllOf(*data, Part::kTraining), "t.offsets") ==
        std::vector<int32_t>{0, 3, 5, 5, 5});
}

TEST_CASE("jsonl: weights of values and rows, keys and times are read as in csv") {
  DataFiles files;
  auto spec = JsonSpec(files.Write("a.jsonl",
                                   "{\"t\": [\"a:2\", \"b\"], \"w\": 0.5, \"u\": 3, \"at\": 2}\n"
                                   "{\"t\": [\"b:3\"], \"w\": true, \"u\": 3, \"at\": 1}\n"));
  AddList(&spec, "t")->set_weight_separator(":");
  FeatureSpec* user = AddCategorical(&spec, "u");
  spec.mutable_label()->set_feature("u");
  spec.mutable_label()->set_weight("w");
  user->set_oov_buckets(1);
  spec.mutable_split()->set_by("at");
  spec.mutable_split()->set_test_fraction(0.5);
  const auto data = MustLoad(spec);
  CHECK(Values<float>(*data, AllOf(*data, Part::kTest), "t.weights") == Floats{1});
  CHECK(Values<float>(*data, AllOf(*data, Part::kTest), "label.weight") == Floats{0.5});
}

TEST_CASE("jsonl: a dotted name is a key of that name, or else a path") {
  DataFiles files;
  auto spec = JsonSpec(files.Write("a.jsonl",
                                   "{\"a\": {\"b\": {\"c\": 1}, \"b.c\": 2}}\n"
                                   "{\"a\": {\"b\": {\"c\": 3}}}\n"
                                   "{\"a.b\": {\"c\": 4}, \"a\": 5}\n"
                                   "{\"a.b.c\": 6, \"a\": {\"b\": {\"c\": 7}}}\n"
                                   "{\"a\": {\"b\": 8}}\n"));
  AddNumeric(&spec, "x")->set_column("a.b.c");
  const auto data = MustLoad(spec);
  CHECK(Values<float>(*data, AllOf(*data, Part::kTraining), "x") == Floats{2, 3, 4, 6, 0});
}

TEST_CASE("jsonl: many keys are found as few are") {
  DataFiles files;
  std::string line = "{\"d.x\": 5, \"k0\": 1, \"k0\": 2";
  for (int i = 1; i < 60; ++i) absl::StrAppend(&line, ", \"k", i, "\": ", i);
  absl::StrAppend(&line, ", \"k59\": 7, \"d\": {\"x\": 6, \"z\": 8}, \"y\": 1}\n");
  auto spec = JsonSpec(files.Write("a.jsonl", line + line));
  for (int i = 0; i < 60; ++i) AddNumeric(&spec, absl::StrCat("k", i));
  for (const char* name : {"d.x", "d.z"}) AddNumeric(&spec, name);
  spec.mutable_label()->set_column("y");
  const auto data = MustLoad(spec);
  const Ticket all = AllOf(*data, Part::kTraining);
  CHECK(Values<float>(*data, all, "k0") == Floats{1, 1});  // the first one counts
  for (int i = 1; i < 60; ++i) {
    const auto number = static_cast<float>(i);
    CHECK(Values<float>(*data, all, absl::StrCat("k", i)) == Floats{number, number});
  }
  CHECK(Values<float>(*data, all, "d.x") == Floats{5, 5});
  CHECK(Values<float>(*data, all, "d.z") == Floats{8, 8});
}

TEST_CASE("jsonl: true and false are 1 and 0 for ranges of numbers, as for numbers") {
  DataFiles files;
  auto spec =
      JsonSpec(files.Write("a.jsonl", "{\"x\": true}\n{\"x\": 1}\n{\"x\": false}\n{\"x\": 0}\n"));
  FeatureSpec* const feature = AddNumeric(&spec, "x");
  feature->set_kind(FeatureSpec::CATEGORICAL);
  feature->add_boundaries(0.5);
  const auto data = MustLoad(spec);
  const std::vector<int64_t> ids = Values<int64_t>(*data, AllOf(*data, Part::kTraining), "x");
  REQUIRE(ids.size() == 4);
  CHECK(ids[0] == ids[1]);
  CHECK(ids[2] == ids[3]);
  CHECK(ids[0] != ids[2]);
}

TEST_CASE("jsonl: what is wrong is told by file, line and key") {
  DataFiles files;
  const auto error = [&](const std::string& line, FeatureSpec::Kind kind = FeatureSpec::NUMERIC) {
    auto spec = JsonSpec(files.Write("a.jsonl", "{\"x\": 1}\n\n" + line + "\n{\"x\": 2}\n"));
    AddNumeric(&spec, "x")->set_kind(kind);
    return LoadError(spec);
  };
  CHECK_THAT(error("{\"x\": 1"), Contains("a.jsonl:3: wanted a JSON object on the line, found "));
  CHECK_THAT(error("[1]"), EndsWith("a.jsonl:3: wanted a JSON object on the line, found another "
                                    "value"));
  CHECK_THAT(error("{\"x\": 1} {\"x\": 2}"), Contains("a.jsonl:3: wanted a JSON object"));
  CHECK_THAT(error("{\"x\": \"\xff\"}"), Contains("a.jsonl:3: wanted a JSON object"));
  CHECK_THAT(error("{\"x\": \"much\"}"),
             EndsWith("a.jsonl:3: key \"x\": wanted a finite number (f32), found \"much\""));
  CHECK_THAT(error("{\"x\": [1]}"),
             EndsWith("a.jsonl:3: key \"x\": wanted one value, found a list of 1"));
  CHECK_THAT(
      error("{\"x\": {}}", FeatureSpec::CATEGORICAL),
      EndsWith("key \"x\": wanted a value (of the object, name a key: x.KEY), found an object"));
  CHECK_THAT(
      error("{\"x\": [[1]]}"),
      EndsWith("key \"x\": wanted a list of values, found a list with something else in it"));
  for (const char* number : {"1e999", "18446744073709551616"}) {
    CHECK_THAT(
        error(absl::StrCat("{\"x\": ", number, "}")),
        EndsWith("a.jsonl:3: wanted a JSON object on the line, found a number that is none, or "
                 "that 64 bits do not hold (a string may)"));
  }
}

TEST_CASE("jsonl: a key that no row has is told with the nearest one, one that some have is not") {
  DataFiles files;
  auto spec = JsonSpec(files.Write("a.jsonl", "{\"price\": 1}\n{\"price\": 2, \"rare\": 3}\n"));
  AddNumeric(&spec, "price");
  AddNumeric(&spec, "rare");
  MustLoad(spec);
  AddNumeric(&spec, "pirce");
  const std::string wanted =
      "a.jsonl: wanted a key \"pirce\", found it in no row; did you mean \"price\"? there are: "
      "price";
  CHECK_THAT(LoadError(spec), EndsWith(wanted));
  CHECK_THAT(LoadError(Streamed(files, spec, 10)), EndsWith(wanted));
  // It may be in another file.
  spec.add_paths(files.Write("b.jsonl", "{\"pirce\": 1}\n"));
  MustLoad(spec);
}

TEST_CASE("jsonl: streamed lines are those in memory") {
  DataFiles files;
  std::string text;
  for (int i = 0; i < 90; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    absl::StrAppend(&text, "{\"n\": ", h % 1000, ".5, \"d\": {\"c\": \"c", h % 7, "\"}, \"l\": [");
    for (uint64_t v = 0; v < h % 4; ++v) absl::StrAppend(&text, v > 0 ? "," : "", (h + v) % 13);
    absl::StrAppend(&text, "], \"y\": ", h % 2, i % 5 == 0 ? "}\r\n\n" : "}\n");
  }
  auto spec = JsonSpec(files.Write("a.jsonl", text));
  AddNumeric(&spec, "n")->set_normalization(FeatureSpec::MIN_MAX);
  AddCategorical(&spec, "c")->set_column("d.c");
  spec.mutable_features(1)->set_oov_buckets(1);
  AddList(&spec, "l")->set_min_count(3);
  spec.mutable_label()->set_column("y");
  spec.mutable_split()->set_validation_fraction(0.2);
  spec.mutable_split()->set_test_fraction(0.1);
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("jsonl: a long line needs no more room than its own") {
  JsonLine json;
  JsonValue value;
  for (const size_t size : {size_t{1}, size_t{100}, size_t{1} << 20, size_t{3}}) {
    const std::string text(size, 'x');
    REQUIRE(json.Parse(absl::StrCat("{\"t\": \"", text, "\"}")));
    REQUIRE(json.Get("t", &value));
    CHECK(value.text == text);
    CHECK_FALSE(json.Get("u", &value));
    CHECK(json.problem().empty());
  }
}

}  // namespace
}  // namespace coxswain::data
