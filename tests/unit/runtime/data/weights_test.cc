// Weights of several values in one CSV field.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/dataset.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using proto::FeatureSpec;
using Floats = std::vector<float>;
using Ids = std::vector<int64_t>;
using Offsets = std::vector<int32_t>;

constexpr Part kTraining = Part::kTraining;

FeatureSpec* AddWeighted(proto::DatasetSpec* spec, const std::string& name,
                         const std::string& separator = "|") {
  FeatureSpec* feature = AddCategorical(spec, name);
  feature->set_multi_valued(true);
  feature->set_value_separator(separator);
  feature->set_weight_separator(":");
  return feature;
}

TEST_CASE("data set: values of a field have weights, 1 where there is none") {
  DataFiles files;
  auto spec = CsvSpec(
      files.Write("a.csv", "tags,words\na:0.5|b:2,to:-1 be\n,\nb: 1e1 |k:v:3||c,  to:0.25\n"));
  AddWeighted(&spec, "tags");
  AddWeighted(&spec, "words", "");
  const auto data = MustLoad(spec);
  const Ticket all = AllOf(*data, kTraining);
  std::vector<std::string> names;
  for (const ColumnSpec& column : data->columns(kTraining)) names.push_back(column.name);
  CHECK(names == std::vector<std::string>{"tags.values", "tags.offsets", "tags.weights",
                                          "words.values", "words.offsets", "words.weights"});
  // Names are told apart without their weights; a separator may be part of a name.
  CHECK(*data->vocabulary("tags") == std::vector<std::string>{"b", "a", "k:v", "c"});
  CHECK(Values<int64_t>(*data, all, "tags.values") == Ids{1, 0, 0, 2, 3});
  CHECK(Values<int32_t>(*data, all, "tags.offsets") == Offsets{0, 2, 2, 5});
  CHECK(Values<float>(*data, all, "tags.weights") == Floats{0.5, 2, 10, 3, 1});
  CHECK(Values<int64_t>(*data, all, "words.values") == Ids{0, 1, 0});
  CHECK(Values<float>(*data, all, "words.weights") == Floats{-1, 1, 0.25});
  CHECK(Values<float>(*data, {kTraining, 0, 2, 3}, "tags.weights") == Floats{10, 3, 1});
}

TEST_CASE("data set: weights stay with their values when values are left out or sampled") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "t,u,h\na:1|b:2|a:3,a:1|x:9|b:2,a:5|b:6\nb:4,,\n"));
  AddWeighted(&spec, "t")->set_min_count(2);
  FeatureSpec* listed = AddWeighted(&spec, "u");
  listed->add_vocabulary("b");
  listed->add_vocabulary("a");
  AddWeighted(&spec, "h")->set_id("hash");
  const auto data = MustLoad(spec);
  const Ticket all = AllOf(*data, kTraining);
  // Both are there twice; then only "a", which comes first.
  CHECK(Values<float>(*data, all, "t.weights") == Floats{1, 2, 3, 4});
  CHECK(Values<int64_t>(*data, all, "u.values") == Ids{1, 0});
  CHECK(Values<float>(*data, all, "u.weights") == Floats{1, 2});
  CHECK(Values<int64_t>(*data, all, "h.values").size() == 2);
  CHECK(Values<float>(*data, all, "h.weights") == Floats{5, 6});
  spec.mutable_features(0)->set_min_count(0);
  spec.mutable_features(0)->set_max_size(1);
  const auto most = MustLoad(spec);
  CHECK(Values<int64_t>(*most, all, "t.values") == Ids{0, 0});
  CHECK(Values<float>(*most, all, "t.weights") == Floats{1, 3});

  std::string text = "t\n";
  for (int row = 0; row < 50; ++row) text += "0:0|1:1|2:2|3:3|4:4|5:5|6:6|7:7|8:8|9:9\n";
  auto sampled = CsvSpec(files.Write("b.csv", text));
  FeatureSpec* t = AddWeighted(&sampled, "t");
  t->set_id("raw");
  t->set_max_values(3);
  const auto some = MustLoad(sampled);
  const Ticket rows = AllOf(*some, kTraining);
  const Ids values = Values<int64_t>(*some, rows, "t.values");
  REQUIRE(values.size() == 150);
  CHECK(Values<float>(*some, rows, "t.weights") == Floats(values.begin(), values.end()));
}

TEST_CASE("data set: a weight that is no finite number names file, line, column and value") {
  DataFiles files;
  for (const std::string bad :
       {"x:", "x:y", "x:nan", "x:inf", "x:-inf", "x:1e39", "x:1,5", ":2", "x:0x10"}) {
    INFO(bad);
    auto spec = CsvSpec(files.Write("a.csv", "id,t\n1,a:1\n2,\"b|" + bad + "|c:1\"\n"));
    spec.mutable_csv()->set_quoting(true);
    AddWeighted(&spec, "t");
    CHECK_THAT(LoadError(spec),
               Contains("a.csv:3:3: field 2 (\"t\"): wanted a value, \":\" and a weight that is a "
                        "finite number (f32) in place of \"" +
                        bad + "\", found "));
    // Also of a value that has no id.
    spec.mutable_features(0)->add_vocabulary("a");
    CHECK_THAT(LoadError(spec), Contains("in place of \"" + bad + "\""));
  }
  auto spec = CsvSpec(files.Write("a.csv", "t\nx:1\n"));
  AddWeighted(&spec, "t")->set_id("raw");
  CHECK_THAT(LoadError(spec), EndsWith("wanted an integer of 64 bits (the feature's id is raw), "
                                       "found \"x:1\""));
}

TEST_CASE("data set: weights are refused where there are none to read") {
  DataFiles files;
  const std::string path = files.Write("a.csv", "t,u\na,1\n");
  const auto error = [&](auto change) {
    auto spec = CsvSpec(path);
    AddCategorical(&spec, "u");
    change(AddWeighted(&spec, "t"));
    return LoadError(spec);
  };
  CHECK_THAT(
      error([](FeatureSpec* f) { f->set_kind(FeatureSpec::NUMERIC), f->set_multi_valued(false); }),
      Contains("feature \"t\": weight_separator is for categorical features"));
  CHECK_THAT(error([](FeatureSpec* f) { f->set_multi_valued(false); }),
             Contains("weight_separator is for multi_valued features"));
  CHECK_THAT(error([](FeatureSpec* f) { f->set_history_of("u"), f->set_group_by("t"); }),
             Contains("a history is counted, not read: it has no weight_separator"));
  for (const auto& [values, weights] : std::vector<std::pair<std::string, std::string>>{
           {"|", "|"}, {"::", ":"}, {":", "::"}, {"", " "}}) {
    CHECK_THAT(error([&, v = values, w = weights](FeatureSpec* f) {
                 f->set_value_separator(v), f->set_weight_separator(w);
               }),
               Contains("weight_separator: wanted another one than between values, found \"" +
                        weights + "\""));
  }
  for (const char* in_numbers : {".", "-", "1", "\n"}) {
    CHECK_THAT(error([&](FeatureSpec* f) { f->set_weight_separator(in_numbers); }),
               Contains("in no number and no end of a line"));
  }
  proto::DatasetSpec libsvm;
  libsvm.set_format("libsvm");
  libsvm.add_paths(files.Write("a.txt", "1 2:0.5\n"));
  AddWeighted(&libsvm, "features");
  CHECK_THAT(LoadError(libsvm), Contains("the values of libsvm are weights already"));
}

}  // namespace
}  // namespace coxswain::data
