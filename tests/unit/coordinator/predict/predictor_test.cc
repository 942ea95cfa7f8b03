// A saved model predicts what its evaluation says of the same rows, of every kind of model and of
// table, without the data that it was trained on and wherever it lies.
#include "coordinator/predict/predictor.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/predict/predict_file.h"
#include "coordinator/predict/prediction_lines.h"
#include "runtime/data/row_blocks.h"
#include "tests/testing/saved_jobs.h"

namespace coxswain::predict {
namespace {

using Catch::Matchers::Contains;
using testing::Must;
namespace fs = std::filesystem;

// Rows of shop,tags,age,price,bought,grade,years; some values of the test file are in no training
// row.
std::string Rows(int from, int to) {
  std::string rows = "shop,tags,age,price,bought,grade,years\n";
  for (int i = from; i < to; ++i) {
    const int shop = (i * 7) % 13, tag = (i * 5) % 9;
    absl::StrAppend(&rows, "s", shop, ",t", tag, "|t", (i * 3) % 11, i % 4 == 0 ? "" : "|t1", ",",
                    20 + (i * 11) % 50, ",", i % 6 == 0 ? "" : absl::StrCat((i % 17) * 0.5), ",",
                    (shop + tag) % 2, ",g", (shop + i % 3) % 3, ",", 20 + (i * 11) % 50, "\n");
  }
  return rows;
}

std::string Job(const std::string& rest, const std::string& shop = "oov_buckets: 2") {
  return absl::StrCat(
      "dataset: {path: train.csv}\nfeatures:\n", "  - {name: shop, kind: categorical, ", shop,
      "}\n", "  - {name: tags, kind: categorical, value_separator: \"|\", max_values: 2}\n",
      "  - {name: age, kind: numeric, normalization: standard}\n",
      "  - {name: price, kind: numeric, normalization: min_max, "
      "missing_value: 3}\n",
      "split: {test_path: test.csv}\ntrain: {batch_size: 64}\n",
      "optimizer: {table: {kind: sgd, learning_rate: 0.5}, ",
      "dense: {kind: sgd, learning_rate: 0.1}}\n", rest);
}

constexpr char kBought[] = "label: {column: bought}\n";

// Predicts test.csv with the model, moved elsewhere, when no file of training is there any more.
std::vector<float> PredictMoved(const DataFiles& files, const SavedJob& saved) {
  fs::create_directories(files.Path("else"));
  fs::rename(saved.directory, files.Path("else/where"));
  fs::rename(files.Path("test.csv"), files.Path("else/rows.csv"));
  fs::remove(files.Path("train.csv"));
  const auto predictor = Must(Predictor::Load(files.Path("else/where"), {.verify = true}));
  const auto blocks =
      Must(data::RowBlocks::Open(predictor->rows().spec(), files.Path("else/rows.csv"), 1 << 20));
  auto rows = Must(predictor->rows().ReadBlock(*Must(blocks->Next())));
  const Scores scores = Must(predictor->Predict(Must(rows.Read(0, rows.rows()))));
  const auto values = scores.prediction.values<float>();
  return {values.begin(), values.end()};
}

void CheckEqualToEval(const std::string& text) {
  CAPTURE(text);
  const DataFiles files;
  files.Write("train.csv", Rows(0, 400));
  files.Write("test.csv", Rows(380, 480));
  const SavedJob saved = TrainAndSave(files, text);
  const std::vector<float> predicted = PredictMoved(files, saved);
  REQUIRE(predicted.size() == saved.predictions.size());
  for (size_t i = 0; i < predicted.size(); ++i) {
    CAPTURE(i);
    REQUIRE(std::abs(predicted[i] - saved.predictions[i]) <= 1e-6f);
  }
}

TEST_CASE("predict: every kind of model says what its evaluation says, to 1e-6", "[predict]") {
  for (const char* model :
       {"model: {kind: logistic_regression}\n", "model: {kind: mlp, hidden: [8]}\n",
        "model: {kind: wide_deep, deep: {hidden: [8]}}\n",
        "model: {kind: deepfm, dim: 4, hidden: [8]}\n", "model: {kind: fm, dim: 4}\n",
        "model: {kind: ffm, dim: 3}\n",
        "model: {kind: autoint, dim: 4, head_dim: 3, hidden: [8], batch_norm: {}}\n",
        "model: {kind: dlrm, dim: 4, bottom: [8], top: [8]}\n",
        "model: {kind: mlp, hidden: [8]}\nloss: {kind: mse}\n",
        "model: {kind: mlp, hidden: [8], layer_norm: true, dropout: 0.3}\n",
        "model: {kind: wide_deep, deep: {hidden: [8]}, dropout: 0.5}\nloss: {kind: focal}\n",
        "model: {kind: mlp, hidden: [8, 4], batch_norm: {momentum: 0.8}}\n",
        "model: {kind: dlrm, dim: 4, bottom: [8], top: [8], batch_norm: {}}\n",
        "model: {kind: logistic_regression}\nloss: {kind: hinge}\n",
        "model: {kind: linear_regression}\nloss: {kind: huber}\n",
        "model: {kind: dcn_v2, cross_layers: 2, hidden: [8]}\n",
        "model: {kind: dcn_v2, cross_layers: 1, rank: 4, hidden: [8], structure: parallel}\n"}) {
    CheckEqualToEval(Job(absl::StrCat(kBought, model)));
  }
  CheckEqualToEval(Job(
      absl::StrCat(
          "label: {column: bought}\nmodel: {kind: matrix_factorization, user: {feature: shop}, ",
          "item: {feature: kind}, dim: 4}\n"),
      "oov_buckets: 1}\n  - {name: kind, column: grade, "
      "kind: categorical, oov_buckets: 1"));
}

TEST_CASE("predict: a model of several tasks says each of them, in csv and in JSON lines",
          "[predict]") {
  const DataFiles files;
  files.Write("train.csv", Rows(0, 400));
  files.Write("test.csv", Rows(380, 480));
  for (const char* model : {"{kind: mmoe, experts: 2, hidden: [4], tower: [3]}",
                            "{kind: shared_bottom, hidden: [4], tower: []}"}) {
    CAPTURE(model);
    const SavedJob saved = TrainAndSave(
        files, Job(absl::StrCat(
                   "labels:\n  - {name: bought, column: bought}\n",
                   "  - {name: years, column: years, loss: {kind: mse}, loss_weight: 0.0001}\n",
                   "model: ", model, "\n")));
    const auto predictor = Must(Predictor::Load(saved.directory));
    CHECK(predictor->says() == job::PredictionKind::kTasks);
    const auto blocks =
        Must(data::RowBlocks::Open(predictor->rows().spec(), files.Path("test.csv"), 1 << 20));
    const auto rows = Must(predictor->rows().ReadBlock(*Must(blocks->Next())));
    const Scores scores = Must(predictor->Predict(Must(rows.Read(0, rows.rows()))));
    REQUIRE(scores.prediction.shape() == Shape{rows.rows(), 2});
    REQUIRE(saved.predictions.size() == static_cast<size_t>(rows.rows()));
    for (size_t i = 0; i < saved.predictions.size(); ++i) {
      CHECK(std::abs(scores.prediction.data<float>()[2 * i] - saved.predictions[i]) <= 1e-6f);
    }
    const PredictionLines csv(predictor.get(), 0, true, Must(FindLineFormat("csv")));
    CHECK(csv.Header() == "line,bought_score,bought_probability,years_prediction\n");
    const PredictionLines json(predictor.get(), 0, false, Must(FindLineFormat("jsonl")));
    std::string lines;
    json.Append(rows, 0, scores, &lines);
    CHECK_THAT(lines, Catch::Matchers::StartsWith("{\"bought\": {\"score\": ") &&
                          Contains(", \"probability\": ") &&
                          Contains("}, \"years\": {\"prediction\": "));
    fs::remove_all(saved.directory);
  }
  CHECK_THAT(std::string(FindLineFormat("xml").status().message()),
             Contains("wanted one of csv, jsonl, found \"xml\""));
}

TEST_CASE("predict: a din says of a row and its history what its evaluation says", "[predict]") {
  const DataFiles files;
  // Who has what: u the items 0, 2, 4, ..., v every third one. One of the names is the empty text.
  const auto name = [](int item) { return item == 6 ? std::string() : absl::StrCat("i", item); };
  std::string rows = "user,item,bought,time\n";
  std::string had[2];
  for (int i = 0; i < 12; ++i) {
    for (const int user : {0, 1}) {
      if (i % (user + 2) != 0) continue;
      absl::StrAppend(&rows, user == 0 ? "u" : "v", ",", name(i), ",", (i / 2 + user) % 2, ",", i,
                      "\n");
      absl::StrAppend(&had[user], had[user].empty() ? "" : "|", name(i));
    }
  }
  files.Write("train.csv", rows);
  files.Write("test.csv", "user,item,bought,time\nu,i3,1,50\nv,i2,0,50\nnobody,i4,1,50\nv,,0,50\n");
  const std::string newest = GENERATE("", ", by: time, max_values: 3", ", by: time, max_values: 9");
  // Of the hidden layers; with it the running statistics are what is predicted by.
  const std::string norm = GENERATE("", ", batch_norm: {momentum: 0.5}");
  CAPTURE(newest, norm);
  const SavedJob saved = TrainAndSave(
      files,
      "dataset: {path: train.csv}\nfeatures:\n"
      "  - {name: item, kind: categorical, dim: 4, oov_buckets: 1}\n"
      "  - {name: history, kind: history, history_of: item, group_by: user" +
          newest +
          "}\n"
          "label: {column: bought}\nsplit: {test_path: test.csv}\ntrain: {batch_size: 4}\n"
          "model: {kind: din, target: item, history: history, attention: [4], hidden: [4]" +
          norm +
          "}\n"
          "optimizer: {table: {kind: sgd, learning_rate: 0.5}, dense: {kind: sgd}}\n");
  const auto predictor = Must(Predictor::Load(saved.directory));
  const auto read = Must(
      predictor->rows().ReadCells(std::vector<std::string>{"item", "history"},
                                  {{{"i3", had[0]}, {"i2", had[1]}, {"i4", ""}, {"", had[1]}}}));
  const Scores scores = Must(predictor->Predict(Must(read.Read(0, 4))));
  REQUIRE(saved.predictions.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(std::abs(scores.prediction.data<float>()[i] - saved.predictions[i]) <= 1e-6f);
  }
}

TEST_CASE("predict: every kind of table reads as in training, to 1e-6", "[predict]") {
  const std::string model = absl::StrCat(kBought, "model: {kind: mlp, hidden: [8]}\n");
  CheckEqualToEval(Job(model, "hash_buckets: 5"));
  CheckEqualToEval(Job(model, "id: hash"));  // ids without a row among them
  CheckEqualToEval(Job(absl::StrCat(model, "tables: {shop: {dtype: bf16}}\n"), "id: hash"));
  CheckEqualToEval(
      Job(absl::StrCat(model, "tables: {shop: {dtype: bf16}, tags: {sharding: hash}}\n")));
  CheckEqualToEval(
      Job(absl::StrCat(model, "tables: {shop: {wire_dtype: bf16, sharding: hash}}\n")));
}

TEST_CASE("predict: classes have the names that the label's values have", "[predict]") {
  const DataFiles files;
  files.Write("train.csv", Rows(0, 400));
  files.Write("test.csv", Rows(380, 480));
  const SavedJob saved = TrainAndSave(
      files, Job("label: {feature: kind}\nmodel: {kind: mlp, hidden: [8], classes: 3, "
                 "features: [shop, tags, age]}\n",
                 "oov_buckets: 1}\n  - {name: kind, column: grade, kind: categorical"));
  const auto predictor = Must(Predictor::Load(saved.directory));
  CHECK(predictor->says() == job::PredictionKind::kClasses);
  REQUIRE(predictor->choices() == 3);
  std::set<std::string> names;
  for (int64_t id = 0; id < 3; ++id) names.insert(predictor->NameOf(id));
  CHECK(names == std::set<std::string>{"g0", "g1", "g2"});
  CHECK(predictor->rows().inputs().size() == 3);  // not the label, and not what no layer sees
  const auto rows = Must(predictor->rows().ReadCells({{"shop", "tags", "age"}},
                                                     {{{"s1", "t1", "30"}, {"s2", "", "44"}}}));
  const Scores scores = Must(predictor->Predict(Must(rows.Read(0, 2))));
  const std::vector<Choice> best = predictor->Best(scores, 1, 3);
  REQUIRE(best.size() == 3);
  CHECK(best[0].probability >= best[1].probability);
  CHECK(best[0].probability + best[1].probability + best[2].probability == Approx(1));
  CHECK(predictor->Best(scores, 1, 1)[0].id == best[0].id);
  const int64_t first = best[0].id;
  CHECK(predictor->Best(scores, 1, 1, {&first, 1})[0].id == best[1].id);
}

TEST_CASE("predict: many threads at once get what one gets", "[predict]") {
  const DataFiles files;
  files.Write("train.csv", Rows(0, 400));
  files.Write("test.csv", Rows(380, 480));
  const SavedJob saved = TrainAndSave(
      files,
      Job(absl::StrCat(kBought, "model: {kind: deepfm, dim: 4, hidden: [8]}\n"), "id: hash"));
  const auto predictor = Must(Predictor::Load(saved.directory));
  std::vector<std::vector<float>> got(4);
  std::vector<std::thread> threads;
  for (auto& mine : got) {
    threads.emplace_back([&predictor, &mine] {
      for (int i = 0; i < 50; ++i) {
        const auto rows = predictor->rows().ReadCells(
            {{"shop", "tags", "age", "price"}},
            {{{absl::StrCat("s", i % 20), "t1|t2|t3", absl::StrCat(20 + i), ""}}});
        if (!rows.ok()) return;
        const auto scores = predictor->Predict(*rows->Read(0, 1));
        if (scores.ok()) mine.push_back(scores->prediction.data<float>()[0]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(got[0].size() == 50);
  for (const auto& mine : got) CHECK(mine == got[0]);
}

TEST_CASE("predict: a damaged file of the model is named", "[predict]") {
  const DataFiles files;
  files.Write("train.csv", Rows(0, 400));
  files.Write("test.csv", Rows(380, 480));
  const SavedJob saved =
      TrainAndSave(files, Job(absl::StrCat(kBought, "model: {kind: mlp, hidden: [8]}\n")));
  const auto refused = [&](const std::string& file, LoadOptions options = {}) {
    const std::string path = absl::StrCat(saved.directory, "/", file);
    std::string whole;
    {
      std::ifstream in(path, std::ios::binary);
      whole.assign(std::istreambuf_iterator<char>(in), {});
    }
    std::string damaged = whole;
    damaged.back() = static_cast<char>(damaged.back() ^ 1);
    std::ofstream(path, std::ios::binary) << damaged;
    const auto loaded = Predictor::Load(saved.directory, options);
    std::ofstream(path, std::ios::binary) << whole;
    return loaded.ok() ? "" : std::string(loaded.status().message());
  };
  for (const char* file : {"job.yaml", "features.json", "vocabulary/shop.txt"}) {
    CHECK_THAT(refused(file), Contains(file));
  }
  // Tables are not read by the way.
  CHECK_THAT(refused("shop.safetensors", {.verify = true}), Contains("shop.safetensors"));
  fs::remove(absl::StrCat(saved.directory, "/tags.safetensors"));
  CHECK_THAT(std::string(Predictor::Load(saved.directory).status().message()),
             Contains("tags.safetensors"));
}

// ---- files

struct Predicted {
  std::string lines;
  PredictedRows rows;
};

absl::StatusOr<Predicted> PredictText(const Predictor& predictor, PredictFileOptions options) {
  Predicted predicted;
  auto rows = PredictFile(predictor, options, [&](absl::string_view text) {
    predicted.lines.append(text.data(), text.size());
    return absl::OkStatus();
  });
  if (!rows.ok()) return rows.status();
  predicted.rows = *std::move(rows);
  return predicted;
}

// Numbers of lines after the first one.
std::vector<float> NumbersOf(const std::string& lines) {
  std::vector<float> numbers;
  for (const absl::string_view text :
       absl::StrSplit(absl::string_view(lines).substr(lines.find('\n')), absl::ByAnyChar(",\n"),
                      absl::SkipEmpty())) {
    float number = 0;
    REQUIRE(absl::SimpleAtof(text, &number));
    numbers.push_back(number);
  }
  return numbers;
}

TEST_CASE("predict: a file's lines depend on threads not at all, on blocks by rounding at most",
          "[predict]") {
  const DataFiles files;
  files.Write("train.csv", Rows(0, 400));
  const std::string test = files.Write("test.csv", Rows(300, 900));
  const SavedJob saved =
      TrainAndSave(files, Job(absl::StrCat(kBought, "model: {kind: mlp, hidden: [8]}\n")));
  const auto predictor = Must(Predictor::Load(saved.directory));
  const Predicted whole =
      Must(PredictText(*predictor, {.input = test, .threads = 1, .block_bytes = 1 << 20}));
  CHECK(whole.rows.rows == 600);
  CHECK(std::count(whole.lines.begin(), whole.lines.end(), '\n') == 601);
  CHECK_THAT(whole.lines, Catch::Matchers::StartsWith("score,probability\n"));
  const std::vector<float> wanted = NumbersOf(whole.lines);
  for (const size_t bytes : {1, 100, 3000}) {
    const auto cut = [&](int threads) {
      return Must(
          PredictText(*predictor, {.input = test, .threads = threads, .block_bytes = bytes}));
    };
    const Predicted one = cut(1);
    CHECK(cut(3).lines == one.lines);
    // A product of other shapes may round otherwise.
    const std::vector<float> found = NumbersOf(one.lines);
    REQUIRE(found.size() == wanted.size());
    for (size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(wanted[i]).margin(1e-6));
  }
}

TEST_CASE("predict: a bad row is told by file and line, or is skipped alone", "[predict]") {
  const DataFiles files;
  files.Write("train.csv", Rows(0, 400));
  files.Write("test.csv", Rows(380, 480));
  const SavedJob saved =
      TrainAndSave(files, Job(absl::StrCat(kBought, "model: {kind: mlp, hidden: [8]}\n")));
  const auto predictor = Must(Predictor::Load(saved.directory));
  const std::string rows = files.Write("rows.csv",
                                       "age,shop,price,tags\n20,s1,1,t1\nold,s1,1,t1\n"
                                       "30,\"s\n1\",1,t1\n40,s1,1\n\n50,s1,1,\"t1\n60,s1,1,t1\n");
  const auto refused = PredictText(*predictor, {.input = rows});
  CHECK(absl::IsInvalidArgument(refused.status()));
  CHECK_THAT(std::string(refused.status().message()),
             Contains("rows.csv:3:1") && Contains("\"old\""));
  const Predicted skipped = Must(PredictText(*predictor, {.input = rows, .skip_bad_rows = true}));
  CHECK(skipped.rows.rows == 3);
  CHECK(skipped.rows.skipped == 3);
  REQUIRE(skipped.rows.first_skipped.size() == 3);
  CHECK_THAT(skipped.rows.first_skipped[1], Contains("rows.csv:6:"));
  CHECK_THAT(skipped.rows.first_skipped[2], Contains("rows.csv:8:"));
  std::vector<std::string> lines;
  for (size_t at = 0; at < skipped.lines.size();) {
    const size_t end = skipped.lines.find('\n', at);
    lines.push_back(skipped.lines.substr(at, skipped.lines.find(',', at) - at));
    at = end + 1;
  }
  CHECK(lines == std::vector<std::string>{"line", "2", "4", "9"});
  // A column that is not there is no row's fault.
  const std::string other = files.Write("other.csv", "age,shop,price\n1,s1,1\n");
  const auto lacks = PredictText(*predictor, {.input = other, .skip_bad_rows = true});
  CHECK_THAT(std::string(lacks.status().message()), Contains("other.csv") && Contains("\"tags\""));
}

// ---- on a cluster

OpenCluster SomeCluster() {
  return [](const job::JobSpec&) -> absl::StatusOr<Cluster> { return testing::MustStart(2, 2); };
}

// The fields of lines, and which of them are numbers; names of items and classes are no numbers.
void CheckSameLines(const std::string& found, const std::string& wanted) {
  const std::vector<std::string> a = absl::StrSplit(found, absl::ByAnyChar(",\n"));
  const std::vector<std::string> b = absl::StrSplit(wanted, absl::ByAnyChar(",\n"));
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    double x = 0, y = 0;
    if (absl::SimpleAtod(a[i], &x) && absl::SimpleAtod(b[i], &y)) {
      CHECK(x == Approx(y).margin(1e-5));
    } else {
      CHECK(a[i] == b[i]);
    }
  }
}

TEST_CASE("predict: on a cluster every kind of model and table says what it says in one process",
          "[predict]") {
  const std::string mlp = absl::StrCat(kBought, "model: {kind: mlp, hidden: [8]}\n");
  const std::string tower =
      "evaluate: {group: shop}\nloss: {kind: sampled_softmax}\nmodel: {kind: two_tower, dim: 4, ";
  const std::string items = "oov_buckets: 1}\n  - {name: kind, column: grade, kind: categorical";
  for (const std::string& text :
       {Job(mlp), Job(mlp + "tables: {shop: {sharding: hash, shards: 3}}\n"),
        Job(mlp + "tables: {shop: {dtype: bf16}}\n"), Job(mlp, "id: hash"),
        Job("label: {feature: kind}\nmodel: {kind: mlp, classes: 3, features: [shop, tags, age], "
            "hidden: "
            "[8]}\n",
            items),
        Job(tower + "user: {features: [shop]}, item: {feature: kind}}\n", items),
        Job(tower + "normalize: true, user: {features: [shop, tags], hidden: [5]}, "
                    "item: {feature: kind, hidden: [6]}}\n",
            items)}) {
    CAPTURE(text);
    const DataFiles files;
    files.Write("train.csv", Rows(0, 400));
    const std::string test = files.Write("test.csv", Rows(380, 480));
    const SavedJob saved = TrainAndSave(files, text);
    const auto here = Must(Predictor::Load(saved.directory));
    const auto there = Must(Predictor::Load(saved.directory, {.open_cluster = SomeCluster()}));
    CHECK(there->remote());
    CHECK_FALSE(here->remote());
    PredictFileOptions options{.input = test, .block_bytes = 700};
    if (here->chooses()) options.top = 3;
    CheckSameLines(Must(PredictText(*there, options)).lines,
                   Must(PredictText(*here, options)).lines);
  }
}

TEST_CASE("predict: what a cluster predicts can be interrupted", "[predict]") {
  const DataFiles files;
  files.Write("train.csv", Rows(0, 400));
  const std::string test = files.Write("test.csv", Rows(380, 480));
  const SavedJob saved =
      TrainAndSave(files, Job(absl::StrCat(kBought, "model: {kind: mlp, hidden: [8]}\n")));
  const auto predictor = Must(Predictor::Load(saved.directory, {.open_cluster = SomeCluster()}));
  predictor->Interrupt();
  CHECK(absl::IsCancelled(PredictText(*predictor, {.input = test}).status()));
  const OpenCluster none = [](const job::JobSpec&) -> absl::StatusOr<Cluster> {
    return absl::UnavailableError("nobody is there");
  };
  CHECK_THAT(
      std::string(Predictor::Load(saved.directory, {.open_cluster = none}).status().message()),
      Contains("nobody is there"));
}

}  // namespace
}  // namespace coxswain::predict
