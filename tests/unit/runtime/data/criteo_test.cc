#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/criteo.h"
#include "runtime/data/hash.h"
#include "runtime/data/spec_check.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::EndsWith;

proto::DatasetSpec CriteoSpec(const std::string& path) {
  proto::DatasetSpec spec;
  spec.set_format(kCriteoFormat);
  spec.add_paths(path);
  return spec;
}

// A line of 40 fields: the label, then `numbers` and `words` repeated, both with tabs before them.
std::string Line(const std::string& label, const std::string& number, const std::string& word) {
  std::string line = label;
  for (int i = 0; i < kCriteoNumbers; ++i) absl::StrAppend(&line, "\t", number);
  for (int i = 0; i < kCriteoWords; ++i) absl::StrAppend(&line, "\t", word);
  return line + "\n";
}

TEST_CASE("criteo: 13 numbers as logarithms and 26 hashed words come by themselves") {
  DataFiles files;
  const std::string text =
      Line("1", "7", "68fd1e64") + Line("0", "-2", "") + Line("1", "", "68FD1E64");
  for (const std::string& path : {files.Write("a.tsv", text), files.WriteGzip("a.gz", text)}) {
    const auto data = MustLoad(CriteoSpec(path));
    REQUIRE(data->num_examples(Part::kTraining) == 3);
    CHECK(data->columns(Part::kTraining).size() == 40);
    const Ticket all = AllOf(*data, Part::kTraining);
    CHECK(Values<float>(*data, all, "label") == std::vector<float>{1, 0, 1});
    for (const char* name : {"I1", "I13"}) {
      CHECK(Values<float>(*data, all, name) ==
            std::vector<float>{std::log1p(7.0f), -std::log1p(2.0f), 0});
    }
    for (const char* name : {"C1", "C26"}) {
      CHECK(data->vocabulary_size(name) == kCriteoBuckets);
      CHECK(data->vocabulary(name) == nullptr);
      const std::vector<int64_t> ids = Values<int64_t>(*data, all, name);
      CHECK(ids[0] == data->Lookup(name, "68fd1e64"));
      CHECK(ids[1] == data->Lookup(name, ""));
      CHECK(ids[0] != ids[1]);
    }
  }
}

TEST_CASE("criteo: features that are given stand instead of the format's own") {
  DataFiles files;
  proto::DatasetSpec spec =
      CriteoSpec(files.Write("a", Line("1", "7", "aa") + Line("0", "9", "bb")));
  AddNumeric(&spec, "I3");
  AddCategorical(&spec, "word")->set_column("C4");
  const auto data = MustLoad(spec);
  const Ticket all = AllOf(*data, Part::kTraining);
  CHECK(data->columns(Part::kTraining).size() == 3);
  CHECK(Values<float>(*data, all, "I3") == std::vector<float>{7, 9});
  REQUIRE(data->vocabulary("word") != nullptr);
  CHECK(*data->vocabulary("word") == std::vector<std::string>{"aa", "bb"});
}

TEST_CASE("criteo: no buckets means ids of 64 bits") {
  proto::DatasetSpec spec = CriteoSpec("a");
  AddCriteoFeatures(0, &spec);
  REQUIRE(spec.features_size() == kCriteoNumbers + kCriteoWords);
  CHECK(spec.features(0).normalization() == proto::FeatureSpec::LOG1P);
  CHECK(spec.features(kCriteoNumbers).id() == "hash");
  CHECK(spec.features(kCriteoNumbers).hash_buckets() == 0);
  CHECK(CheckSpec(spec).status().message() == "");
}

TEST_CASE("criteo: errors name file, line, column, wanted and found") {
  DataFiles files;
  const std::string good = Line("0", "1", "ab");
  const auto error = [&](const std::string& text) {
    return LoadError(CriteoSpec(files.Write("x.tsv", text)));
  };
  CHECK_THAT(error(good + Line("2", "1", "ab")),
             EndsWith("x.tsv:2:1: field 1 (\"label\"): wanted 0 or 1, found \"2\""));
  CHECK_THAT(error(good + good + Line("", "1", "ab")),
             EndsWith("x.tsv:3:1: field 1 (\"label\"): wanted 0 or 1, found \"\""));
  CHECK_THAT(error(Line("0", "1.5", "ab")),
             EndsWith("x.tsv:1:3: field 2 (\"I1\"): wanted an integer, or nothing, found \"1.5\""));
  CHECK_THAT(error(Line("0", "-", "ab")),
             EndsWith("field 2 (\"I1\"): wanted an integer, or nothing, found \"-\""));
  CHECK_THAT(
      error(Line("0", "1", "xyz")),
      EndsWith("x.tsv:1:29: field 15 (\"C1\"): wanted a word of up to 16 hexadecimal digits, "
               "or nothing, found \"xyz\""));
  CHECK_THAT(error(Line("0", "1", "00112233445566778")),
             Catch::Matchers::Contains("field 15 (\"C1\"): wanted a word of up to 16"));
  CHECK_THAT(error(good + "0\t1\n"), Catch::Matchers::Contains("x.tsv:2:3: wanted 40 fields"));
  CHECK_THAT(error(good + good.substr(0, good.size() - 1) + "\textra\n"),
             Catch::Matchers::Contains(", found 41"));
  proto::DatasetSpec spec = CriteoSpec(files.Write("x.tsv", good));
  AddCategorical(&spec, "C27");
  CHECK_THAT(LoadError(spec), Catch::Matchers::Contains("wanted a column \"C27\""));
}

}  // namespace
}  // namespace coxswain::data
