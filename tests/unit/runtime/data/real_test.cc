// Real data sets, where COXSWAIN_DATA names a directory that has them.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

constexpr Part kTraining = Part::kTraining;
constexpr Part kTest = Part::kTest;

// The path of a file in COXSWAIN_DATA; empty, with a warning, when it is not there.
std::string RealFile(const std::string& name) {
  const char* directory = std::getenv("COXSWAIN_DATA");
  if (directory == nullptr) {
    WARN("skipped: COXSWAIN_DATA is not set, " << name << " is not tested");
    return "";
  }
  const auto path = std::filesystem::path(directory) / name;
  if (!std::filesystem::exists(path)) {
    WARN("skipped: no file " << path.string());
    return "";
  }
  return path.string();
}

TEST_CASE("real data: MovieLens ratings as a recommender and as a rating predictor") {
  const std::string path = RealFile("movielens/ratings.csv");
  if (path.empty()) return;
  auto spec = CsvSpec(path);
  AddCategorical(&spec, "user")->set_column("userId");
  proto::FeatureSpec* movie = AddCategorical(&spec, "movie");
  movie->set_column("movieId");
  movie->set_oov_buckets(1);
  AddNumeric(&spec, "timestamp")->set_normalization(proto::FeatureSpec::STANDARD);
  proto::FeatureSpec* history = AddCategorical(&spec, "seen");
  history->set_history_of("movie");
  history->set_group_by("userId");
  history->set_max_values(16);
  spec.mutable_label()->set_column("rating");
  spec.mutable_split()->set_holdout_per("userId");
  spec.set_shuffle(true);
  const auto data = MustLoad(spec);
  CHECK(data->num_examples(kTest) == 610);
  CHECK(data->num_examples(kTraining) == 100836 - 610);
  CHECK(data->vocabulary_size("user") == 610);
  // Of the 9,724 films some are rated once, in a row that is held out.
  const int64_t unknown = data->CountUnknown("movie", kTest);
  CHECK((unknown > 0 && unknown < 100));
  CHECK(data->vocabulary_size("movie") >= 9724 - unknown + 1);
  CHECK(data->vocabulary_size("movie") <= 9724);
  double sum = 0;
  double squares = 0;
  for (const float t : Values<float>(*data, AllOf(*data, kTraining), "timestamp")) {
    sum += t;
    squares += t * t;
  }
  const double count = static_cast<double>(data->num_examples(kTraining));
  CHECK(std::abs(sum / count) < 1e-5);
  CHECK(squares / count == Approx(1).epsilon(1e-4));
  for (const float rating : Values<float>(*data, AllOf(*data, kTest), "label")) {
    REQUIRE((rating >= 0.5f && rating <= 5.0f));
  }
  const auto offsets = Values<int32_t>(*data, {kTraining, 0, 0, 512}, "seen.offsets");
  for (size_t i = 0; i < 512; ++i) REQUIRE(offsets[i + 1] - offsets[i] == 16);
}

TEST_CASE("real data: MovieLens titles and genres, quoted and multi-valued") {
  const std::string path = RealFile("movielens/movies.csv");
  if (path.empty()) return;
  auto spec = CsvSpec(path);
  spec.mutable_csv()->set_quoting(true);
  AddCategorical(&spec, "title");
  proto::FeatureSpec* genres = AddCategorical(&spec, "genres");
  genres->set_multi_valued(true);
  genres->set_value_separator("|");
  const auto data = MustLoad(spec);
  CHECK(data->num_examples(kTraining) == 9742);
  CHECK(data->vocabulary_size("genres") == 20);  // 19 and "(no genres listed)"
  CHECK((*data->vocabulary("genres"))[0] == "Drama");
  CHECK(data->Lookup("title", "American President, The (1995)").has_value());
}

TEST_CASE("real data: agaricus as libsvm with a test file of its own") {
  const std::string path = RealFile("agaricus/agaricus.txt.train");
  if (path.empty()) return;
  proto::DatasetSpec spec;
  spec.set_format("libsvm");
  spec.add_paths(path);
  spec.mutable_split()->add_test_paths(RealFile("agaricus/agaricus.txt.test"));
  spec.set_libsvm_features(126);
  const auto data = MustLoad(spec);
  CHECK(data->num_examples(kTraining) == 6513);
  CHECK(data->num_examples(kTest) == 1611);
  double positive = 0;
  for (const float y : Values<float>(*data, AllOf(*data, kTraining), "label")) positive += y;
  CHECK(positive == 3140);
  CHECK(Values<int32_t>(*data, {kTraining, 0, 0, 2}, "features.offsets") ==
        std::vector<int32_t>{0, 22, 44});
  CHECK(Values<int64_t>(*data, {kTraining, 0, 0, 1}, "features.values")[0] == 2);
}

TEST_CASE("real data: iris with given names for its odd header") {
  const std::string path = RealFile("iris/iris_training.csv");
  if (path.empty()) return;
  auto spec = CsvSpec(path);
  for (const char* name : {"a", "b", "c", "d", "species"}) spec.mutable_csv()->add_columns(name);
  for (const char* name : {"a", "b", "c", "d"}) {
    AddNumeric(&spec, name)->set_normalization(proto::FeatureSpec::MIN_MAX);
  }
  proto::FeatureSpec* species = AddCategorical(&spec, "species");
  for (const char* name : {"0", "1", "2"}) species->add_vocabulary(name);
  spec.mutable_label()->set_feature("species");
  spec.mutable_split()->add_test_paths(RealFile("iris/iris_test.csv"));
  const auto data = MustLoad(spec);
  CHECK(data->num_examples(kTraining) == 120);
  CHECK(data->num_examples(kTest) == 30);
  CHECK(data->training_counts("species") == std::vector<int64_t>{42, 36, 42});
  for (const float a : Values<float>(*data, AllOf(*data, kTraining), "a")) {
    REQUIRE((a >= 0 && a <= 1));
  }
}

}  // namespace
}  // namespace coxswain::data
