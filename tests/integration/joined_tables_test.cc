// Evaluations of models whose job joins tables, which are replaced after training.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
using Strings = std::vector<std::string>;
namespace fs = std::filesystem;

// Rows name items, and are clicked where the item's price is high.
class Shop {
 public:
  explicit Shop(const std::string& dataset, const std::string& rest) {
    job_ = files_.Write("job.yaml", absl::StrCat("name: shop\ndataset: {", dataset,
                                                 ", join: [{path: items.csv, on: item}]}\n", R"(
features: [{name: price, kind: numeric}]
label: {column: clicked}
model: {kind: logistic_regression}
train: {batch_size: 8}
evaluate: {part: test, metrics: [logloss]}
)",
                                                 rest));
    WriteItems("items.csv", 1);
  }
  // Renamed into its place, with another price for each of `times`.
  void WriteItems(const std::string& name, int times) const {
    std::string text = "item,price\n";
    for (int i = 0; i < 4; ++i) absl::StrAppend(&text, i, ",", i * times % 5, ".5\n");
    Add(name, text);
  }
  void WriteRows(const std::string& name) const {
    std::string text = "item,clicked\n";
    for (int i = 0; i < 80; ++i) absl::StrAppend(&text, i % 4, ",", i % 4 > 1 ? 1 : 0, "\n");
    Add(name, text);
  }
  Strings Train(const Strings& more = {}) const {
    Strings all = {"train", job_, "--in-process", "--checkpoint-dir", saved()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  json Eval(const Strings& more) const {
    Strings all = {"eval", "--report", files_.Path("eval.json")};
    all.insert(all.end(), more.begin(), more.end());
    const auto result = Coxswain(all);
    CAPTURE(all, result.out, result.err);
    REQUIRE(result.code == 0);
    return ReadJson(files_.Path("eval.json"))["metrics"];
  }
  const DataFiles& files() const { return files_; }
  const std::string& job() const { return job_; }
  std::string saved() const { return files_.Path("saved"); }
  std::string model() const { return files_.Path("model"); }

 private:
  void Add(const std::string& name, const std::string& text) const {
    fs::rename(files_.Write(name + ".tmp", text), files_.Path(name));
  }

  const DataFiles files_;
  std::string job_;
};

struct Trained : Shop {
  Trained() : Shop("path: rows.csv", "split: {test: 0.25}\n") {
    WriteRows("rows.csv");
    const auto trained = Coxswain(Train({"--quiet", "--model-dir", model()}));
    CAPTURE(trained.out, trained.err);
    REQUIRE(trained.code == 0);
  }
};

TEST_CASE("eval scores rows with the joined tables that the model keeps, whatever became of them",
          "[model]") {
  const Trained shop;
  const json before = shop.Eval({"--model-dir", shop.model()});
  SECTION("replaced") { shop.WriteItems("items.csv", 3); }
  SECTION("taken away") { fs::remove(shop.files().Path("items.csv")); }
  CHECK(shop.Eval({"--model-dir", shop.model()}) == before);
  CHECK(shop.Eval({"--checkpoint-dir", shop.saved()}) == before);
  CHECK(shop.Eval({"--model-dir", shop.model(), "--local", "1x1"}) == before);
  CHECK(shop.Eval({"--model-dir", shop.model(), "--set", "dataset.streaming=true", "--set",
                   "dataset.cache_directory=" + shop.files().Path("cache")}) == before);
}

TEST_CASE("eval scores rows with the joined table that the command names", "[model]") {
  const Trained shop;
  const json before = shop.Eval({"--model-dir", shop.model()});
  shop.WriteItems("other.csv", 3);
  const json other =
      shop.Eval({"--model-dir", shop.model(), "--set", "dataset.join.0.path=other.csv"});
  CHECK(other != before);
  CHECK(shop.Eval({"--checkpoint-dir", shop.saved(), "--set",
                   "dataset.join=[{path: other.csv, on: item}]"}) == other);
  shop.WriteItems("items.csv", 3);
  CHECK(shop.Eval({shop.job(), "--model-dir", shop.model()}) == other);
}

TEST_CASE("eval refuses a model whose joined table was altered, and names the file", "[model]") {
  const Trained shop;
  const std::string kept = "/joined/0.csv";
  for (const auto& [directory, flag] :
       {std::pair<std::string, std::string>{shop.model(), "--model-dir"},
        {shop.saved() + "/inputs", "--checkpoint-dir"}}) {
    std::ofstream(directory + kept) << "item,price\n0,7\n1,7\n2,7\n3,7\n";
    const std::string from = flag == "--model-dir" ? shop.model() : shop.saved();
    const auto result = Coxswain({"eval", flag, from});
    CAPTURE(flag, result.out, result.err);
    CHECK(result.code == 3);
    CHECK_THAT(result.err, Contains(directory + kept));
  }
}

// A job that follows, of which two checkpoints are of two tables. Returns their numbers.
std::vector<std::string> TrainOnTwoTables(const Shop& shop) {
  fs::create_directory(shop.files().Path("days"));
  shop.WriteRows("held.csv");
  shop.WriteRows("days/1.csv");
  Process train(CoxswainCommand(shop.Train()));
  REQUIRE(train.WaitForOutput("epoch 1: loss"));
  train.Kill(SIGINT);
  REQUIRE(train.Wait().code == 75);
  shop.WriteItems("items.csv", 3);
  shop.WriteRows("days/2.csv");
  shop.files().Write("days/_DONE", "");
  const auto resumed = Coxswain(shop.Train({"--resume", "--quiet"}));
  CAPTURE(resumed.out, resumed.err);
  REQUIRE(resumed.code == 0);
  std::vector<std::string> numbers;
  for (const auto& entry : fs::directory_iterator(shop.saved())) {
    const std::string name = entry.path().filename();
    if (name.rfind("checkpoint-", 0) == 0) numbers.push_back(name.substr(11));
  }
  std::sort(numbers.begin(), numbers.end());
  REQUIRE(numbers.size() == 2);
  return numbers;
}

TEST_CASE("each checkpoint of a job that follows is evaluated with its own joined table",
          "[follow]") {
  const Shop shop("path: days, follow: true, cache_directory: cache",
                  "split: {test_path: held.csv}\n"
                  "checkpoint: {every_seconds: 1000, keep: 10}\n");
  const std::vector<std::string> numbers = TrainOnTwoTables(shop);
  std::vector<json> scores;
  for (size_t i = 0; i < 2; ++i) {
    const Strings from = {"--checkpoint-dir", shop.saved(), "--checkpoint", numbers[i], "--set"};
    const auto with = [&](const std::string& path) {
      Strings all = from;
      all.push_back(absl::StrCat("dataset.join.0.path=", path));
      return shop.Eval(all);
    };
    shop.WriteItems("own.csv", i == 0 ? 1 : 3);
    shop.WriteItems("other.csv", i == 0 ? 3 : 1);
    scores.push_back(shop.Eval({from.begin(), from.end() - 1}));
    CHECK(scores.back() == with("own.csv"));
    CHECK(scores.back() != with("other.csv"));
  }
  CHECK(shop.Eval({"--checkpoint-dir", shop.saved()}) == scores[1]);
  CHECK(shop.Eval({"--checkpoint-dir", shop.saved() + "/checkpoint-" + numbers[0]}) == scores[0]);

  const auto followed =
      Coxswain({"eval", "--follow", shop.saved(), "--local", "1x1", "--until-finished"});
  CAPTURE(followed.out, followed.err);
  REQUIRE(followed.code == 0);
  std::ifstream reports(shop.saved() + "/eval/reports.jsonl");
  size_t lines = 0;
  for (std::string line; std::getline(reports, line); ++lines) {
    REQUIRE(lines < 2);
    CHECK(json::parse(line)["metrics"] == scores[lines]);
  }
  CHECK(lines == 2);
}

TEST_CASE("the best checkpoint predicts as it did when the job has replaced its table twice",
          "[follow]") {
  const Shop shop("path: days, follow: true, cache_directory: cache",
                  "split: {test_path: held.csv}\n"
                  "checkpoint: {every_seconds: 1000, keep: 1}\n");
  fs::create_directory(shop.files().Path("days"));
  shop.WriteRows("held.csv");
  const std::string rows = shop.files().Write("rows.csv", "item\n0\n1\n2\n3\n");
  const auto predict = [&] {
    const auto result =
        Coxswain({"predict", "--checkpoint-dir", shop.saved() + "/eval/best", "--input", rows});
    CAPTURE(result.out, result.err);
    REQUIRE(result.code == 0);
    return result.out;
  };
  std::string best;
  for (const int day : {1, 2, 3}) {
    // Of the first day's prices the high ones are clicked.
    shop.WriteItems("items.csv", day == 1 ? 1 : day + 1);
    shop.WriteRows(absl::StrCat("days/", day, ".csv"));
    Process train(CoxswainCommand(shop.Train({"--resume"})));
    REQUIRE(train.WaitForOutput(absl::StrCat("epoch ", day, ": loss")));
    train.Kill(SIGINT);
    REQUIRE(train.Wait().code == 75);
    const auto followed =
        Coxswain({"eval", "--follow", shop.saved(), "--until-step", std::to_string(10 * day)});
    CAPTURE(followed.out, followed.err);
    REQUIRE(followed.code == 0);
    if (day == 1) best = predict();
  }
  REQUIRE(fs::read_symlink(shop.saved() + "/eval/best") == "checkpoint-000001");
  REQUIRE(!fs::exists(shop.saved() + "/checkpoint-000001"));
  CHECK(predict() == best);
}

}  // namespace
}  // namespace coxswain
