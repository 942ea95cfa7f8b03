// The library's handle on a saved model.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/predict/raw_rows.h"
#include "coxswain/saved_model.h"
#include "tests/testing/saved_jobs.h"

namespace coxswain::predict {
namespace {

using Catch::Matchers::Contains;
using testing::Must;

constexpr char kHead[] = "n,x,tags,y\n";

std::string Rows() {
  std::string rows = kHead;
  for (int i = 0; i < 60; ++i) {
    absl::StrAppend(&rows, i % 10, ",v", i % 3, ",t", i % 2, "|t", i % 5, ",", i % 2, "\n");
  }
  return rows;
}

SavedJob Train(const DataFiles& files, const std::string& rest) {
  files.Write("train.csv", Rows());
  files.Write("test.csv", Rows());
  return TrainAndSave(
      files,
      absl::StrCat("dataset: {path: train.csv}\nfeatures:\n", "  - {name: n, kind: numeric}\n",
                   "  - {name: x, kind: categorical, oov_buckets: 1}\n",
                   "  - {name: tags, kind: categorical, value_separator: \"|\"}\n",
                   "split: {test_path: test.csv}\ntrain: {batch_size: 16}\n", rest));
}

TEST_CASE("saved model: rows of raw values get the predictions that evaluation made", "[predict]") {
  const DataFiles files;
  const SavedJob saved = Train(files, "label: {column: y}\nmodel: {kind: mlp, hidden: [4]}\n");
  const SavedModel model = Must(SavedModel::Load(saved.directory));
  CHECK(model.says() == SavedModel::Says::kProbability);
  REQUIRE(model.columns().size() == 3);
  CHECK(model.columns()[2].kind == RawColumn::Kind::kValues);
  RawRows rows = {.columns = {"tags", "x", "extra", "n"}};
  for (int i = 0; i < 60; ++i) {
    const std::vector<std::string> tags = {absl::StrCat("t", i % 2), absl::StrCat("t", i % 5)};
    RawValue number = int64_t{i % 10};
    if (i % 3 == 1) number = static_cast<double>(i % 10);
    if (i % 3 == 2) number = absl::StrCat(i % 10);
    rows.rows.push_back({tags, absl::StrCat("v", i % 3), std::monostate(), number});
  }
  const std::vector<Prediction> predictions = Must(model.Predict(rows));
  REQUIRE(predictions.size() == saved.predictions.size());
  for (size_t i = 0; i < predictions.size(); ++i) {
    CHECK(std::abs(predictions[i].value - saved.predictions[i]) <= 1e-6f);
    CHECK(1 / (1 + std::exp(-predictions[i].score)) == Approx(predictions[i].value));
    CHECK(predictions[i].choices.empty());
  }
  CHECK(Must(model.Predict({.columns = rows.columns, .rows = {}})).empty());
}

TEST_CASE("saved model: what is said of a row does not depend on the rows around it", "[predict]") {
  const DataFiles files;
  files.Write("train.csv", Rows());
  const SavedJob saved =
      TrainAndSave(files,
                   "dataset: {path: train.csv}\nfeatures:\n"
                   "  - {name: tags, kind: categorical, value_separator: \"|\", max_values: 2}\n"
                   "label: {column: y}\nmodel: {kind: mlp, hidden: [4]}\ntrain: {batch_size: 16}\n"
                   "tables: {tags: {init_stddev: 1}}\n");
  const SavedModel model = Must(SavedModel::Load(saved.directory));
  const std::vector<std::string> tags = {"t0", "t1", "t2", "t3", "t4"};
  RawRows rows = {.columns = {"tags"}};
  for (int i = 0; i < 10; ++i) rows.rows.push_back({tags});
  const std::vector<Prediction> predictions = Must(model.Predict(rows));
  for (const Prediction& prediction : predictions) CHECK(prediction.score == predictions[0].score);
}

TEST_CASE("saved model: what is wrong with rows is told by row and column", "[predict]") {
  const DataFiles files;
  const SavedJob saved = Train(files, "label: {column: y}\nmodel: {kind: mlp, hidden: [4]}\n");
  const SavedModel model = Must(SavedModel::Load(saved.directory));
  const auto error = [&](const RawRows& rows) {
    return std::string(model.Predict(rows).status().message());
  };
  CHECK_THAT(error({.columns = {"n", "x"}, .rows = {{1.0, "v1"}}}), Contains("\"tags\""));
  const std::vector<std::string> columns = {"n", "x", "tags"};
  CHECK_THAT(error({.columns = columns, .rows = {{1.0, "v1", "t1"}, {1.0, "v1"}}}),
             Contains("rows[1]: wanted 3 values, found 2"));
  CHECK_THAT(error({.columns = columns, .rows = {{"one", "v1", "t1"}}}),
             Contains("rows[0]: column \"n\"") && Contains("\"one\""));
  const std::vector<std::string> no_value = {"t1|t2"};
  CHECK_THAT(error({.columns = columns, .rows = {{1.0, "v1", no_value}}}),
             Contains("column \"tags\"") && Contains("stands between values"));
  const std::vector<std::string> two = {"a", "b"};
  CHECK_THAT(error({.columns = columns, .rows = {{1.0, two, "t1"}}}),
             Contains("column \"x\"") && Contains("wanted one value"));
  CHECK(absl::IsNotFound(SavedModel::Load(files.Path("nothing")).status()));
}

TEST_CASE("saved model: a text for a list is what it is in a field of a file", "[predict]") {
  const DataFiles files;
  const SavedJob saved = Train(files, "label: {column: y}\nmodel: {kind: mlp, hidden: [4]}\n");
  const SavedModel model = Must(SavedModel::Load(saved.directory));
  const std::vector<std::string> two = {"t1", "t2"};
  const auto says = Must(model.Predict(
      {.columns = {"n", "x", "tags"}, .rows = {{1.0, "v1", "t1|t2"}, {1.0, "v1", two}}}));
  CHECK(says[0].score == says[1].score);
}

TEST_CASE("saved model: a number is written as the shortest text that reads the same",
          "[predict]") {
  CHECK(TextOf(3) == "3");
  CHECK(TextOf(0.1) == "0.1");
  CHECK(TextOf(-2.5e30) == "-2.5e+30");
}

}  // namespace
}  // namespace coxswain::predict
