// `coxswain predict` as people run it: what it writes agrees with `eval`, without the training data
// and wherever the model lies, and it costs nobody a file.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/integration/jobs.h"
#include "tests/testing/arrow_specs.h"
#include "tests/testing/same_output.h"
#include "tests/testing/same_scores.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

constexpr char kModel[] = R"(label: {column: label}
model: {kind: mlp, hidden: [8]}
train: {epochs: 5, batch_size: 32}
evaluate: {metrics: [logloss, accuracy]}
)";

// A trained model of the tabular job, in "model", with a test file of its own.
struct Trained {
  Trained() {
    std::string job = WriteTabular(files, kModel);
    const std::vector<std::string> rows = Lines(Content(files.Path("table.csv")));
    std::string training = rows[0] + "\n", test = rows[0] + "\n";
    for (size_t i = 1; i < rows.size(); ++i) {
      absl::StrAppend(i > 400 ? &test : &training, rows[i], "\n");
    }
    files.Write("table.csv", training);
    test_file = files.Write("test.csv", test);
    const auto trained =
        Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model, "--set",
                  "split={test_path: test.csv}", "--set", "checkpoint.ps_return_seconds=0.5"});
    INFO(trained.err);
    REQUIRE(trained.code == 0);
  }
  Process::Result Predict(std::vector<std::string> more) const {
    more.insert(more.begin(), {"predict", "--model-dir", model});
    return Coxswain(more);
  }

  DataFiles files;
  std::string model = files.Path("model");
  std::string test_file;
};

TEST_CASE("predict: a model brings the tables that its job joins, ranges and combinations",
          "[predict]") {
  const DataFiles files;
  std::string rows = "user,film,age,weight,label\n", test = "user,film,age\n";
  for (int i = 0; i < 300; ++i) {
    const int film = i % 7, age = i % 60;
    absl::StrAppend(&rows, "u", i % 11, ",f", film, ", ", age, ",", 1 + i % 2, ",",
                    (film % 2 == 0) == (age < 30) ? 1 : 0, "\n");
  }
  for (int age : {10, 50}) absl::StrAppend(&test, "u1,f0,", age, "\nnew,f1,", age, "\n");
  files.Write("train.csv", rows);
  files.Write("films.csv",
              "id,genre\nf0,even\nf1,odd\nf2,even\nf3,odd\nf4,even\nf5,odd\nf6,even\n");
  const std::string job = files.Write("job.yaml", R"(name: joined
dataset:
  path: train.csv
  trim: true
  join: [{path: films.csv, left_on: film, right_on: id}]
features:
  - {name: genre, kind: categorical}
  - {name: range, kind: bucketized, column: age, boundaries: [30]}
  - {name: both, kind: crossed, features: [genre, range], hash_buckets: 100}
label: {column: label, weight: weight}
model: {kind: logistic_regression}
optimizer: {table: {kind: adagrad, learning_rate: 0.5}}
train: {epochs: 60, batch_size: 32}
)");
  const std::string model = files.Path("model");
  const auto trained = Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model});
  CAPTURE(trained.out, trained.err);
  REQUIRE(trained.code == 0);
  fs::remove(files.Path("train.csv"));
  fs::remove(files.Path("films.csv"));
  fs::remove(job);
  fs::rename(model, files.Path("moved"));
  const auto says = Coxswain(
      {"predict", "--model-dir", files.Path("moved"), "--input", files.Write("test.csv", test)});
  CAPTURE(says.out, says.err);
  REQUIRE(says.code == 0);
  const std::vector<std::string> lines = Lines(says.out);
  REQUIRE(lines.size() == 5);
  std::vector<double> chances;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> fields = absl::StrSplit(lines[i], ',');
    REQUIRE(absl::SimpleAtod(fields[1], &chances.emplace_back()));
  }
  CHECK(chances[0] > 0.8);
  CHECK(chances[1] < 0.2);
  CHECK(chances[2] < 0.2);
  CHECK(chances[3] > 0.8);
}

TEST_CASE("predict: a moved model without its data says what eval measured", "[predict]") {
  Trained t;
  const std::string report = t.files.Path("report.json");
  REQUIRE(Coxswain({"eval", "--model-dir", t.model, "--report", report}).code == 0);
  const nlohmann::json metrics = ReadJson(report)["metrics"];
  fs::rename(t.model, t.files.Path("moved"));
  t.model = t.files.Path("moved");
  const std::string rows = t.files.Path("rows.csv");
  fs::rename(t.test_file, rows);
  fs::remove(t.files.Path("table.csv"));
  fs::remove(t.files.Path("tabular.yaml"));

  const std::string output = t.files.Path("predictions.csv");
  const auto result = t.Predict({"--input", rows, "--output", output, "--verify"});
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(result.out.empty());
  const std::vector<std::string> predictions = Lines(Content(output)),
                                 wanted = Lines(Content(rows));
  REQUIRE(predictions.size() == wanted.size());
  CHECK(predictions[0] == "score,probability");
  double loss = 0, right = 0;
  for (size_t i = 1; i < wanted.size(); ++i) {
    const std::vector<std::string> says = absl::StrSplit(predictions[i], ',');
    const std::vector<std::string> row = absl::StrSplit(wanted[i], ',');
    double chance = 0;
    REQUIRE(absl::SimpleAtod(says[1], &chance));
    const bool label = row[2] == "1";
    loss -= std::log(label ? chance : 1 - chance);
    right += (chance > 0.5) == label;
  }
  const double n = static_cast<double>(wanted.size() - 1);
  CHECK(std::abs(loss / n - metrics["logloss"].get<double>()) < 1e-6);
  CHECK(right / n == Approx(metrics["accuracy"].get<double>()));

  // The same by way of pipes, and of a packed file.
  const auto piped = Process({"/bin/sh", "-c",
                              absl::StrCat("gzip -c ", rows, " | ", kProgram,
                                           " predict --model-dir ", t.model, " --input -")})
                         .Wait();
  INFO(piped.err);
  CHECK(piped.code == 0);
  CHECK(piped.out == Content(output));
}

TEST_CASE("predict: rows and predictions are CSV or JSON lines, and say the same", "[predict]") {
  const Trained t;
  const std::string csv = t.files.Write("rows.csv", "color,size\nred,17\nblue,80\n"),
                    jsonl = t.files.Write("rows.jsonl",
                                          "{\"size\": 17, \"color\": \"red\"}\n"
                                          "{\"color\": \"blue\", \"size\": 80}\n");
  const auto of_csv = t.Predict({"--input", csv});
  const auto of_jsonl = t.Predict({"--input", jsonl, "--input-format", "jsonl"});
  CAPTURE(of_csv.err, of_jsonl.err);
  REQUIRE(of_csv.code == 0);
  CHECK(of_jsonl.out == of_csv.out);
  const auto as_json = t.Predict({"--input", csv, "--format", "jsonl"});
  REQUIRE(as_json.code == 0);
  const std::vector<std::string> lines = Lines(as_json.out), cells = Lines(of_csv.out);
  REQUIRE(lines.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const nlohmann::json line = nlohmann::json::parse(lines[i]);
    const std::vector<std::string> wanted = absl::StrSplit(cells[i + 1], ',');
    CHECK(line["score"].get<double>() == Approx(std::stod(wanted[0])));
    CHECK(line["probability"].get<double>() == Approx(std::stod(wanted[1])));
  }
  const std::string bad = t.files.Write("bad.csv", "size,color\n1,red\nbig,red\n3,blue\n");
  const auto skipped = t.Predict({"--input", bad, "--format", "jsonl", "--skip-bad-rows"});
  REQUIRE(skipped.code == 0);
  REQUIRE(Lines(skipped.out).size() == 2);
  CHECK(nlohmann::json::parse(Lines(skipped.out)[1])["line"] == 4);
  CHECK(t.Predict({"--input", csv, "--format", "xml"}).code == 2);
}

TEST_CASE("predict: rows of a job without a header have none, unless csv is asked for",
          "[predict]") {
  const DataFiles files;
  std::string table = "120,3\n";
  for (int i = 0; i < 120; ++i) {
    absl::StrAppend(&table, i % 7, ",", i % 2 == 0 ? "red" : "blue", ",", i % 2, "\n");
  }
  files.Write("table.csv", table);
  const std::string job = files.Write(
      "job.yaml",
      "name: t\ndataset: {path: table.csv, skip_lines: 1, columns: [size, color, good]}\n"
      "features:\n  - {name: size, kind: numeric}\n  - {name: color, kind: categorical}\n"
      "label: {column: good}\nmodel: {kind: logistic_regression}\ntrain: {batch_size: 16}\n");
  const std::string model = files.Path("model");
  const auto trained = Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const auto predict = [&](const std::string& rows, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"predict", "--model-dir", model, "--input",
                                          files.Write("rows.csv", rows)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Coxswain(arguments);
  };
  const auto bare = predict("2,3\n1,red,0\n5,blue,1\n", {});
  INFO(bare.err);
  REQUIRE(bare.code == 0);
  CHECK(Lines(bare.out).size() == 3);
  const std::vector<std::string> csv = {"--input-format", "csv"};
  CHECK(predict("color,size\nred,1\nblue,5\n", csv).out == bare.out);
  CHECK(predict("good,more,size,color\n0,x,1,red\n1,y,5,blue\n", csv).out == bare.out);
  const auto none = predict("1,red,0\n5,blue,1\n", csv);
  CHECK(none.code == 2);
  CHECK_THAT(none.err, Contains("wanted a column"));
}

TEST_CASE("predict: what is no label of libsvm or libffm is told, and not passed over",
          "[predict]") {
  for (const auto& [format, pair, label] :
       {std::tuple{"libsvm", "1:0.5 3:1", ""}, std::tuple{"libffm", "0:1:0.5 1:3:1", ""},
        std::tuple{"libsvm", "1:0.5 3:1", "label: {positive_values: [good]}\n"}}) {
    CAPTURE(format, label);
    const DataFiles files;
    const bool text = *label != 0;
    std::string rows;
    for (int i = 0; i < 40; ++i) {
      absl::StrAppend(&rows, i % 2 == 0 ? (text ? "good " : "1 ") : (text ? "bad " : "0 "), pair,
                      "\n");
    }
    files.Write("rows.txt", rows);
    const bool ffm = std::string(format) == "libffm";
    const std::string job = files.Write(
        "job.yaml",
        absl::StrCat("name: t\ndataset: {format: ", format, ", path: rows.txt",
                     ffm ? "}\nfeatures:\n  - {name: a, column: \"0\", kind: categorical}\n"
                         : ", feature_count: 4}\n",
                     label, "model: {kind: logistic_regression}\ntrain: {batch_size: 16}\n"));
    const std::string model = files.Path("model");
    const auto trained = Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model});
    INFO(trained.err);
    REQUIRE(trained.code == 0);
    const auto predict = [&](const std::string& lines) {
      return Coxswain({"predict", "--model-dir", model, "--input", files.Write("new.txt", lines)});
    };
    const std::string good = absl::StrCat("-1 ", pair, "\n");
    CHECK(Lines(predict(good + good).out).size() == 3);
    const auto csv = predict(good + "age,city,income\n");
    CAPTURE(csv.out, csv.err);
    CHECK(csv.code == (text ? 0 : 2));
    if (!text) {
      CHECK_THAT(csv.err, Contains("new.txt:2:1: label: wanted a finite number (f32), found "
                                   "\"age,city,income\""));
    }
  }
}

TEST_CASE("predict: an output costs nobody a file", "[predict]") {
  const Trained t;
  const std::string before = Content(t.test_file);
  const auto refused = [&](const std::string& output, bool force) {
    std::vector<std::string> flags = {"--input", t.test_file, "--output", output};
    if (force) flags.push_back("--force");
    const auto result = t.Predict(flags);
    CHECK(result.code == 2);
    return result.err;
  };
  CHECK_THAT(refused(t.test_file, true), Contains("is the input"));
  CHECK(Content(t.test_file) == before);
  CHECK_THAT(refused(t.files.Path("table.csv"), true), Contains("the job's data"));
  CHECK_THAT(refused(absl::StrCat(t.model, "/job.yaml"), true), Contains("lies in a saved model"));
  CHECK_THAT(refused(absl::StrCat(t.model, "/new.csv"), true), Contains("lies in a saved model"));
  const std::string other = t.files.Write("other.txt", "mine");
  CHECK_THAT(refused(other, false), Contains("--force"));
  CHECK(Content(other) == "mine");
  CHECK(t.Predict({"--input", t.test_file, "--output", other, "--force"}).code == 0);
  CHECK_THAT(Content(other), StartsWith("score,probability\n"));
  // What fails leaves nothing behind.
  const std::string bad = t.files.Write("bad.csv", "color,size\nred,1\nred,big\n");
  const std::string folder = t.files.Path("out");
  fs::create_directory(folder);
  const auto result = t.Predict({"--input", bad, "--output", folder + "/p.csv"});
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("bad.csv:3:5") && Contains("\"big\""));
  CHECK(fs::is_empty(folder));
}

TEST_CASE("predict: nothing that a model was made of is replaced, whatever the model keeps of it",
          "[predict]") {
  const DataFiles files;
  std::string rows = "film,label\n";
  for (int i = 0; i < 60; ++i) absl::StrAppend(&rows, "f", i % 6, ",", i % 2, "\n");
  files.Write("train.csv", rows);
  files.Write("words.txt", "even\nodd\n");
  files.Write("films.csv", "id,genre\nf0,even\nf1,odd\nf2,even\nf3,odd\nf4,even\nf5,odd\n");
  const std::string job = files.Write("job.yaml", R"(name: joined
dataset:
  path: train.csv
  join: [{path: films.csv, left_on: film, right_on: id}]
features:
  - {name: genre, kind: categorical, vocabulary_file: words.txt, oov_buckets: 1}
label: {column: label}
model: {kind: logistic_regression}
train: {epochs: 1, batch_size: 32}
)");
  const std::string model = files.Path("model"), checkpoints = files.Path("checkpoints");
  const auto trained = Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model,
                                 "--checkpoint-dir", checkpoints});
  CAPTURE(trained.out, trained.err);
  REQUIRE(trained.code == 0);
  const std::string input = files.Write("input.csv", "film\nf0\n");
  files.Write("cluster.yaml", "ps: [127.0.0.1:1]\nworker: [127.0.0.1:2]\n");
  // As a report of an evaluation, which `eval` replaces.
  const std::string as_report = R"({"job": "j", "part": "test", "examples": 1, "metrics": {}})";
  for (const std::string& from : {model, checkpoints}) {
    const std::string flag = from == model ? "--model-dir" : "--checkpoint-dir";
    for (const auto& [name, what] :
         std::vector<std::pair<std::string, std::string>>{{"train.csv", "the job's data"},
                                                          {"films.csv", "the job's data"},
                                                          {"words.txt", "the job's data"},
                                                          {"job.yaml", "the job file"}}) {
      const std::string path = files.Path(name), before = Content(path);
      for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
               {"predict", flag, from, "--input", input, "--output", path, "--force"},
               {"export", flag, from, "--to", "npz", "--out", path, "--force"}}) {
        const auto result = Coxswain(command);
        CAPTURE(command, result.out, result.err);
        CHECK(result.code == 2);
        CHECK_THAT(result.err, Contains(absl::StrCat(path, " is ", what)));
        CHECK(Content(path) == before);
      }
    }
  }
  const auto eval = [&](const std::string& report) {
    const auto result = Coxswain({"eval", "--model-dir", model, "--report", report, "--set",
                                  "split={test: 0.5}", "--allow-training-rows"});
    CAPTURE(result.out);
    CHECK(result.code == 2);
    return result.err;
  };
  files.Write("words.txt", as_report);
  CHECK_THAT(eval(files.Path("words.txt")), Contains("words.txt is the job's data"));
  CHECK(Content(files.Path("words.txt")) == as_report);
  // Nor is what else the command reads.
  const std::string cluster = files.Path("cluster.yaml"), before = Content(cluster);
  const auto result = Coxswain({"predict", "--model-dir", model, "--input", input, "--output",
                                cluster, "--force", "--cluster", cluster, "--insecure"});
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("is the cluster file"));
  CHECK(Content(cluster) == before);
}

TEST_CASE("predict: bad rows are skipped if asked to, and counted", "[predict]") {
  const Trained t;
  const std::string bad = t.files.Write("bad.csv", "size,color\n1,red\nbig,red\n3,blue,4\n5,red\n");
  const auto result = t.Predict({"--input", bad, "--skip-bad-rows"});
  INFO(result.err);
  REQUIRE(result.code == 0);
  const std::vector<std::string> lines = Lines(result.out);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "line,score,probability");
  CHECK_THAT(lines[1], StartsWith("2,"));
  CHECK_THAT(lines[2], StartsWith("5,"));
  CHECK_THAT(result.err, Contains("bad.csv:3:1") && Contains("bad.csv:4:") &&
                             Contains("2 of 4 rows could not be read"));
}

TEST_CASE("predict: columns of the input are kept, of a file, of a pipe and by processes",
          "[predict]") {
  const Trained t;
  const std::string text = "id,size,color\n1,1,red\n\"a,\nb\",2,blue\n";
  const std::string input = t.files.Write("rows.csv", text);
  const auto plain = t.Predict({"--input", input});
  const auto kept = t.Predict({"--input", input, "--keep", "id,color"});
  CAPTURE(kept.err);
  REQUIRE(kept.code == 0);
  const std::vector<std::string> scores = Lines(plain.out), lines = Lines(kept.out);
  REQUIRE(scores.size() == 3);
  CHECK(lines == std::vector<std::string>{"id,color," + scores[0], "1,red," + scores[1], "\"a,",
                                          "b\",blue," + scores[2]});
  const auto piped = Run({"/bin/sh", "-c", "file=$1; shift; exec \"$@\" < \"$file\"", "sh", input,
                          CoxswainCommand({})[0], "predict", "--model-dir", t.model, "--input", "-",
                          "--keep", "id,color"});
  CAPTURE(piped.err);
  CHECK(piped.out == kept.out);
  const auto there = t.Predict({"--input", input, "--keep", "*", "--local", "1x2"});
  CAPTURE(there.err);
  CHECK_THAT(there.out, StartsWith("id,size,color,score,probability\n1,1,red,"));

  const std::string output = t.files.Path("none.csv");
  const auto unknown = t.Predict({"--input", input, "--keep", "idd", "--output", output});
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err, Contains("\"idd\"") && Contains("there are: id, size, color"));
  CHECK_FALSE(fs::exists(output));
}

TEST_CASE("predict: what a two_tower would suggest, of values in a field", "[predict]") {
  const DataFiles files;
  const std::string job = WriteTwoTower(files), model = files.Path("model");
  REQUIRE(Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model}).code == 0);
  const auto told = Coxswain({"recommend", "--model-dir", model, "--items", "i1,i2", "--top", "3"});
  INFO(told.err);
  REQUIRE(told.code == 0);
  const std::string rows = files.Write("rows.csv", "history\ni1|i2\n");
  const auto result = Coxswain({"predict", "--model-dir", model, "--input", rows, "--top", "8"});
  INFO(result.err);
  REQUIRE(result.code == 0);
  const std::vector<std::string> lines = Lines(result.out);
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0], StartsWith("item_1,score_1,item_2,score_2"));
  // What is known is left out by `recommend` only.
  const std::vector<std::string> fields = absl::StrSplit(lines[1], ',');
  std::vector<std::string> items;
  for (size_t i = 0; i < fields.size(); i += 2) {
    if (fields[i] != "i1" && fields[i] != "i2") items.push_back(fields[i]);
  }
  const std::vector<std::string> wanted = Lines(told.out);
  REQUIRE(wanted.size() == 3);
  REQUIRE(items.size() >= 3);
  CHECK(std::vector<std::string>(items.begin(), items.begin() + 3) == wanted);
}

TEST_CASE("predict: a model of words is told where to go", "[predict]") {
  const DataFiles files;
  std::string text;
  for (int i = 0; i < 400; ++i) absl::StrAppend(&text, "w", i % 7, " ");
  files.Write("text.txt", text);
  const std::string job = files.Write(
      "words.yaml",
      "name: words\ndataset: {path: text.txt, format: text}\nmodel: {kind: word2vec, dim: 4}\n"
      "train: {epochs: 1}\n");
  const std::string model = files.Path("model");
  const auto trained = Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const auto result = Coxswain({"predict", "--model-dir", model, "--input", "-"});
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("word2vec") && Contains("nearest"));
}

TEST_CASE("predict: Parquet files say what CSV files of the same rows do, in their order",
          "[predict][arrow]") {
  if (!HasArrow()) return;
  const Trained trained;
  const auto wanted = trained.Predict({"--input", trained.test_file});
  INFO(wanted.err);
  REQUIRE(wanted.code == 0);
  for (const int group : {1, 7, 100000}) {
    CAPTURE(group);
    const std::string parquet =
        WriteParquet(trained.files, trained.test_file, absl::StrCat("rows", group, ".parquet"),
                     group, {"color:text", "size:f64", "label:i8"});
    const auto found = trained.Predict({"--input", parquet});
    CAPTURE(found.err);
    CHECK(found.code == 0);
    CheckSameScores(found.out, wanted.out);
  }
  // Under another name the flag says so; else it is no CSV.
  fs::copy(trained.files.Path("rows7.parquet"), trained.files.Path("rows.bin"));
  const std::string named = trained.files.Path("rows.bin");
  CheckSameScores(trained.Predict({"--input", named, "--input-format", "parquet"}).out, wanted.out);
  CHECK(trained.Predict({"--input", named}).code == 2);
  const auto no_column = WriteParquet(trained.files, trained.files.Write("c.csv", "color\nred\n"),
                                      "c.parquet", 10, {"color:text"});
  const auto missing = trained.Predict({"--input", no_column});
  CHECK(missing.code == 2);
  CHECK_THAT(missing.err, Contains("size"));
}

TEST_CASE("predict: bad rows of a Parquet file are skipped alone, and told by their numbers",
          "[predict][arrow]") {
  if (!HasArrow()) return;
  const Trained trained;
  std::string csv = "color,size,label\n", good = csv;
  std::vector<std::string> lines;  // the numbers of the good rows
  for (int i = 1; i <= 50; ++i) {
    const bool bad = i == 1 || i == 17 || i == 18 || i == 50;
    const std::string row = absl::StrCat("red,", bad ? "nan" : absl::StrCat(i), ",0\n");
    csv += row;
    if (bad) continue;
    good += row;
    lines.push_back(absl::StrCat(i));
  }
  const std::string rows = trained.files.Write("rows.csv", csv);
  const auto wanted = trained.Predict({"--input", trained.files.Write("good.csv", good)});
  REQUIRE(wanted.code == 0);
  for (const int group : {7, 100}) {
    CAPTURE(group);
    const std::string parquet =
        WriteParquet(trained.files, rows, absl::StrCat("bad", group, ".parquet"), group,
                     {"color:text", "size:f64", "label:i8"});
    CHECK(trained.Predict({"--input", parquet}).code == 2);
    const auto found = trained.Predict({"--input", parquet, "--skip-bad-rows"});
    CAPTURE(found.err);
    REQUIRE(found.code == 0);
    CHECK_THAT(found.err,
               Contains("4 of 50 rows could not be read") && Contains("row group 0, row"));
    std::string without;
    const std::vector<std::string> all = Lines(found.out);
    REQUIRE(all.size() == lines.size() + 1);
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t comma = all[i].find(',');
      CHECK(all[i].substr(0, comma) == (i == 0 ? "line" : lines[i - 1]));
      absl::StrAppend(&without, all[i].substr(comma + 1), "\n");
    }
    CheckSameScores(without, wanted.out);
  }
}

TEST_CASE("predict: a Parquet file of which nearly all rows are bad ends the command",
          "[predict][arrow]") {
  if (!HasArrow()) return;
  const Trained trained;
  std::string csv = "color,size,label\nred,1,0\n";
  for (int i = 0; i < 1000; ++i) csv += "red,nan,0\n";
  const std::string parquet =
      WriteParquet(trained.files, trained.files.Write("rows.csv", csv), "rows.parquet", 2000,
                   {"color:text", "size:f64", "label:i8"});
  const auto refused = trained.Predict({"--input", parquet, "--skip-bad-rows"});
  CAPTURE(refused.err);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("rows.parquet: row group 0: 1000 of its rows cannot be read"));
}

TEST_CASE("predict: what cannot be done with a Parquet file is said", "[predict]") {
  const Trained trained;
  const auto pipe = trained.Predict({"--input", "-", "--input-format", "parquet"});
  CHECK(pipe.code == 2);
  CHECK_THAT(pipe.err, Contains("pipe"));
  const std::string none = trained.files.Write("none.parquet", "no such file");
  // Without Arrow the message says what is to be installed; with it, that this is no Parquet file.
  const auto broken = trained.Predict({"--input", none});
  CHECK(broken.code == 2);
  CHECK_THAT(broken.err, Contains("none.parquet"));
}

// ---- on a cluster

// The standard input of a process: a pipe by which a test gives it rows, and so knows how far it
// is.
class Rows {
 public:
  explicit Rows(std::string path) : path_(std::move(path)) {
    REQUIRE(mkfifo(path_.c_str(), 0600) == 0);
  }
  ~Rows() { Close(); }
  // Waits until the process reads. It has a buffer of 64 KiB, so that what is beyond it was read.
  void Open() {
    file_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    REQUIRE(file_ >= 0);
  }
  // False: nobody reads any more.
  bool Write(absl::string_view text) {
    while (!text.empty()) {
      const ssize_t n = write(file_, text.data(), text.size());
      if (n <= 0) return false;
      text.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  void Close() {
    if (file_ >= 0) close(file_);
    file_ = -1;
  }

 private:
  std::string path_;
  int file_ = -1;
};

// A command that reads standard input from a pipe of this path.
std::vector<std::string> Predicting(const Trained& t, const std::string& pipe,
                                    const std::string& output, const Daemons& daemons) {
  std::vector<std::string> command = {"/bin/sh", "-c", "pipe=$1; shift; exec \"$@\" < \"$pipe\"",
                                      "sh", pipe};
  for (std::string& word :
       CoxswainCommand({"predict", "--model-dir", t.model, "--input", "-", "--output", output,
                        "--cluster", daemons.cluster_file(), "--keep", "label"})) {
    command.push_back(std::move(word));
  }
  return command;
}

// Rows of the tabular job, more than a block has; their label is their number.
std::string ManyRows(int from, int to) {
  std::string rows;
  for (int i = from; i < to; ++i) {
    absl::StrAppend(&rows,
                    i % 3 == 0   ? "red"
                    : i % 3 == 1 ? "green"
                                 : "blue",
                    ",", (i % 997) * 0.01, ",", i, "\n");
  }
  return rows;
}
constexpr char kHeader[] = "color,size,label\n";
constexpr int kHalf = 60000;

TEST_CASE("predict: processes and checkpoints say what one process says of a model", "[predict]") {
  const Trained t;
  const auto here = t.Predict({"--input", t.test_file});
  REQUIRE(here.code == 0);
  const auto there = t.Predict({"--input", t.test_file, "--local", "2x2", "--verify"});
  CAPTURE(there.err);
  REQUIRE(there.code == 0);
  CheckSameScores(there.out, here.out);
  const auto evaluated = Coxswain({"eval", "--model-dir", t.model, "--local", "2x1"});
  CAPTURE(evaluated.out, evaluated.err);
  CHECK(evaluated.code == 0);
  CHECK(evaluated.out == Coxswain({"eval", "--model-dir", t.model}).out);

  const std::string checkpoints = t.files.Path("checkpoints");
  const auto trained = Coxswain({"train", t.files.Path("tabular.yaml"), "--in-process", "--quiet",
                                 "--checkpoint-dir", checkpoints});
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  const std::vector<std::string> ask = {"predict", "--checkpoint-dir", checkpoints, "--input",
                                        t.test_file};
  std::vector<std::string> elsewhere = ask;
  elsewhere.insert(elsewhere.end(), {"--local", "1x1"});
  const auto of_checkpoint = Coxswain(elsewhere);
  CAPTURE(of_checkpoint.err);
  REQUIRE(of_checkpoint.code == 0);
  CheckSameScores(of_checkpoint.out, Coxswain(ask).out);

  const std::string bad = t.files.Write("bad.csv", absl::StrCat(kHeader, "red,1,0\nred,old,0\n"));
  const std::string out = t.files.Path("bad.out");
  const auto refused = t.Predict({"--input", bad, "--local", "1x1", "--output", out});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("bad.csv:3:5") && Contains("found \"old\""));
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("recommend: processes suggest what one process does, and measure the same", "[predict]") {
  for (const char* layers : {"model.item.hidden=[]", "model.item.hidden=[16]"}) {
    CAPTURE(layers);
    const DataFiles files;
    const std::string job = WriteTwoTower(files), model = files.Path("model");
    const auto trained = Coxswain(
        {"train", job, "--local", "2x2", "--quiet", "--model-dir", model, "--set", layers});
    CAPTURE(trained.err);
    REQUIRE(trained.code == 0);
    for (const std::vector<std::string>& whom : {std::vector<std::string>{"--batch", "--top", "4"},
                                                 {"--items", "i3,i4", "--top", "5"},
                                                 {"--user", "u5", "--include-known"}}) {
      std::vector<std::string> ask = {"recommend", "--model-dir", model};
      ask.insert(ask.end(), whom.begin(), whom.end());
      const auto here = Coxswain(ask);
      REQUIRE(here.code == 0);
      ask.insert(ask.end(), {"--local", "2x2"});
      const auto there = Coxswain(ask);
      CAPTURE(there.err);
      REQUIRE(there.code == 0);
      testing::CheckSameOutput(there.out, here.out, 1e-5);
    }
    CHECK(Coxswain({"eval", "--model-dir", model, "--local", "2x2"}).out ==
          Coxswain({"eval", "--model-dir", model}).out);
  }
}

TEST_CASE("items that go through layers are ranked the same while workers are killed",
          "[predict]") {
  const DataFiles files;
  const std::string job = WriteTwoTower(files), model = files.Path("model");
  const std::string report = files.Path("report.json");
  const std::string chaos = files.Write("chaos.yaml", R"(seed: 3
baseline: false
faults:
  - {task: worker, at_update: [40, 90, 150], restart_delay: 100ms}
)");
  const auto trained = Coxswain({"train", job, "--local", "2x2", "--quiet", "--model-dir", model,
                                 "--report", report, "--chaos", chaos, "--set",
                                 "model.item.hidden=[16]", "--set", "evaluate.every_steps=10"});
  CAPTURE(trained.out, trained.err);
  REQUIRE(trained.code == 0);
  const double measured = ReadJson(report)["metrics"]["hit_rate@3"].get<double>();
  CHECK(measured > 0.5);
  const std::string again = files.Path("again.json");
  REQUIRE(Coxswain({"eval", "--model-dir", model, "--report", again}).code == 0);
  CHECK(ReadJson(again)["metrics"]["hit_rate@3"].get<double>() == Approx(measured));
}

TEST_CASE("predict: each row has its line, once and in its place, though workers are killed",
          "[predict]") {
  const Trained t;
  const std::string first = ManyRows(0, kHalf), rest = ManyRows(kHalf, 2 * kHalf);
  const std::string all = t.files.Write("all.csv", absl::StrCat(kHeader, first, rest));
  Daemons daemons(t.files, 1, 2);
  const std::string input = t.files.Path("pipe"), output = t.files.Path("lines.csv");
  Rows rows(input);
  Process predict(Predicting(t, input, output, daemons));
  rows.Open();
  REQUIRE(rows.Write(kHeader));
  REQUIRE(rows.Write(first));
  daemons.worker(0).Kill(SIGKILL);
  REQUIRE(rows.Write(rest.substr(0, rest.size() / 2)));
  daemons.RestartWorker(0);
  daemons.worker(1).Kill(SIGKILL);
  REQUIRE(rows.Write(rest.substr(rest.size() / 2)));
  rows.Close();
  const auto result = predict.Wait(absl::Seconds(120));
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const std::string found = Content(output);
  CheckSameScores(found, t.Predict({"--input", all, "--keep", "label"}).out);
  const std::vector<std::string> lines = Lines(found);
  int64_t wrong = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    wrong += StartsWith(absl::StrCat(i - 1, ",")).match(lines[i]) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("predict: a lost parameter server or Ctrl-C leaves no half file", "[predict]") {
  signal(SIGPIPE, SIG_IGN);
  const Trained t;
  enum Case { kBackWithNothing, kStaysAway, kCtrlC };
  for (const Case what : {kBackWithNothing, kStaysAway, kCtrlC}) {
    CAPTURE(what);
    Daemons daemons(t.files, 1, 1);
    const std::string input = t.files.Path(absl::StrCat("pipe", what));
    fs::create_directory(t.files.Path(absl::StrCat("out", what)));
    const std::string output = t.files.Path(absl::StrCat("out", what, "/lines.csv"));
    Rows rows(input);
    Process predict(Predicting(t, input, output, daemons));
    rows.Open();
    const std::string some = ManyRows(0, kHalf);
    REQUIRE(rows.Write(absl::StrCat(kHeader, some)));
    if (what == kCtrlC) {
      predict.Kill(SIGINT);
    } else {
      daemons.ps(0).Kill(SIGKILL);
      if (what == kBackWithNothing) daemons.RestartPs(0);
    }
    for (int i = 0; i < 1000 && rows.Write(some); ++i) {
    }
    rows.Close();
    const auto result = predict.Wait(absl::Seconds(120));
    CAPTURE(result.err);
    CHECK(result.code == (what == kCtrlC ? 130 : 3));
    if (what != kCtrlC) {
      CHECK_THAT(result.err, Contains("the rows of /job:ps/task:0 (") &&
                                 Contains("; start what is missing, and begin again"));
    }
    CHECK(fs::is_empty(fs::path(output).parent_path()));
  }
}

}  // namespace
}  // namespace coxswain
