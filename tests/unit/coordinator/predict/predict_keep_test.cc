// Columns of the input that predictions come with: as they are in the file, beside what was
// predicted of their own row.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "coordinator/predict/predict_file.h"
#include "tests/testing/arrow_specs.h"
#include "tests/testing/saved_jobs.h"

namespace coxswain::predict {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using testing::Must;

constexpr char kJob[] =
    "dataset: {path: train.csv, missing_values: [NA]}\n"
    "features:\n"
    "  - {name: shop, kind: categorical, oov_buckets: 1}\n"
    "  - {name: age, kind: numeric}\n"
    "label: {column: bought}\ntrain: {batch_size: 16}\n";
constexpr char kRegression[] = "model: {kind: linear_regression}\nloss: {kind: mse}\n";

// A model whose predictions tell rows apart.
struct Model {
  explicit Model(const std::string& rest = kRegression) {
    std::string rows = "shop,age,bought\n";
    for (int i = 0; i < 64; ++i) absl::StrAppend(&rows, "s", i % 5, ",", i % 9, ",", i % 9, "\n");
    files.Write("train.csv", rows);
    directory = TrainAndSave(files, kJob + rest).directory;
    predictor = Must(Predictor::Load(directory));
  }
  absl::StatusOr<std::string> Predict(const PredictFileOptions& options) const {
    std::string lines;
    const auto rows = PredictFile(*predictor, options, [&](absl::string_view text) {
      absl::StrAppend(&lines, text);
      return absl::OkStatus();
    });
    if (!rows.ok()) return rows.status();
    return lines;
  }
  std::string Refusal(const std::string& input, std::vector<std::string> keep) const {
    bool wrote = false;
    const auto rows =
        PredictFile(*predictor, {.input = input, .keep = std::move(keep)}, [&](absl::string_view) {
          wrote = true;
          return absl::OkStatus();
        });
    REQUIRE_FALSE(rows.ok());
    CHECK_FALSE(wrote);
    return std::string(rows.status().message());
  }

  DataFiles files;
  std::string directory;
  std::unique_ptr<Predictor> predictor;
};

// What each line has in front of its last field, which is the prediction; a field may have lines.
std::string WithoutPredictions(const std::string& lines) {
  std::string kept;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(lines, '\n'))) {
    const size_t comma = line.rfind(',');
    const std::string last = comma == std::string::npos ? "" : line.substr(comma + 1);
    float number = 0;
    const bool ends = last == "prediction" || absl::SimpleAtof(last, &number);
    absl::StrAppend(&kept, ends ? line.substr(0, comma) : line, "\n");
  }
  kept.pop_back();
  return kept;
}

TEST_CASE("predict: columns are kept as they are in a CSV file", "[predict]") {
  const Model model;
  // A quoted field of two lines, one with a quote; nothing; a number that has a text of its own;
  // what counts as missing elsewhere; bytes that are no UTF-8.
  const std::string rows =
      "id,shop,age,note\n007,s1,1,\"a, \"\"b\"\"\nc\"\n,s2,NA,\n1e3,s3,3,NA\n"
      "1.50,s4,4, d \n9,s0,5,\xff\n";
  const std::string wanted = "id,note\n007,\"a, \"\"b\"\"\nc\"\n,\n1e3,NA\n1.50, d \n9,\xff\n";
  std::string crlf = rows;
  for (size_t at = 0; (at = crlf.find('\n', at)) != std::string::npos; at += 2) {
    // Not within the field.
    crlf.insert(at, crlf.compare(at, 3, "\nc\"") == 0 ? "" : "\r");
  }
  for (const std::string& text : {rows, crlf}) {
    const std::string input = model.files.Write("rows.csv", text);
    const std::string without = Must(model.Predict({.input = input}));
    for (const size_t bytes : {1, 20, 1 << 20}) {
      CAPTURE(bytes);
      const std::string lines =
          Must(model.Predict({.input = input, .keep = {"id", "note"}, .block_bytes = bytes}));
      CHECK(WithoutPredictions(lines) == wanted);
      CHECK_THAT(lines, StartsWith("id,note,prediction\n007,\"a, \"\"b\"\"\nc\","));
    }
    // In the order that was asked for, beside the same predictions.
    const std::string other = Must(model.Predict({.input = input, .keep = {"age", "shop"}}));
    std::vector<std::string> predictions, kept;
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(other, '\n'))) {
      if (line.empty()) continue;
      kept.push_back(line.substr(0, line.rfind(',')));
      predictions.push_back(line.substr(line.rfind(',') + 1));
    }
    CHECK(absl::StrJoin(predictions, "\n") + "\n" == without);
    CHECK(kept == std::vector<std::string>{"age,shop", "1,s1", "NA,s2", "3,s3", "4,s4", "5,s0"});
  }
  const std::string tsv = model.files.Write("all.csv", "id,shop,age\n1,s1,2\n");
  CHECK_THAT(Must(model.Predict({.input = tsv, .keep = {"*"}})),
             StartsWith("id,shop,age,prediction\n1,s1,2,"));
}

TEST_CASE(
    "predict: kept columns stay beside their rows, whatever rows are refused and how many "
    "threads there are",
    "[predict]") {
  const Model model;
  std::string rows = "shop,age,id\n";
  std::vector<int> ids;  // of the rows that can be read
  for (int i = 0; i < 500; ++i) {
    const bool bad = i % 13 == 5 || i == 17 || i == 18;
    absl::StrAppend(&rows, "s", i % 5, ",", bad ? "old" : absl::StrCat(i % 100), ",", i, "\n");
    if (!bad) ids.push_back(i);
    if (i % 50 == 0) rows += "\n";
  }
  const std::string input = model.files.Write("rows.csv", rows);
  const std::string plain = Must(
      model.Predict({.input = input, .skip_bad_rows = true, .threads = 1, .block_bytes = 1 << 20}));
  for (const size_t bytes : {10, 300, 1 << 20}) {
    for (const int threads : {1, 4}) {
      CAPTURE(bytes, threads);
      const std::string lines = Must(model.Predict({.input = input,
                                                    .skip_bad_rows = true,
                                                    .keep = {"id", "age"},
                                                    .threads = threads,
                                                    .block_bytes = bytes}));
      const std::vector<std::string> found = absl::StrSplit(lines, '\n', absl::SkipEmpty());
      const std::vector<std::string> wanted = absl::StrSplit(plain, '\n', absl::SkipEmpty());
      REQUIRE(found.size() == ids.size() + 1);
      REQUIRE(wanted.size() == found.size());
      CHECK(found[0] == "line,id,age,prediction");
      for (size_t i = 1; i < found.size(); ++i) {
        const std::vector<std::string> fields = absl::StrSplit(found[i], ',');
        const std::vector<std::string> alone = absl::StrSplit(wanted[i], ',');
        REQUIRE(fields.size() == 4);
        CHECK(fields[0] == alone[0]);
        CHECK(fields[1] == absl::StrCat(ids[i - 1]));
        CHECK(fields[2] == absl::StrCat(ids[i - 1] % 100));
        CHECK(std::stof(fields[3]) == Approx(std::stof(alone[1])).margin(1e-6));
      }
    }
  }
}

TEST_CASE("predict: lines of JSON have kept columns under their names", "[predict]") {
  const Model model;
  const LineFormat* const json = Must(FindLineFormat("jsonl"));
  const std::string input =
      model.files.Write("rows.csv", "i\"d,shop,age\n007,s1,1\n\"a\nb\",s2,2\n");
  const std::string lines =
      Must(model.Predict({.input = input, .format = json, .keep = {"i\"d", "age"}}));
  CHECK_THAT(lines, StartsWith("{\"i\\\"d\": \"007\", \"age\": \"1\", \"prediction\": "));
  CHECK_THAT(lines, Contains("{\"i\\\"d\": \"a\\nb\", \"age\": \"2\", \"prediction\": "));
  // What JSON cannot say is a row that cannot be read.
  const std::string latin = model.files.Write("latin.csv", "id,shop,age\nok,s1,1\n\xe9,s1,1\n");
  const auto refused = model.Predict({.input = latin, .format = json, .keep = {"id"}});
  CHECK_THAT(std::string(refused.status().message()),
             Contains("latin.csv:3:1") && Contains("UTF-8"));
  CHECK_THAT(
      Must(model.Predict({.input = latin, .skip_bad_rows = true, .format = json, .keep = {"id"}})),
      StartsWith("{\"line\": 2, \"id\": \"ok\", \"prediction\": "));
}

TEST_CASE("predict: columns that cannot be kept are refused before anything is written",
          "[predict]") {
  const Model model;
  const std::string input =
      model.files.Write("rows.csv", "user_id,shop,age,prediction\n1,s1,1,0\n");
  CHECK_THAT(model.Refusal(input, {"user"}),
             Contains("rows.csv") && Contains("wanted a column \"user\" to keep") &&
                 Contains("there are: user_id, shop, age, prediction"));
  CHECK_THAT(model.Refusal(input, {"user_id", "prediction"}),
             Contains("--keep") && Contains("\"prediction\""));
  CHECK_THAT(model.Refusal(input, {"age", "age"}), Contains("\"age\"") && Contains("twice"));
  const std::string twice = model.files.Write("twice.csv", "id,id,shop,age\n1,2,s1,1\n");
  CHECK_THAT(model.Refusal(twice, {"id"}), Contains("\"id\"") && Contains("twice"));
  CHECK_THAT(model.Refusal(twice, {"*"}), Contains("\"id\"") && Contains("twice"));
  const auto lines = Must(Predictor::Load(model.directory, {.row_format = "jsonl"}));
  const std::string json = model.files.Write("rows.jsonl", "{\"shop\": \"s1\", \"age\": 1}\n");
  const auto refused = PredictFile(*lines, {.input = json, .keep = {"shop"}},
                                   [](absl::string_view) { return absl::OkStatus(); });
  CHECK_THAT(std::string(refused.status().message()), Contains("found the format jsonl"));
}

TEST_CASE("predict: columns of Parquet are kept as texts, numbers, dates and times",
          "[predict][arrow]") {
  if (!HasArrow()) return;
  const Model model;
  const auto parquet = Must(Predictor::Load(model.directory, {.row_format = "parquet"}));
  const std::string csv = model.files.Write(
      "rows.csv",
      "shop,age,id,big,f32,f64,yes,day,s,us,word,dec\n"
      "s1,1,-7,18446744073709551615,0.1,0.1,true,2024-02-29,1969-12-31 23:59:59,"
      "2024-05-31 12:30:00.000001,x,12.50\n"
      "s2,2,,,,,,,,,,\n"
      "s3,3,9007199254740993,0,16777216,1e300,false,1899-12-31,2024-05-31 00:00:00,"
      "2024-05-31 12:30:01,\"\",-0.05\n");
  const std::vector<std::string> types = {
      "shop:text", "age:i8",   "id:i64",   "big:u64",    "f32:f32",       "f64:f64",
      "yes:bool",  "day:date", "s:time_s", "us:time_us", "word:category", "dec:decimal"};
  const std::vector<std::string> keep = {"id",  "big", "f32", "f64",  "yes",
                                         "day", "s",   "us",  "word", "dec"};
  for (const int group : {1, 100}) {
    CAPTURE(group);
    const std::string input =
        WriteParquet(model.files, csv, absl::StrCat("r", group, ".parquet"), group, types);
    std::string lines;
    const auto write = [&](absl::string_view text) {
      absl::StrAppend(&lines, text);
      return absl::OkStatus();
    };
    REQUIRE(PredictFile(*parquet, {.input = input, .keep = keep}, write).ok());
    CHECK(WithoutPredictions(lines) ==
          "id,big,f32,f64,yes,day,s,us,word,dec\n"
          "-7,18446744073709551615,0.1,0.1,true,2024-02-29,1969-12-31T23:59:59,"
          "2024-05-31T12:30:00.000001Z,x,12.5\n"
          ",,,,,,,,,\n"
          "9007199254740993,0,16777216,1e+300,false,1899-12-31,2024-05-31T00:00:00,"
          "2024-05-31T12:30:01Z,\"\"\"\"\"\",-0.05\n");
    lines.clear();
    REQUIRE(PredictFile(*parquet,
                        {.input = input, .format = Must(FindLineFormat("jsonl")), .keep = keep},
                        write)
                .ok());
    const std::vector<std::string> objects = absl::StrSplit(lines, '\n');
    CHECK_THAT(objects[0],
               StartsWith("{\"id\": -7, \"big\": 18446744073709551615, \"f32\": 0.1, \"f64\": 0.1, "
                          "\"yes\": true, \"day\": \"2024-02-29\", \"s\": \"1969-12-31T23:59:59\", "
                          "\"us\": \"2024-05-31T12:30:00.000001Z\", \"word\": \"x\", \"dec\": "
                          "\"12.5\", \"prediction\": "));
    CHECK_THAT(objects[1], StartsWith("{\"id\": null, \"big\": null, \"f32\": null, "));
  }
  const std::string lists =
      WriteParquet(model.files, model.files.Write("l.csv", "shop,age,tags\ns1,1,a|b\n"),
                   "l.parquet", 9, {"shop:text", "age:i8", "tags:texts"});
  const auto refused = PredictFile(*parquet, {.input = lists, .keep = {"tags"}},
                                   [](absl::string_view) { return absl::OkStatus(); });
  CHECK_THAT(std::string(refused.status().message()),
             Contains("l.parquet") && Contains("\"tags\"") && Contains("list<"));
}

}  // namespace
}  // namespace coxswain::predict
