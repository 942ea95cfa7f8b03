#include "runtime/data/vocabulary.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/vocabulary_file.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using proto::FeatureSpec;
using Ids = std::vector<int64_t>;
using Texts = std::vector<std::string>;

constexpr Part kTraining = Part::kTraining;

// Training: a 1, b 3, "" 1, c 2; test: d and b.
proto::DatasetSpec Letters(const DataFiles& files, const std::string& header = "x") {
  auto spec = CsvSpec(files.Write("train.csv", header + ",i\na,1\nb,2\n,3\nc,4\nb,5\nc,6\nb,7\n"));
  spec.mutable_split()->add_test_paths(files.Write("test.csv", header + ",i\nd,1\nb,2\n"));
  return spec;
}

TEST_CASE("vocabulary: learned ids go by falling training count, then by first appearance") {
  DataFiles files;
  auto spec = Letters(files);
  AddCategorical(&spec, "x")->set_oov_buckets(1);
  const auto data = MustLoad(spec);
  // The empty field is a value like any other; no training row has "d".
  CHECK(*data->vocabulary("x") == Texts{"b", "c", "a", ""});
  CHECK(data->vocabulary_size("x") == 5);
  CHECK(data->training_counts("x") == Ids{3, 2, 1, 1, 0});
  CHECK(Values<int64_t>(*data, AllOf(*data, kTraining), "x") == Ids{2, 0, 3, 1, 0, 1, 0});
  CHECK(Values<int64_t>(*data, AllOf(*data, Part::kTest), "x") == Ids{4, 0});
  CHECK(data->Lookup("x", "c") == 1);
  CHECK(data->Lookup("x", "") == 3);
  CHECK(data->Lookup("x", "z") == 4);
  CHECK_FALSE(data->Lookup("y", "c").has_value());
  CHECK(data->vocabulary_size("y") == 0);
  CHECK(data->vocabulary("y") == nullptr);
  CHECK(data->training_counts("y").empty());
}

// To look up all that follow again behind each of them would take hours.
TEST_CASE("vocabulary: however many values of lists are outside of it, the others have their ids") {
  DataFiles files;
  std::string text = "tags,y\n";
  constexpr int kRows = 900;
  for (int row = 0; row < kRows; ++row) {
    text += "a";
    for (int i = 0; i < 1000; ++i) text += row % 2 == 0 || i % 5 > 0 ? " z" : " b";
    text += row % 3 == 0 ? " a,1\n" : ",1\n";
  }
  auto spec = CsvSpec(files.Write("tags.csv", text));
  FeatureSpec* const tags = AddCategorical(&spec, "tags");
  tags->set_multi_valued(true);
  tags->set_value_separator(" ");
  for (const char* value : {"a", "b"}) tags->add_vocabulary(value);
  const auto data = MustLoad(spec);
  const Ticket all = AllOf(*data, kTraining);
  REQUIRE(all.size() == kRows);
  const std::vector<int32_t> offsets = Values<int32_t>(*data, all, "tags.offsets");
  for (int row = 0; row < kRows; ++row) {
    const auto at = static_cast<size_t>(row);
    REQUIRE(offsets[at + 1] - offsets[at] == 1 + (row % 2 == 0 ? 0 : 200) + (row % 3 == 0 ? 1 : 0));
  }
  const Ids ids = Values<int64_t>(*data, {kTraining, 0, 3, 4}, "tags.values");
  CHECK(std::count(ids.begin(), ids.end(), 1) == 200);
  CHECK((ids.front() == 0 && ids.back() == 0));
}

TEST_CASE("vocabulary: min_count and max_size keep frequent values, the rest goes to buckets") {
  DataFiles files;
  auto spec = Letters(files);
  FeatureSpec* x = AddCategorical(&spec, "x");
  x->set_min_count(2);
  x->set_oov_buckets(3);
  auto data = MustLoad(spec);
  CHECK(*data->vocabulary("x") == Texts{"b", "c"});
  CHECK(data->vocabulary_size("x") == 5);
  const Ids ids = Values<int64_t>(*data, AllOf(*data, kTraining), "x");
  CHECK(ids[1] == 0);
  CHECK(ids[3] == 1);
  CHECK((ids[0] >= 2 && ids[0] < 5));
  CHECK(data->Lookup("x", "a") == ids[0]);
  CHECK(data->Lookup("x", "never seen").has_value());
  CHECK(Values<int64_t>(*data, AllOf(*data, Part::kTest), "x")[0] == *data->Lookup("x", "d"));
  x->set_min_count(0);
  x->set_max_size(1);
  data = MustLoad(spec);
  CHECK(*data->vocabulary("x") == Texts{"b"});
  CHECK(data->vocabulary_size("x") == 4);
  // Values of other parts alone never make it into a limited vocabulary.
  x->set_max_size(100);
  CHECK(*MustLoad(spec)->vocabulary("x") == Texts{"b", "c", "a", ""});
}

TEST_CASE(
    "vocabulary: without buckets, values that are left out are an error, or no values of a list") {
  DataFiles files;
  auto spec = Letters(files);
  FeatureSpec* x = AddCategorical(&spec, "x");
  x->set_min_count(2);
  CHECK_THAT(LoadError(spec), Contains("feature \"x\"") && Contains("leave out 3 of 5 values") &&
                                  Contains("such as \"a\" (in 1 training rows; ") &&
                                  Contains("wanted oov_buckets >= 1"));
  x->set_multi_valued(true);
  x->set_value_separator("|");
  const auto data = MustLoad(spec);
  CHECK(data->vocabulary_size("x") == 2);
  const Ticket all = AllOf(*data, kTraining);
  CHECK(Values<int64_t>(*data, all, "x.values") == Ids{0, 1, 0, 1, 0});
  CHECK(Values<int32_t>(*data, all, "x.offsets") == std::vector<int32_t>{0, 0, 1, 1, 2, 3, 4, 5});
}

TEST_CASE("vocabulary: listed values have the ids of their order, in the spec or in a file") {
  DataFiles files;
  auto spec = Letters(files);
  FeatureSpec* x = AddCategorical(&spec, "x");
  for (const char* text : {"d", "c", "b", ""}) x->add_vocabulary(text);
  CHECK_THAT(LoadError(spec), EndsWith("train.csv:2:1: field 1 (\"x\"): wanted a value of the "
                                       "vocabulary (other values need oov_buckets), found \"a\""));
  x->set_oov_buckets(1);
  auto data = MustLoad(spec);
  const Ids wanted{4, 2, 3, 1, 2, 1, 2};
  CHECK(Values<int64_t>(*data, AllOf(*data, kTraining), "x") == wanted);
  x->clear_vocabulary();
  x->set_vocabulary_file(files.Write("words.txt", "d\r\nc\r\nb\r\n\r\n"));
  data = MustLoad(spec);
  CHECK(*data->vocabulary("x") == Texts{"d", "c", "b", ""});
  CHECK(Values<int64_t>(*data, AllOf(*data, kTraining), "x") == wanted);
  // What is in the file counts for the fingerprint, not where it is.
  const uint64_t print = data->fingerprint();
  x->set_vocabulary_file(files.Write("moved.txt", "d\r\nc\r\nb\r\n\r\n"));
  CHECK(MustLoad(spec)->fingerprint() == print);
  x->set_vocabulary_file(files.Write("changed.txt", "d\nc\nb\n\n"));
  CHECK(MustLoad(spec)->fingerprint() != print);
  x->set_vocabulary_file(files.Write("twice.txt", "d\nc\nd\n"));
  CHECK_THAT(LoadError(spec), EndsWith("twice.txt:3:1: wanted each value once, found \"d\", which "
                                       "is in line 1 too"));
  x->set_vocabulary_file(files.Path("none.txt"));
  CHECK(Dataset::Load(spec).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("vocabulary: a file of a saved model is read as it was written, any other as it is") {
  DataFiles files;
  auto spec = CsvSpec(files.Write("a.csv", "x\nc\\d\n"));
  FeatureSpec* x = AddCategorical(&spec, "x");
  x->set_oov_buckets(1);
  const Texts values = {"a\nb", "c\\d"};
  std::filesystem::create_directory(files.Path("vocabulary"));
  const std::string lines = VocabularyLines(values);
  x->set_vocabulary_file(files.Write("vocabulary/x.txt", lines));
  CHECK(*MustLoad(spec)->vocabulary("x") == Texts{"a\\nb", "c\\\\d"});
  // Not a model's.
  files.Write("features.json", "[]");
  CHECK_FALSE(IsSavedVocabulary(x->vocabulary_file()));
  files.Write("features.json", "{\"format\": \"coxswain-features\"}");
  CHECK(IsSavedVocabulary(x->vocabulary_file()));
  CHECK_FALSE(IsSavedVocabulary(files.Write("x.txt", lines)));
  CHECK(*MustLoad(spec)->vocabulary("x") == values);
  CHECK(MustLoad(spec)->CountUnknown("x", kTraining) == 0);
}

TEST_CASE("vocabulary: hash buckets spread values and need no vocabulary") {
  DataFiles files;
  std::string text = "x\n";
  for (int i = 0; i < 10000; ++i) absl::StrAppend(&text, "value", i, "\n");
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddCategorical(&spec, "x")->set_hash_buckets(16);
  auto data = MustLoad(spec);
  CHECK(data->vocabulary("x") == nullptr);
  CHECK(data->vocabulary_size("x") == 16);
  for (const int64_t count : data->training_counts("x")) CHECK((count > 500 && count < 750));
  CHECK(Values<int64_t>(*data, {kTraining, 0, 7, 8}, "x")[0] == *data->Lookup("x", "value7"));
  // More buckets than 32 bits can number.
  spec.mutable_features(0)->set_hash_buckets(int64_t{1} << 40);
  data = MustLoad(spec);
  int64_t largest = 0;
  const Ids ids = Values<int64_t>(*data, AllOf(*data, kTraining), "x");
  for (size_t i = 0; i < ids.size(); ++i) {
    REQUIRE(data->Lookup("x", absl::StrCat("value", i)) == ids[i]);
    largest = std::max(largest, ids[i]);
  }
  CHECK(largest > int64_t{1} << 39);
  CHECK(largest < int64_t{1} << 40);
}

TEST_CASE("spec: what contradicts itself is refused before a file is opened") {
  proto::DatasetSpec good = CsvSpec("no such file.csv");
  AddNumeric(&good, "n");
  AddCategorical(&good, "c");
  const auto error = [&good](auto change) {
    proto::DatasetSpec spec = good;
    change(&spec);
    const auto loaded = Dataset::Load(spec);
    REQUIRE_FALSE(loaded.ok());
    CHECK(loaded.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(loaded.status().message());
  };
  CHECK(Dataset::Load(good).status().code() == absl::StatusCode::kNotFound);
  using Spec = proto::DatasetSpec;
  CHECK_THAT(error([](Spec* s) { s->set_format("tsv"); }), Contains("found \"tsv\""));
  CHECK_THAT(error([](Spec* s) { s->clear_paths(); }), Contains("at least one path"));
  CHECK_THAT(error([](Spec* s) { AddNumeric(s, "n"); }), Contains("two features are named \"n\""));
  CHECK_THAT(error([](Spec* s) { s->add_features(); }), Contains("neither a name nor a column"));
  CHECK_THAT(error([](Spec* s) { s->mutable_features(0)->set_hash_buckets(3); }),
             Contains("feature \"n\""));
  CHECK_THAT(error([](Spec* s) { s->mutable_features(0)->set_multi_valued(true); }),
             Contains("feature \"n\""));
  CHECK_THAT(error([](Spec* s) {
               s->mutable_features(1)->set_hash_buckets(3);
               s->mutable_features(1)->set_min_count(2);
             }),
             Contains("at most one of"));
  CHECK_THAT(error([](Spec* s) { s->mutable_features(1)->set_oov_buckets(-1); }),
             Contains("found -1"));
  CHECK_THAT(error([](Spec* s) { s->mutable_features(1)->set_max_values(2); }),
             Contains("max_values"));
  CHECK_THAT(error([](Spec* s) {
               s->mutable_features(1)->add_vocabulary("a");
               s->mutable_features(1)->add_vocabulary("a");
             }),
             Contains("found \"a\" twice"));
  CHECK_THAT(error([](Spec* s) { s->mutable_features(1)->set_normalization(FeatureSpec::LOG1P); }),
             Contains("normalization"));
  CHECK_THAT(error([](Spec* s) { AddCategorical(s, "h")->set_history_of("d"); }),
             Contains("found \"d\"; did you mean \"n\"? there are: n, c, h") ||
                 Contains("found \"d\"; did you mean \"c\"? there are: n, c, h"));
  CHECK_THAT(error([](Spec* s) { AddCategorical(s, "h")->set_history_of("n"); }),
             Contains("categorical feature of one value"));
  CHECK_THAT(error([](Spec* s) { AddCategorical(s, "h")->set_history_of("c"); }),
             Contains("needs group_by"));
  CHECK_THAT(error([](Spec* s) {
               for (const char* name : {"h", "i"}) {
                 FeatureSpec* history = AddCategorical(s, name);
                 history->set_history_of("c");
                 history->set_group_by("c");
               }
             }),
             Contains("one feature with history_of"));
  CHECK_THAT(error([](Spec* s) { s->mutable_label()->set_feature("n"); }), Contains("label:"));
  CHECK_THAT(error([](Spec* s) { s->mutable_label()->set_feature("q"); }), Contains("label:"));
  CHECK_THAT(error([](Spec* s) {
               s->mutable_label()->set_feature("c");
               s->mutable_label()->set_column("c");
             }),
             Contains("found both"));
  CHECK_THAT(error([](Spec* s) {
               s->mutable_label()->set_column("c");
               s->mutable_label()->set_positive_comparison("=>");
             }),
             Contains("found \"=>\""));
  CHECK_THAT(error([](Spec* s) { s->mutable_split()->set_test_fraction(1); }),
             Contains("together below 1"));
  CHECK_THAT(error([](Spec* s) { s->mutable_split()->set_test_fraction(NAN); }),
             Contains("together below 1"));
  CHECK_THAT(error([](Spec* s) {
               s->mutable_split()->set_test_fraction(0.1);
               s->mutable_split()->add_test_paths("x");
             }),
             Contains("found both"));
}

TEST_CASE("spec: two batch columns of one name are refused") {
  DataFiles files;
  auto spec = Letters(files, "label");
  AddNumeric(&spec, "i");
  AddCategorical(&spec, "label")->set_oov_buckets(1);
  MustLoad(spec);
  spec.mutable_label()->set_column("i");
  CHECK_THAT(LoadError(spec), Contains("found \"label\" twice"));
}

}  // namespace
}  // namespace coxswain::data
