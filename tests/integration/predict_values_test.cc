// What a value is in each format of rows to predict: missing values, and what is in histories.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/jobs.h"
#include "tests/testing/arrow_specs.h"
#include "tests/testing/same_scores.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

struct Model {
  Model(const std::string& rows, const std::string& job) {
    files.Write("rows.csv", rows);
    const auto trained =
        Coxswain({"train", files.Write("job.yaml", job), "--in-process", "--quiet", "--model-dir",
                  files.Path("model"), "--set", "checkpoint.ps_return_seconds=0.5"});
    INFO(trained.err);
    REQUIRE(trained.code == 0);
  }
  Process::Result Predict(const std::string& input, const std::string& format) const {
    return Coxswain({"predict", "--model-dir", files.Path("model"), "--input", input,
                     "--input-format", format});
  }
  std::string Scores(const std::string& input, const std::string& format) const {
    const auto result = Predict(input, format);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.out;
  }

  DataFiles files;
};

TEST_CASE("predict: what stands for a missing value does so in every format", "[predict][arrow]") {
  std::string rows = "color,size,label\n";
  for (int i = 0; i < 30; ++i) {
    absl::StrAppend(&rows, "red,1,1\nNA,-9,0\nblue,3,0\n?,2,0\nred,-9,1\n");
  }
  const Model model(rows, R"(name: missing
dataset: {path: rows.csv, missing_values: [NA, "?", "-9"]}
features:
  - {name: color, kind: categorical, oov_buckets: 1}
  - {name: size, kind: numeric, missing_value: 5}
label: {column: label}
train: {epochs: 5, batch_size: 32}
model: {kind: logistic_regression}
)");
  const std::string csv =
      model.files.Write("some.csv", "color,size\nred,-9\nNA,1\n?,-9\n,2\nblue,3\n");
  const std::string wanted = model.Scores(csv, "csv");
  const std::string lines = model.files.Write("some.jsonl", R"({"color": "red", "size": -9}
{"color": "NA", "size": 1}
{"color": "?", "size": "-9"}
{"color": null, "size": 2}
{"color": "blue", "size": 3}
)");
  CheckSameScores(model.Scores(lines, "jsonl"), wanted);
  if (!HasArrow()) return;
  for (const char* type : {"color:text", "color:category"}) {
    CAPTURE(type);
    const std::string parquet =
        WriteParquet(model.files, csv, absl::StrCat(type, ".parquet"), 3, {type, "size:i32"});
    CheckSameScores(model.Scores(parquet, "parquet"), wanted);
  }
}

// Whether the label is 1 depends on what the user had before, and on nothing else.
std::string JobOfHistories(const std::string& data) {
  return absl::StrCat("name: histories\ndataset: {path: rows.csv", data, R"(}
features:
  - {name: item, kind: categorical, dim: 4}
  - {name: past, kind: history, history_of: item, group_by: user, by: time, max_values: 1}
label: {column: label}
train: {epochs: 20, batch_size: 32}
model: {kind: mlp, features: [past], hidden: []}
optimizer: {table: {kind: adagrad, learning_rate: 0.5}}
)");
}

std::string RowsOfHistories(const std::string& one, const std::string& other) {
  std::string rows = "user,time,item,label\n";
  for (int user = 0; user < 60; ++user) {
    const bool yes = user % 2 == 0;
    absl::StrAppend(&rows, "u", user, ",1,", yes ? one : other, ",0\n");
    absl::StrAppend(&rows, "u", user, ",2,", other, ",", yes ? 1 : 0, "\n");
  }
  return rows;
}

double Score(const std::string& out, size_t row) {
  const std::vector<std::string> lines = absl::StrSplit(out, '\n', absl::SkipEmpty());
  REQUIRE(row + 1 < lines.size());
  double score = 0;
  REQUIRE(
      absl::SimpleAtod(std::vector<std::string>(absl::StrSplit(lines[row + 1], ','))[0], &score));
  return score;
}

TEST_CASE("predict: the empty text in a history is the value that it was in training",
          "[predict][arrow]") {
  const std::string missing = GENERATE("", "NA");
  CAPTURE(missing);
  const Model model(RowsOfHistories(missing, "b"), JobOfHistories(", missing_values: [NA]"));
  const std::string lines = model.files.Write("some.jsonl", R"({"past": [""]}
{"past": ["b"]}
{"past": ["b", "NA"]}
{"past": ["b", null]}
{"past": []}
)");
  const std::string scores = model.Scores(lines, "jsonl");
  CHECK(Score(scores, 0) > 1);
  CHECK(Score(scores, 1) < -1);
  CHECK(Score(scores, 2) == Approx(Score(scores, 0)));
  CHECK(Score(scores, 3) == Approx(Score(scores, 0)));
  CHECK(Score(scores, 4) < Score(scores, 0));
  const std::string texts =
      model.Scores(model.files.Write("some.csv", "past\nb|\nb\n|b\n\"\"\n"), "csv");
  CHECK(Score(texts, 0) == Approx(Score(scores, 0)));
  CHECK(Score(texts, 1) == Approx(Score(scores, 1)));
  CHECK(Score(texts, 2) == Approx(Score(scores, 1)));
  CHECK(Score(texts, 3) == Approx(Score(scores, 4)));
  if (!HasArrow()) return;
  const std::string parquet =
      WriteParquet(model.files, model.files.Write("lists.csv", "past\nb|NA\nb\n"), "lists.parquet",
                   10, {"past:texts"});
  const std::string lists = model.Scores(parquet, "parquet");
  CHECK(Score(lists, 0) == Approx(Score(scores, 0)));
  CHECK(Score(lists, 1) == Approx(Score(scores, 1)));
}

TEST_CASE("predict: what a field of csv would cut in pieces is wanted as a list", "[predict]") {
  const Model model(RowsOfHistories("Action|A", "b"), JobOfHistories(""));
  const std::string csv = model.files.Write("some.csv", "past\nAction|A\n");
  const auto refused = model.Predict(csv, "csv");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("history \"past\": its value \"Action|A\" holds \"|\"") &&
                              Contains("--input-format jsonl"));
  const std::string scores = model.Scores(
      model.files.Write("some.jsonl", "{\"past\": [\"Action|A\"]}\n{\"past\": [\"b\"]}\n"),
      "jsonl");
  CHECK(Score(scores, 0) > 1);
  CHECK(Score(scores, 1) < -1);
}

}  // namespace
}  // namespace coxswain
