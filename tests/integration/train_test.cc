// Each kind of model and each optimizer learns small data in one process; the report tells all.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"
#include "runtime/checkpoint/manifest.h"
#include "tests/integration/jobs.h"
#include "tests/testing/same_output.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

// Trains in one process and returns the report.
nlohmann::json Train(const DataFiles& files, const std::string& job,
                     std::vector<std::string> arguments = {}) {
  const std::string report = files.Path("report.json");
  arguments.insert(arguments.begin(), {"train", job, "--in-process", "--report", report});
  const auto result = Coxswain(arguments);
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  return ReadJson(report);
}

// The mean loss of the first evaluated epochs, against the loss at the end.
void CheckLossFell(const nlohmann::json& report, double by) {
  REQUIRE(report["evaluations"].size() >= 2);
  const double first = report["evaluations"][0]["loss"], last = report["final_loss"];
  CAPTURE(first, last);
  CHECK(last < first * by);
}

constexpr char kWideDeep[] = R"(label: {column: label}
model: {kind: wide_deep, deep: {hidden: [16]}}
optimizer:
  table: {kind: adagrad, learning_rate: 0.1}
  dense: {kind: adam, learning_rate: 0.01}
train: {epochs: 30, batch_size: 32}
evaluate: {metrics: [auc, logloss, accuracy], every_epochs: 5}
)";

TEST_CASE("two_tower suggests what is liked by those who like the same", "[train]") {
  const DataFiles files;
  const nlohmann::json report = Train(files, WriteTwoTower(files));
  CheckLossFell(report, 0.9);
  CHECK(report["metrics"]["hit_rate@3"].get<double>() > 0.6);  // by chance: 3 of 27
}

TEST_CASE("two_tower learns by every loss of rankings, with and without a history", "[train]") {
  const DataFiles files;
  const std::string job = WriteTwoTower(files);
  const std::string by_id = files.Write("by_id.yaml", R"(
dataset: {path: pairs.csv}
features: [{name: user, kind: categorical}, {name: item, kind: categorical}]
split: {test: 0.2}
model: {kind: two_tower, user: {features: [user]}, item: {feature: item}, dim: 8}
optimizer: {table: {kind: lazy_adam, learning_rate: 0.02}}
train: {epochs: 60, batch_size: 32}
)");
  for (const char* loss :
       {"{kind: bpr, negatives: 16}", "{kind: in_batch_softmax}", "{kind: full_softmax}",
        "{kind: sampled_softmax, negatives: 16, reject_known: true}"}) {
    for (const std::string& file : {job, by_id}) {
      CAPTURE(loss, file);
      const nlohmann::json report =
          Train(files, file,
                {"--set", std::string("loss=") + loss, "--set",
                 "evaluate={metrics: [hit_rate@3, ndcg@3, map@3, recall@3, precision@3, mrr], "
                 "popularity_baseline: true, every_epochs: 30}"});
      const auto metric = [&](const char* name) { return report["metrics"][name].get<double>(); };
      // By chance 3 of 27. A user of its own has a seventh of its rows to learn from.
      CHECK(metric("hit_rate@3") > (file == job ? 0.6 : 0.35));
      CHECK(metric("recall@3") > (file == job ? 0.6 : 0.3));
      CHECK(metric("map@3") <= metric("mrr") + 1e-9);
      CHECK(metric("ndcg@3") > report["baseline"]["ndcg@3"].get<double>());
    }
  }
}

TEST_CASE("what else a user has is a candidate only if the job wants it so", "[train]") {
  const DataFiles files;
  WriteTwoTower(files);
  const std::string job = files.Write("test_rows.yaml", R"(
dataset: {path: pairs.csv}
features: [{name: user, kind: categorical}, {name: item, kind: categorical}]
split: {test: 0.3}
model: {kind: two_tower, user: {features: [user]}, item: {feature: item}, dim: 8}
loss: {kind: full_softmax}
optimizer: {table: {kind: lazy_adam, learning_rate: 0.02}}
train: {epochs: 60, batch_size: 32}
)");
  const std::string model = files.Path("model");
  Train(files, job, {"--model-dir", model});
  const auto measure = [&](const std::string& which) {
    const std::string report = files.Path("eval.json");
    const auto result =
        Coxswain({"eval", job, "--model-dir", model, "--report", report, "--set",
                  "evaluate={metrics: [hit_rate@3, ndcg@5, mrr], exclude_known: " + which + "}"});
    CAPTURE(result.out, result.err);
    REQUIRE(result.code == 0);
    return ReadJson(report)["metrics"];
  };
  const nlohmann::json all = measure("all"), training = measure("training");
  // The user's other items of the part rank as high, and are in its way.
  CHECK(all["hit_rate@3"].get<double>() > training["hit_rate@3"].get<double>());
  // A list has the same places, whether they are counted or left out and put back.
  CHECK(all["ndcg@5"].get<double>() == Approx(training["ndcg@5"].get<double>()));
  CHECK(all["mrr"].get<double>() == Approx(training["mrr"].get<double>()));
}

TEST_CASE("eval says of a checkpoint what it says of the model", "[train]") {
  const DataFiles files;
  const std::string job =
      WriteTabular(files,
                   "label: {column: label}\nmodel: {kind: wide_deep, deep: {hidden: [16]}}\n"
                   "optimizer: {table: {kind: lazy_adam}, dense: {kind: adam}}\n"
                   "train: {epochs: 4, batch_size: 32, ema: {decay: 0.9}}\n"
                   "evaluate: {metrics: [auc, logloss]}\n");
  const std::string model = files.Path("model"), saved = files.Path("saved");
  REQUIRE(Coxswain({"train", job, "--local", "2x1", "--quiet", "--model-dir", model,
                    "--checkpoint-dir", saved, "--set", "checkpoint.every_steps=20"})
              .code == 0);
  const auto of_model = Coxswain({"eval", "--model-dir", model});
  CAPTURE(of_model.out, of_model.err);
  REQUIRE(of_model.code == 0);
  const std::string report = files.Path("report.json");
  for (const std::string& where : {std::string("--in-process"), std::string("--local=2x2")}) {
    std::vector<std::string> ask = {"eval", "--checkpoint-dir", saved, "--report", report};
    if (where != "--in-process") ask.push_back(where);
    const auto of_checkpoint = Coxswain(ask);
    CAPTURE(where, of_checkpoint.out, of_checkpoint.err);
    REQUIRE(of_checkpoint.code == 0);
    testing::CheckSameOutput(of_checkpoint.out, of_model.out, 1e-4);
    CHECK(ReadJson(report)["held_out"] == true);
  }
  // A byte of a row, in a file that has its size still.
  const auto newest =
      checkpoint::ListCheckpoints(env::NewRealFileSystem().get(), saved).value().front();
  for (const auto& entry : std::filesystem::directory_iterator(newest.path)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-2, std::ios::end);
    const int byte = file.get();
    file.seekp(-2, std::ios::end);
    file.put(static_cast<char>(byte ^ 0x80));
  }
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"eval", "--checkpoint-dir", newest.path},
        {"nearest", "--checkpoint-dir", newest.path, "x"},
        {"train", job, "--in-process", "--init-from", saved}}) {
    const auto damaged = Coxswain(command);
    CAPTURE(command, damaged.out, damaged.err);
    CHECK(damaged.code == 3);
    CHECK_THAT(damaged.err, Contains(".safetensors"));
  }
  const auto none = Coxswain({"eval", "--checkpoint-dir", saved, "--checkpoint", "999"});
  CAPTURE(none.err);
  CHECK(none.code != 0);
  CHECK_THAT(none.err, Contains("999"));
  const auto nothing = Coxswain({"eval", "--checkpoint-dir", files.Path("nothing")});
  CHECK(nothing.code == 2);
}

TEST_CASE("evaluations within an epoch come at their steps, and may end the training", "[train]") {
  const DataFiles files;
  // 480 training rows: 15 steps an epoch.
  const std::string job = WriteTabular(files, kWideDeep);
  const auto steps = [](const nlohmann::json& report) {
    std::vector<int64_t> all;
    for (const auto& e : report["evaluations"]) all.push_back(e["steps"].get<int64_t>());
    return all;
  };
  const std::vector<std::string> set = {"--set", "evaluate={metrics: [auc], every_steps: 7}"};
  auto arguments = set;
  arguments.insert(arguments.end(), {"--set", "train={epochs: 2, batch_size: 32}"});
  const nlohmann::json report = Train(files, job, arguments);
  const int64_t total = report["steps"];
  const int64_t epoch = total / 2;
  std::vector<int64_t> wanted;
  for (int64_t step = 1; step <= total; ++step) {
    if (step % 7 == 0 || step % epoch == 0) wanted.push_back(step);
  }
  CHECK(steps(report) == wanted);
  // No gain is large enough: the second evaluation ends it, within the first epoch.
  arguments = set;
  arguments.insert(arguments.end(), {"--set",
                                     "train={epochs: 2, batch_size: 32, early_stopping: "
                                     "{min_delta: 1, patience: 1}}"});
  const nlohmann::json stopped = Train(files, job, arguments);
  CHECK(stopped["stopped_early"] == true);
  CHECK(stopped["steps"] == 14);
  // Closures of several steps are not cut: 8 is the first end of one behind 7.
  arguments = set;
  arguments.insert(arguments.end(),
                   {"--set", "train={epochs: 1, batch_size: 32, steps_per_function: 4}"});
  const nlohmann::json packed = Train(files, job, arguments);
  CHECK(steps(packed).front() == 8);
  CHECK(packed["updates"]["scheduled"] == packed["updates"]["applied"]);
}

TEST_CASE("evaluations come after seconds of training, too", "[train]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep);
  // Each step takes longer: there is one behind each.
  const nlohmann::json often =
      Train(files, job,
            {"--set", "evaluate={metrics: [auc], every_seconds: 0.0000001}", "--set",
             "train={epochs: 1, batch_size: 32}"});
  REQUIRE(often["evaluations"].size() > 2);
  double last = 0;
  for (const auto& e : often["evaluations"]) {
    CHECK(e["train_seconds"] >= last);
    last = e["train_seconds"];
  }
  const nlohmann::json never = Train(files, job,
                                     {"--set", "evaluate={metrics: [auc], every_seconds: 100000}",
                                      "--set", "train={epochs: 2, batch_size: 32}"});
  CHECK(never["evaluations"].size() == 2);
}

TEST_CASE("metrics have intervals where the job asks for them, whatever the batches", "[train]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep), model = files.Path("model");
  const nlohmann::json report =
      Train(files, job,
            {"--set", "evaluate={metrics: [auc, logloss], bootstrap: 200}", "--model-dir", model});
  const nlohmann::json intervals = report["intervals"];
  for (const char* name : {"auc", "logloss"}) {
    CHECK(intervals[name][0] <= report["metrics"][name]);
    CHECK(intervals[name][1] >= report["metrics"][name]);
  }
  CHECK(intervals["logloss"][0] < intervals["logloss"][1]);
  CHECK(report["evaluations"].back()["intervals"] == intervals);
  const std::string evaluated = files.Path("eval.json");
  const auto result = Coxswain({"eval", job, "--model-dir", model, "--report", evaluated, "--set",
                                "evaluate={metrics: [auc], bootstrap: 200, batch_size: 7}"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK(ReadJson(evaluated)["intervals"]["auc"][0].get<double>() ==
        Approx(intervals["auc"][0].get<double>()));
  CHECK_THAT(result.out, Catch::Matchers::Contains(" ["));
  CHECK(Train(files, job)["intervals"].empty());
}

TEST_CASE("learning rates are made smaller when a metric no longer gets better", "[train]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep);
  const auto factors = [&](const std::string& rule) {
    const nlohmann::json report =
        Train(files, job,
              {"--set", "evaluate={metrics: [auc, logloss]}", "--set",
               "train={epochs: 7, batch_size: 32, reduce_on_plateau: " + rule + "}"});
    CHECK(report["updates"]["scheduled"] == report["updates"]["applied"]);
    std::vector<double> all;
    for (const auto& e : report["evaluations"]) all.push_back(e["learning_rate_factor"]);
    return all;
  };
  // No gain is large enough: the first evaluation is the best, each second one after it reduces.
  CHECK(factors("{min_delta: 1, patience: 2, factor: 0.5}") ==
        std::vector<double>{1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25});
  CHECK(factors("{min_delta: 1, factor: 0.5, min_factor: 0.3}") ==
        std::vector<double>{1, 1, 0.5, 0.3, 0.3, 0.3, 0.3, 0.3});
  // The least is reached although four times 0.1 is not exactly 0.0001, and is not reduced again.
  const std::vector<double> least = factors("{min_delta: 1}");
  REQUIRE(least.size() == 8);  // one for each epoch, and the final one
  CHECK(least[5] == 0.0001);
  CHECK(least[6] == 0.0001);
  // What is as small as can be moves nothing: the metric stays where it was.
  const nlohmann::json report =
      Train(files, job,
            {"--set", "evaluate={metrics: [logloss]}", "--set",
             "train={epochs: 4, batch_size: 32, reduce_on_plateau: {metric: logloss, min_delta: 1, "
             "factor: 1e-30, min_factor: 1e-30}}"});
  const auto& all = report["evaluations"];
  CHECK(all[0]["metrics"]["logloss"] != all[1]["metrics"]["logloss"]);
  CHECK(all[2]["metrics"]["logloss"].get<double>() ==
        Approx(all[1]["metrics"]["logloss"].get<double>()).epsilon(1e-6));
}

TEST_CASE("learning rates stay as they are while the metric is undefined", "[train]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep);
  files.Write("same.csv", "color,size,label,kind\nred,1,0,0\nblue,2,0,0\n");
  const nlohmann::json report =
      Train(files, job,
            {"--set", "split={test_path: same.csv}", "--set", "evaluate={metrics: [auc]}", "--set",
             "train={epochs: 4, batch_size: 32, reduce_on_plateau: {}, early_stopping: {}}"});
  REQUIRE(report["evaluations"].size() >= 4);
  for (const auto& evaluation : report["evaluations"]) {
    CHECK(evaluation["metrics"]["auc"].is_null());
    CHECK(evaluation["learning_rate_factor"] == 1);
  }
}

TEST_CASE("metrics by group go by a feature that the model need not see", "[train]") {
  const DataFiles files;
  const nlohmann::json report =
      Train(files, WriteTabular(files, kWideDeep),
            {"--set",
             "evaluate={metrics: [auc, auc_by_group, logloss_by_group, pr_auc, f1, "
             "calibration, calibration_error], group: color}"});
  const auto metric = [&](const char* name) { return report["metrics"][name].get<double>(); };
  CHECK(metric("auc_by_group") > 0.9);
  CHECK(metric("pr_auc") > 0.9);
  CHECK(metric("f1") > 0.8);
  CHECK(metric("calibration") == Approx(1).margin(0.3));
  CHECK(metric("calibration_error") < 0.3);
  CHECK(metric("logloss_by_group") < 0.6);
}

// Rows sorted by the label; the number says something of it.
std::string SortedByLabel(int rows) {
  std::string csv = "x,u,y\n";
  for (int i = 0; i < rows; ++i) {
    const int y = i < rows / 2 ? 0 : 1;
    absl::StrAppend(&csv, (i * 37 % 100) / 50.0 + y, ",u", i % 9, ",", y, "\n");
  }
  return csv;
}

TEST_CASE("a part that is limited is evaluated by a sample of all of it, which the seed draws",
          "[train]") {
  const DataFiles files;
  files.Write("train.csv", SortedByLabel(300));
  files.Write("test.csv", SortedByLabel(4000));
  const std::string job = files.Write("job.yaml", R"(name: sorted
dataset: {path: train.csv}
features: [{name: x, kind: numeric}, {name: u, kind: categorical}]
label: {column: y}
split: {test_path: test.csv}
model: {kind: logistic_regression}
optimizer: {table: {kind: sgd, learning_rate: 0.1}, dense: {kind: sgd, learning_rate: 0.1}}
train: {epochs: 3, batch_size: 32}
evaluate: {metrics: [auc, logloss], max_examples: 200, batch_size: 64}
)");
  const std::string streaming = GENERATE("false", "true");
  CAPTURE(streaming);
  const std::vector<std::string> how = {"--set", "dataset.streaming=" + streaming, "--set",
                                        "dataset.block_bytes=1KiB"};
  std::vector<std::string> train = how;
  train.insert(train.end(), {"--model-dir", files.Path("model")});
  const nlohmann::json report = Train(files, job, train);
  CHECK(report["evaluated"]["examples"] == 200);
  const double auc = report["metrics"]["auc"], loss = report["metrics"]["logloss"];
  CHECK(auc > 0.6);
  const auto eval = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {"eval", "--model-dir", files.Path("model"), "--report",
                                        files.Path("eval.json")};
    command.insert(command.end(), how.begin(), how.end());
    command.insert(command.end(), more.begin(), more.end());
    const auto result = Coxswain(command);
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    return ReadJson(files.Path("eval.json"));
  };
  // The same rows, whoever evaluates and in whatever batches.
  const double again = eval({})["metrics"]["logloss"];
  CHECK(again == Approx(loss).epsilon(1e-5));
  const double cut = eval({"--set", "evaluate.batch_size=7"})["metrics"]["logloss"];
  CHECK(cut == Approx(loss).epsilon(1e-5));
  const double drawn = eval({"--set", "train.seed=99"})["metrics"]["logloss"];
  CHECK(drawn != Approx(loss).epsilon(1e-5));
  // All of them are as many as there are, in the order of the files.
  const nlohmann::json all = eval({"--set", "evaluate.max_examples=5000"});
  CHECK(all["examples"] == 4000);
  CHECK(all["metrics"]["auc"].get<double>() == Approx(auc).margin(0.15));
}

TEST_CASE("matrix_factorization finds ratings that it has not seen", "[train]") {
  const DataFiles files;
  const nlohmann::json report = Train(files, WriteMatrixFactorization(files));
  CheckLossFell(report, 0.5);
  CHECK(report["metrics"]["rmse"].get<double>() < 0.5);  // the mean alone: 1.15
}

TEST_CASE("wide_deep learns a label that needs both features", "[train]") {
  const DataFiles files;
  const nlohmann::json report = Train(files, WriteTabular(files, kWideDeep));
  CheckLossFell(report, 0.6);
  CHECK(report["metrics"]["auc"].get<double>() > 0.9);  // by chance: 0.5
  CHECK(report["metrics"]["accuracy"].get<double>() > 0.8);
}

TEST_CASE("mlp learns a number, a yes or no, and one of several classes", "[train]") {
  const DataFiles files;
  // One step after the other: two at a time make so small a net swing once in some dozens of runs.
  const std::vector<std::string> in_turn = {"--threads", "1"};
  const std::string train = R"(
optimizer: {table: {kind: lazy_adam, learning_rate: 0.02}, dense: {kind: adam, learning_rate: 0.02}}
train: {epochs: 30, batch_size: 32}
)";
  const nlohmann::json yes_no =
      Train(files,
            WriteTabular(files, "label: {column: label}\nmodel: {kind: mlp, hidden: [16]}" + train +
                                    "evaluate: {every_epochs: 5}\n"),
            in_turn);
  CheckLossFell(yes_no, 0.6);
  CHECK(yes_no["metrics"]["auc"].get<double>() > 0.9);
  const nlohmann::json classes = Train(
      files,
      WriteTabular(files, "label: {column: kind}\nmodel: {kind: mlp, hidden: [16], classes: 3}" +
                              train + "evaluate: {every_epochs: 5}\n"),
      in_turn);
  CheckLossFell(classes, 0.6);
  CHECK(classes["metrics"]["accuracy"].get<double>() > 0.85);  // the most frequent class: 0.6
  const nlohmann::json number = Train(files,
                                      WriteTabular(files,
                                                   "label: {column: kind}\nloss: {kind: mse}\n"
                                                   "model: {kind: mlp, hidden: [16]}" +
                                                       train + "evaluate: {every_epochs: 5}\n"),
                                      in_turn);
  CheckLossFell(number, 0.6);
  CHECK(number["metrics"]["rmse"].get<double>() < 0.5);  // the mean alone: 0.8
}

TEST_CASE("logistic_regression learns from sparse examples", "[train]") {
  const DataFiles files;
  const nlohmann::json report = Train(files, WriteLogisticRegression(files));
  CheckLossFell(report, 0.7);
  CHECK(report["metrics"]["auc"].get<double>() > 0.95);
}

TEST_CASE("matrix_factorization is also measured by how it ranks, where the job asks", "[train]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const nlohmann::json report =
      Train(files, job, {"--set", "evaluate.metrics=[rmse, ndcg@3, recall@3, hit_rate@3]"});
  CHECK(report["metrics"]["rmse"].get<double>() < 0.5);
  // Whatever a user has rated is what it has: there is little to tell by stars, but a figure.
  for (const char* name : {"ndcg@3", "recall@3", "hit_rate@3"}) {
    CAPTURE(name);
    CHECK(report["metrics"][name].get<double>() >= 0);
    CHECK(report["metrics"][name].get<double>() <= 1);
  }
}

TEST_CASE("din finds what a user is interested in among what it had", "[train]") {
  const DataFiles files;
  std::mt19937_64 random(11);
  std::string csv = "user,item,liked\n";
  // Items are of ten sorts; a user likes two of them and mostly meets items of these.
  for (int user = 0; user < 300; ++user) {
    const uint64_t first = random() % 10, second = (first + 1 + random() % 9) % 10;
    for (int i = 0; i < 16; ++i) {
      const uint64_t sort = i % 4 < 2 ? first : i % 4 < 3 ? second : random() % 10;
      const uint64_t item = sort + 10 * (random() % 12);
      absl::StrAppend(&csv, "u", user, ",i", item, ",", sort == first || sort == second, "\n");
    }
  }
  files.Write("likes.csv", csv);
  const std::string job = files.Write("din.yaml", R"(
dataset: {path: likes.csv}
features:
  - {name: item, kind: categorical, dim: 8}
  - {name: history, kind: history, history_of: item, group_by: user}
label: {column: liked}
split: {test: 0.2}
model: {kind: din, target: item, history: history, attention: [16], hidden: [16]}
optimizer:
  table: {kind: lazy_adam, learning_rate: 0.01}
  dense: {kind: adam, learning_rate: 0.01}
train: {epochs: 12, batch_size: 64}
evaluate: {metrics: [auc, logloss], every_epochs: 4}
)");
  // The same figures each time: batches that overlap cost so little data a few points at times.
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--set", "train.consistency={mode: sync, replicas: 1}"});
    return Train(files, job, more);
  };
  const nlohmann::json din = train({});
  CheckLossFell(din, 0.8);
  CHECK(din["metrics"]["auc"].get<double>() > 0.8);
  // The mean of what a user had says far less, and the item alone nothing.
  const nlohmann::json mean = train({"--set", "model={kind: mlp, hidden: [16]}"});
  CHECK(mean["metrics"]["auc"].get<double>() < din["metrics"]["auc"].get<double>() - 0.05);
  const nlohmann::json item = train({"--set", "model={kind: mlp, features: [item], hidden: [16]}"});
  CHECK(item["metrics"]["auc"].get<double>() < 0.65);
}

TEST_CASE("linear models learn a number, and one of several classes", "[train]") {
  const DataFiles files;
  const std::string train = R"(
optimizer: {table: {kind: adagrad, learning_rate: 0.3}, dense: {kind: adagrad, learning_rate: 0.3}}
train: {epochs: 30, batch_size: 32, clip: {limit: 1}}
evaluate: {every_epochs: 5}
)";
  for (const char* loss : {"mse", "huber", "mae"}) {
    CAPTURE(loss);
    const nlohmann::json number =
        Train(files, WriteTabular(files, absl::StrCat("label: {column: kind}\nmodel: {kind: "
                                                      "linear_regression}\nloss: {kind: ",
                                                      loss, "}", train)));
    CHECK(number["metrics"]["rmse"].get<double>() < 0.55);  // the mean alone: 0.8
  }
  const nlohmann::json classes =
      Train(files,
            WriteTabular(files,
                         "label: {column: kind}\nmodel: {kind: logistic_regression, "
                         "classes: 3}" +
                             train),
            {"--set", "evaluate.metrics=[accuracy, accuracy@2, logloss]"});
  CHECK(classes["metrics"]["accuracy"].get<double>() > 0.8);  // the most frequent class: 0.6
  CHECK(classes["metrics"]["accuracy@2"].get<double>() > 0.95);
}

TEST_CASE("the weights of several values in a field are learned from", "[train]") {
  const DataFiles files;
  std::mt19937_64 random(5);
  std::string csv = "tags,label\n";
  for (int i = 0; i < 1200; ++i) {  // the values alone say nothing
    const int likes = static_cast<int>(random() % 100), dislikes = static_cast<int>(random() % 100);
    absl::StrAppend(&csv, "good:0.", likes < 10 ? "0" : "", likes, "|bad:0.",
                    dislikes < 10 ? "0" : "", dislikes, ",", likes > dislikes ? 1 : 0, "\n");
  }
  files.Write("likes.csv", csv);
  const std::string job = files.Write("likes.yaml", R"(
dataset: {path: likes.csv}
features:
  - {name: tags, kind: categorical, value_separator: "|", weight_separator: ":", combiner: sum}
label: {column: label}
split: {test: 0.2}
model: {kind: logistic_regression}
optimizer: {table: {kind: adagrad, learning_rate: 0.5}}
train: {epochs: 20, batch_size: 32}
evaluate: {metrics: [auc], every_epochs: 5}
)");
  const nlohmann::json report = Train(files, job);
  CheckLossFell(report, 0.9);
  CHECK(report["metrics"]["auc"].get<double>() > 0.98);  // by chance: 0.5
}

TEST_CASE("every optimizer trains tables and dense weights", "[train]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep);
  struct Case {
    std::string table, dense;
  };
  const std::vector<Case> cases = {
      {"{kind: sgd, learning_rate: 0.1}", "{kind: sgd, learning_rate: 0.1}"},
      {"{kind: momentum, learning_rate: 0.02}",
       "{kind: momentum, learning_rate: 0.02, nesterov: true}"},
      {"{kind: adagrad, learning_rate: 0.1}", "{kind: adagrad, learning_rate: 0.1}"},
      {"{kind: lazy_adam, learning_rate: 0.02}", "{kind: adam, learning_rate: 0.02}"},
      {"{kind: adam, learning_rate: 0.02, schedule: {kind: linear_decay, end_factor: 0.1}}",
       "{kind: adam, learning_rate: 0.02, schedule: {kind: cosine_decay, warmup_steps: 5}}"},
      {"{kind: ftrl, learning_rate: 0.5}", "{kind: ftrl, learning_rate: 0.5}"},
      {"{kind: rowwise_adagrad, learning_rate: 0.1}",
       "{kind: ftrl, learning_rate: 0.5, schedule: {warmup_steps: 10, warmup_factor: 0.5}}"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.table, c.dense);
    const nlohmann::json report = Train(
        files, job, {"--set", "optimizer.table=" + c.table, "--set", "optimizer.dense=" + c.dense});
    CheckLossFell(report, 0.8);
    CHECK(report["metrics"]["auc"].get<double>() > 0.85);
  }
}

TEST_CASE("each worker shuffles all examples for itself where the job says so", "[train]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  for (const bool per_worker : {false, true}) {
    const std::string report = files.Path("report.json");
    const auto result = Coxswain(
        {"train", job, "--local", "1x2", "--count-visits", "--quiet", "--report", report, "--set",
         per_worker ? "train.visitation=per_worker" : "train.visitation=exactly_once"});
    CAPTURE(result.out, result.err, per_worker);
    REQUIRE(result.code == 0);
    const nlohmann::json json = ReadJson(report);
    CHECK(json["updates"]["applied"] == json["steps"]);
    CHECK((json["visitation"]["missing"] > 0) == per_worker);
    CHECK((json["visitation"]["repeated"] > 0) == per_worker);
  }
}

TEST_CASE("the report of a job on processes of this machine tells all", "[train]") {
  const DataFiles files;
  const std::string path = files.Path("report.json");
  const auto result =
      Coxswain({"train", WriteMatrixFactorization(files), "--local", "2x2", "--report", path,
                "--set", "train.epochs=4", "--set", "evaluate.every_epochs=1", "--set",
                "parameter_servers.partitioner={kind: fixed_shards, shards: 2}"});
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("ratings: ") && Contains("2 parameter servers and 2 workers"));
  const nlohmann::json report = ReadJson(path);
  CHECK(report["job"] == "ratings");
  const int64_t steps = report["steps"];
  CHECK(steps > 0);
  CHECK(steps % 4 == 0);
  // Every example of the training part, four times.
  CHECK(report["examples"].get<int64_t>() % 4 == 0);
  CHECK(report["examples"].get<int64_t>() / 4 + report["evaluated"]["examples"].get<int64_t>() ==
        600);
  CHECK(report["train_seconds"].get<double>() > 0);
  CHECK(report["examples_per_second"].get<double>() > 0);
  CHECK(report["final_loss"].is_number_float());
  CHECK(report["metrics"]["rmse"].is_number_float());
  CHECK(report["closures"]["scheduled"] == steps);
  CHECK(report["closures"]["completed"] == steps);
  CHECK(report["closures"]["retried"] == 0);
  CHECK(report["workers"] == 2);
  CHECK(report["parameter_servers"] == 2);
  std::vector<std::string> names;
  for (const auto& variable : report["variables"]) {
    names.push_back(variable["name"]);
    int64_t rows = 0;
    for (const auto& shard : variable["shards"]) {
      rows += shard["rows"].get<int64_t>();
      const int ps = shard["ps"];
      CHECK((ps == 0 || ps == 1));
    }
    if (variable["name"] == "user") {
      CHECK(variable["shape"] == nlohmann::json({31, 4}));
      CHECK(variable["shards"].size() == 2);
    }
    CHECK(rows == variable["shape"][0].get<int64_t>());
  }
  for (const char* name : {"user", "item", "user_bias", "item_bias"}) {
    CHECK(std::find(names.begin(), names.end(), name) != names.end());
  }
  REQUIRE(report["rpc"].size() == 2);
  for (const auto& ps : report["rpc"]) {
    CHECK(ps["frames_per_step"].get<double>() <= 4.0);
    CHECK(ps["bytes_received_per_step"].get<double>() > 0);
    CHECK(ps["bytes_sent_per_step"].get<double>() > 0);
  }
}

}  // namespace
}  // namespace coxswain
