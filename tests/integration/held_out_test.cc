// `coxswain eval` scores what was kept from training, or says that it cannot know.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Result = Process::Result;

constexpr char kHeader[] = "user,item,rating\n";

std::vector<std::string> Ratings() {
  std::vector<std::string> rows;
  for (int user = 0; user < 20; ++user) {
    for (int item = 0; item < 15; ++item) {
      rows.push_back(absl::StrCat("u", user, ",i", item, ",", 1 + user % 3 + item % 3));
    }
  }
  return rows;
}

std::string Csv(const std::vector<std::string>& rows) {
  return absl::StrCat(kHeader, absl::StrJoin(rows, "\n"), "\n");
}

// A trained model on ratings, and evaluations of it on what its data has become.
class Trained {
 public:
  explicit Trained(const std::string& split, const std::vector<std::string>& more = {}) {
    SetRows(Ratings());
    job_ = files.Write("job.yaml", absl::StrCat(R"(name: ratings
dataset: {path: ratings.csv}
features:
  - {name: user, kind: categorical}
  - {name: item, kind: categorical}
label: {column: rating}
split: )",
                                                split, R"(
model: {kind: matrix_factorization, user: {feature: user}, item: {feature: item}, dim: 2}
optimizer: {table: {kind: adagrad, learning_rate: 0.1}, dense: {kind: adagrad}}
train: {epochs: 2, batch_size: 32}
evaluate: {metrics: [rmse]}
)"));
    std::vector<std::string> arguments = {"train",   job_,          "--in-process",
                                          "--quiet", "--model-dir", files.Path("model")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = Coxswain(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
  }

  // The same job, which begins with what `from` has left, without --quiet.
  Result TrainOn(const std::string& from, const std::string& to,
                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"train",
                                          job_,
                                          "--in-process",
                                          "--init-from",
                                          files.Path(from),
                                          "--model-dir",
                                          files.Path(to),
                                          "--report",
                                          files.Path("trained.json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Coxswain(arguments);
  }
  Result EvalOf(const std::string& model) const {
    return Coxswain(
        {"eval", "--model-dir", files.Path(model), "--report", files.Path("report.json")});
  }
  int64_t Scored(const std::string& model) const {
    const Result result = EvalOf(model);
    CAPTURE(model, result.err);
    REQUIRE(result.code == 0);
    CHECK(Report()["held_out"] == true);
    CHECK_THAT(result.err, !Contains("note: the model was trained on from"));
    return Report()["examples"].get<int64_t>();
  }
  void SetRows(const std::vector<std::string>& rows) { files.Write("ratings.csv", Csv(rows)); }
  Result Eval(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"eval", "--model-dir", files.Path("model"), "--report",
                                          files.Path("report.json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Coxswain(arguments);
  }
  nlohmann::json Report() const { return ReadJson(files.Path("report.json")); }

  const DataFiles files;

 private:
  std::string job_;
};

TEST_CASE("eval measures the part that it is asked for", "[held-out]") {
  const Trained model("{validation: 0.3, test: 0.1}");
  const auto examples = [&model](const std::vector<std::string>& more, const std::string& part) {
    const Result result = model.Eval(more);
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    CHECK(model.Report()["part"] == part);
    return model.Report()["examples"].get<int64_t>();
  };
  const int64_t test = examples({}, "test");
  CHECK(examples({"--part", "test"}, "test") == test);
  CHECK(examples({"--part", "validation"}, "validation") > test);
  for (const char* set : {"evaluate.part=validation", "evaluate={part: validation}"}) {
    const Result key = model.Eval({"--set", set});
    CAPTURE(key.err);
    CHECK(key.code == 2);
    CHECK_THAT(key.err, Contains("--part"));
  }
  CHECK(model.Eval({"--set", "evaluate.metrics=[mae]"}).code == 0);
  const Result none = Trained("{test: 0.1}").Eval({"--part", "validation"});
  CHECK(none.code == 2);
  CHECK_THAT(none.err, Contains("the validation part has no rows"));
}

TEST_CASE("eval computes other metrics than early stopping and lower rates go by", "[held-out]") {
  const std::vector<std::string> rules = {"--set", "train.early_stopping={metric: rmse}", "--set",
                                          "train.reduce_on_plateau={metric: rmse}"};
  const Trained model("{validation: 0.3, test: 0.1}", rules);
  std::vector<std::string> by_file = {
      "eval",     model.files.Path("job.yaml"),    "--model-dir", model.files.Path("model"),
      "--report", model.files.Path("report.json"), "--set",       "evaluate.metrics=[mae]"};
  by_file.insert(by_file.end(), rules.begin(), rules.end());
  for (const Result& result :
       {model.Eval({"--set", "evaluate.metrics=[mae]"}), Coxswain(by_file)}) {
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    CHECK_THAT(result.out, Contains("mae") && !Contains("rmse"));
  }
}

TEST_CASE("a part that the model was trained with is none that is given to eval", "[held-out]") {
  const Trained model("{validation: 0.3, test: 0.1}", {"--set", "evaluate.part=validation"});
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--part", "test"}, {"--set", "evaluate.metrics=[mae]"}}) {
    const Result result = model.Eval(more);
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    CHECK(model.Report()["part"] == "test");
  }
  const Result given = model.Eval({"--set", "evaluate.part=validation"});
  CAPTURE(given.err);
  CHECK(given.code == 2);
  CHECK_THAT(given.err, Contains("--part"));
}

TEST_CASE("eval refuses rows that were put in another order, and says what to do", "[held-out]") {
  const std::string split = GENERATE("{test: 0.2}", "{validation: 0.2}", "{holdout_per: user}");
  CAPTURE(split);
  Trained model(split);
  CHECK(model.Eval().code == 0);
  CHECK(model.Report()["held_out"] == true);
  std::vector<std::string> rows = Ratings();
  std::sort(rows.begin(), rows.end());
  model.SetRows(rows);
  const Result refused = model.Eval();
  CHECK(refused.code == 2);
  CHECK(refused.out.empty());
  CHECK_THAT(refused.err, Contains("trained on 300 rows") &&
                              Contains("does not begin with these") &&
                              Contains("--set dataset.path=FILE") && Contains("test_path") &&
                              Contains("--allow-training-rows"));
  const Result scored = model.Eval({"--allow-training-rows"});
  CAPTURE(scored.err);
  CHECK(scored.code == 0);
  CHECK_THAT(scored.out, Contains("rmse"));
  CHECK_THAT(scored.err,
             Contains("note: ") && Contains("may have rows that the model was trained"));
  CHECK(model.Report()["held_out"] == false);
  // What the message tells to do.
  const std::string as_it_was = model.files.Write("was.csv", Csv(Ratings()));
  CHECK(model.Eval({"--set", "dataset.path=" + as_it_was}).code == 0);
  CHECK(model.Report()["held_out"] == true);
  const std::string own = model.files.Write("own.csv", absl::StrCat(kHeader, "u1,i1,3\nu2,i2,4\n"));
  const Result apart = model.Eval({"--set", absl::StrCat("split={test_path: ", own, "}")});
  CAPTURE(apart.err);
  CHECK(apart.code == 0);
  CHECK(model.Report()["examples"] == 2);
  CHECK(model.Report()["held_out"] == true);
}

TEST_CASE("eval refuses rows that were changed or removed, and takes what was appended",
          "[held-out]") {
  Trained model("{test: 0.2}");
  REQUIRE(model.Eval().code == 0);
  const int tested = model.Report()["examples"];
  std::vector<std::string> rows = Ratings();
  rows[7] = "u9,i9,1";
  model.SetRows(rows);
  CHECK(model.Eval().code == 2);
  rows = Ratings();
  rows.pop_back();
  model.SetRows(rows);
  CHECK(model.Eval().code == 2);
  rows = Ratings();
  for (int i = 0; i < 200; ++i) rows.push_back(absl::StrCat("u", i % 20, ",i", i % 15, ",2"));
  model.SetRows(rows);
  const Result grown = model.Eval();
  CAPTURE(grown.err);
  CHECK(grown.code == 0);
  CHECK_THAT(grown.err, Contains("note: the data has changed"));
  CHECK(model.Report()["held_out"] == true);
  CHECK(model.Report()["examples"] > tested);
}

TEST_CASE("eval refuses a split that was not that of training", "[held-out]") {
  Trained model("{test: 0.2}");
  const Result wider = model.Eval({"--set", "split.test=0.5"});
  CHECK(wider.code == 2);
  CHECK_THAT(wider.err, Contains("split.test was 0.2 and is 0.5 since the model was trained"));
  const Result seed = model.Eval({"--set", "train.seed=8"});
  CHECK(seed.code == 2);
  CHECK_THAT(seed.err, Contains("train.seed was 0 and is 8"));
}

TEST_CASE("eval of a model that does not know its rows says that, and scores", "[held-out]") {
  Trained model("{test: 0.2}");
  const std::string path = model.files.Path("model/features.json");
  nlohmann::json features = ReadJson(path);
  REQUIRE(features["examples"].erase("drawn_from") == 1);
  std::ofstream(path) << features.dump();
  // As such a version wrote it.
  const std::string manifest = model.files.Path("model/model.json");
  nlohmann::json files = ReadJson(manifest);
  REQUIRE(files["checksums"].erase("features.json") == 1);
  std::ofstream(manifest) << files.dump();
  const Result result = model.Eval();
  CHECK(result.code == 0);
  CHECK_THAT(result.err, Contains("note: the model was saved by an earlier version of coxswain"));
  CHECK(model.Report()["held_out"] == false);
}

TEST_CASE("a test part in files of its own is scored whatever became of the other rows",
          "[held-out]") {
  const DataFiles own;
  const std::string test = own.Write("test.csv", absl::StrCat(kHeader, "u1,i1,3\nu2,i2,4\n"));
  Trained model(absl::StrCat("{test_path: ", test, "}"));
  std::vector<std::string> rows = Ratings();
  std::reverse(rows.begin(), rows.end());
  model.SetRows(rows);
  const Result result = model.Eval();
  CHECK(result.code == 0);
  CHECK_THAT(result.err, Contains("as many examples, but not the same rows"));
  CHECK(model.Report()["held_out"] == true);
}

TEST_CASE("recommend suggests the same whatever has become of the data", "[held-out]") {
  const DataFiles files;
  const std::string job = WriteTwoTower(files), model = files.Path("model");
  REQUIRE(Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model}).code == 0);
  const std::vector<std::string> ask = {"recommend", "--model-dir", model, "--item", "i0"};
  const Result before = Coxswain(ask);
  REQUIRE(before.code == 0);
  CHECK(before.err.empty());
  std::ifstream in(files.Path("pairs.csv"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::reverse(lines.begin() + 1, lines.end());
  files.Write("pairs.csv", absl::StrJoin(lines, "\n"));
  const Result after = Coxswain(ask);
  CHECK(after.code == 0);
  CHECK(after.out == before.out);
  CHECK(after.err.empty());
}

TEST_CASE("a text whose words were moved is not scored by the part that was held out",
          "[held-out]") {
  const DataFiles files;
  std::vector<std::string> lines;
  for (int line = 0; line < 400; ++line) {
    std::string words;
    for (int i = 0; i < 12; ++i) absl::StrAppend(&words, "w", (line * 7 + i * line) % 61, " ");
    lines.push_back(words);
  }
  files.Write("text.txt", absl::StrJoin(lines, "\n"));
  const std::string job = files.Write("words.yaml", R"(name: words
dataset: {format: text, path: text.txt, min_count: 1}
split: {validation: 0.1}
model: {kind: word2vec, dim: 4}
train: {epochs: 1, batch_size: 512}
)");
  const std::string model = files.Path("model");
  const Result trained = Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const std::vector<std::string> eval = {"eval", "--model-dir", model};
  CHECK(Coxswain(eval).code == 0);
  std::rotate(lines.begin(), lines.begin() + 5, lines.end());
  files.Write("text.txt", absl::StrJoin(lines, "\n"));
  const Result moved = Coxswain(eval);
  CHECK(moved.code == 2);
  CHECK_THAT(moved.err, Contains("words") && Contains("the validation part may have words"));
}

TEST_CASE(
    "a test file that is trained on is refused where training begins, and not of a saved model",
    "[held_out]") {
  const DataFiles files;
  const std::string model = files.Path("model"), rows = files.Path("rows.csv");
  const std::string job =
      WriteTabular(files, "label: {column: label}\nmodel: {kind: logistic_regression}\n");
  const std::string data = files.Path("table.csv");
  REQUIRE(std::filesystem::exists(data));
  std::filesystem::copy(data, rows);
  const auto overlap = Coxswain({"train", job, "--in-process", "--set", "split.test_path=" + data});
  CHECK(overlap.code == 2);
  CHECK_THAT(overlap.err, Contains("split.test_path: " + data + " is a file of the training"));
  const auto trained = Coxswain(
      {"train", job, "--in-process", "--model-dir", model, "--set", "split.test_path=" + rows});
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  // As the command itself advises.
  const auto evaluated = Coxswain({"eval", "--model-dir", model, "--set", "dataset.path=" + rows});
  CAPTURE(evaluated.out, evaluated.err);
  CHECK(evaluated.code == 0);
}

TEST_CASE("training that goes on refuses another split of the rows that its model was trained on",
          "[held-out][warm-start]") {
  const Trained model("{test: 0.2}");
  const std::string change =
      GENERATE("train.seed=7", "split={test: 0.3}", "split={validation: 0.2}");
  CAPTURE(change);
  const Result refused = model.TrainOn("model", "next", {"--set", change});
  CAPTURE(refused.err);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains(" was ") && Contains(" and is ") &&
                              Contains("may have rows that") && Contains("test_path") &&
                              Contains("--allow-training-rows"));
  CHECK_FALSE(std::filesystem::exists(model.files.Path("next")));
  const Result allowed = model.TrainOn("model", "next", {"--set", change, "--allow-training-rows"});
  CAPTURE(allowed.err);
  REQUIRE(allowed.code == 0);
  CHECK_THAT(allowed.err, Contains("note: ") && Contains("may have rows that"));
  // Nor is what comes of it known to be measured by rows that it has not seen.
  const Result scored = model.EvalOf("next");
  CAPTURE(scored.err);
  CHECK(scored.code == 0);
  CHECK(model.Report()["held_out"] == false);
  CHECK_THAT(scored.err, Contains("note: the model was trained on from another one"));
  CHECK(model.TrainOn("next", "third", {"--set", change}).code == 0);
  CHECK(model.EvalOf("third").code == 0);
  CHECK(model.Report()["held_out"] == false);
  // All rows are trained on: nothing is measured.
  CHECK(model.TrainOn("model", "all", {"--set", "split=", "--set", "evaluate="}).code == 0);
}

TEST_CASE("rows that a model was trained on stay in training when it goes on with more of them",
          "[held-out][warm-start]") {
  const bool by_user = GENERATE(true, false);
  const bool streamed = GENERATE(false, true);
  CAPTURE(by_user, streamed);
  Trained model(by_user ? "{holdout_per: user}" : "{test: 0.2}");
  const int64_t before = model.Scored("model");
  std::vector<std::string> rows = Ratings();
  const auto grow = [&rows, &model](int first_item) {
    for (int user = 0; user < 20; ++user) {
      for (int item = first_item; item < first_item + 10; ++item) {
        rows.push_back(absl::StrCat("u", user, ",i", item % 15, ",", 1 + user % 3));
      }
    }
    model.SetRows(rows);
  };
  grow(0);
  const std::vector<std::string> how = {
      "--set", absl::StrCat("dataset.streaming=", streamed ? "true" : "false")};
  const Result grown = model.TrainOn("model", "grown", how);
  CAPTURE(grown.err);
  REQUIRE(grown.code == 0);
  CHECK_THAT(grown.err, Contains("note: 200 examples are new since " + model.files.Path("model") +
                                 " was trained: ") &&
                            !Contains("may have") && !Contains("split.by"));
  // Those that were held out still are, and others of the new rows.
  const int64_t now = ReadJson(model.files.Path("trained.json"))["evaluated"]["examples"];
  CHECK(now > before);
  CHECK(model.Scored("grown") == now);
  REQUIRE(model.TrainOn("grown", "again", how).code == 0);
  CHECK(ReadJson(model.files.Path("trained.json"))["evaluated"]["examples"] == now);
  CHECK(model.Scored("again") == now);
  grow(10);
  const Result third = model.TrainOn("grown", "third", how);
  CAPTURE(third.err);
  // Whether a user's row was held out depends on all rows of the user that were there.
  CHECK(third.code == (by_user ? 2 : 0));
  CHECK(model.EvalOf("grown").code == (by_user ? 2 : 0));
  if (by_user) CHECK_THAT(third.err, Contains("of which it knew the first ones before"));
}

TEST_CASE("training that goes on with more rows says how many of these it trains on",
          "[held-out][warm-start]") {
  const bool streamed = GENERATE(false, true);
  CAPTURE(streamed);
  // The rating stands for a time: that of new rows is the latest.
  Trained model("{by: rating, validation: 0.1, test: 0.1}");
  const auto note = [&](int new_rows, const std::vector<std::string>& more = {}) {
    std::vector<std::string> rows = Ratings();
    for (int i = 0; i < new_rows; ++i) rows.push_back(absl::StrCat("u", i % 20, ",i3,9"));
    model.SetRows(rows);
    std::vector<std::string> arguments = {
        "--set", absl::StrCat("dataset.streaming=", streamed ? "true" : "false")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = model.TrainOn("model", "next", arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.err;
  };
  const std::string since =
      " examples are new since " + model.files.Path("model") + " was trained: ";
  CHECK_THAT(note(60), Contains("note: 60" + since +
                                "0 of them are trained on, 60 held out (with "
                                "split.by, its shares are shares of all examples"));
  CHECK_THAT(note(150), Contains("note: 150" + since + "60 of them are trained on, 90 held out"));
  CHECK_THAT(note(0), !Contains("are new"));
  CHECK_THAT(note(60, {"--quiet"}), !Contains("are new"));
}

TEST_CASE("the next day's rows are trained on with a note, for they may be those of the day before",
          "[held-out][warm-start]") {
  Trained model("{test: 0.2}");
  std::vector<std::string> rows;
  for (int user = 0; user < 20; ++user) {
    for (int item = 0; item < 15; ++item) {
      rows.push_back(absl::StrCat("u", user, ",i", item, ",", 1 + (user + item) % 5));
    }
  }
  model.SetRows(rows);
  const Result next = model.TrainOn("model", "next");
  CAPTURE(next.err);
  REQUIRE(next.code == 0);
  CHECK_THAT(next.err,
             Contains("note: " + model.files.Path("model") + " was trained on 300 rows, ") &&
                 Contains("does not begin with these"));
  CHECK(model.EvalOf("next").code == 0);
  CHECK(model.Report()["held_out"] == false);
  // Rows that only the test part has are held out whatever was trained on.
  const std::string held_out = model.files.Write("held_out.csv", Csv(Ratings()));
  const Result apart =
      model.TrainOn("model", "apart", {"--set", "split={test_path: " + held_out + "}"});
  CAPTURE(apart.err);
  REQUIRE(apart.code == 0);
  CHECK_THAT(apart.err, !Contains("note: "));
  CHECK(model.EvalOf("apart").code == 0);
  CHECK(model.Report()["held_out"] == true);
}

}  // namespace
}  // namespace coxswain
