// Jobs of several tasks, of queries and of sequences, as people run them: trained, evaluated from a
// saved model, asked for predictions.
#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

nlohmann::json Run(const DataFiles& files, std::vector<std::string> arguments) {
  const std::string report = files.Path(arguments[0] + ".json");
  if (arguments[0] == "train") arguments.push_back("--quiet");
  arguments.insert(arguments.end(), {"--report", report});
  const Process::Result result = Coxswain(arguments);
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  return ReadJson(report);
}

TEST_CASE("several tasks: trained in memory and streamed, evaluated and asked", "[tasks]") {
  const DataFiles files;
  std::string csv = "x,y,click,stars,rated\n";
  for (int i = 0; i < 900; ++i) {
    const int x = i % 30, y = (i / 30 * 7) % 30;
    absl::StrAppend(&csv, x / 10.0, ",", y / 10.0, ",", x > y ? 1 : 0, ",", x % 3 == 0 ? 0 : x + y,
                    ",", x % 3 == 0 ? 0 : 1, "\n");
  }
  files.Write("rows.csv", csv);
  const std::string job = files.Write("tasks.yaml", R"(dataset: {path: rows.csv}
features:
  - {name: x, kind: numeric, normalization: standard}
  - {name: y, kind: numeric, normalization: standard}
labels:
  - {name: click, column: click}
  - {name: stars, column: stars, weight: rated, loss: {kind: mse}, loss_weight: 0.01}
split: {test: 0.2}
model: {kind: mmoe, experts: 3, hidden: [16], tower: [8]}
optimizer: {dense: {kind: adam, learning_rate: 0.01}}
train: {epochs: 20, batch_size: 32, early_stopping: {metric: click/auc, patience: 30}}
evaluate: {every_epochs: 5}
)");
  const std::string model = files.Path("model");
  const nlohmann::json trained = Run(files, {"train", job, "--in-process", "--model-dir", model});
  const nlohmann::json& metrics = trained["metrics"];
  CAPTURE(metrics.dump());
  CHECK(metrics["click/auc"].get<double>() > 0.97);
  CHECK(metrics["stars/rmse"].get<double>() < 5);  // of numbers from 1 to 58
  CHECK(metrics.contains("click/logloss"));
  const nlohmann::json evaluated = Run(files, {"eval", "--model-dir", model});
  CHECK(evaluated["metrics"]["click/auc"].get<double>() ==
        Approx(metrics["click/auc"].get<double>()).epsilon(1e-6));
  const nlohmann::json streamed =
      Run(files, {"train", job, "--in-process", "--set", "dataset.streaming=true", "--set",
                  absl::StrCat("dataset.cache_directory=", files.Path("cache")), "--set",
                  "dataset.block_bytes=4096"});
  CHECK(streamed["metrics"]["click/auc"].get<double>() > 0.97);
  const std::string out = files.Path("said.csv");
  const Process::Result predicted =
      Coxswain({"predict", "--model-dir", model, "--input",
                files.Write("new.csv", "x,y\n2.5,0.1\n0.1,2.5\n"), "--output", out});
  CAPTURE(predicted.err);
  REQUIRE(predicted.code == 0);
  CHECK_THAT(Content(out), StartsWith("click_score,click_probability,stars_prediction\n"));
}

TEST_CASE("a label that is unknown may be any number in a row of weight 0", "[tasks]") {
  const DataFiles files;
  std::string csv = "x,click,stars,known\n";
  for (int i = 0; i < 300; ++i) {
    const bool known = i % 3 != 0;
    absl::StrAppend(&csv, i % 10, ",", known ? std::to_string(i % 10 > 4) : "-1", ",",
                    known ? std::to_string(i % 10) : "1e30", ",", known ? 1 : 0, "\n");
  }
  files.Write("rows.csv", csv);
  const std::string job = files.Write("unknown.yaml", R"(dataset: {path: rows.csv}
features: [{name: x, kind: numeric, normalization: standard}]
label: {column: click, weight: known}
split: {validation: 0.2}
model: {kind: logistic_regression}
optimizer: {dense: {kind: adam, learning_rate: 0.1}}
train: {epochs: 5, batch_size: 32}
evaluate: {metrics: [auc, logloss]}
)");
  const nlohmann::json click = Run(files, {"train", job, "--in-process"})["metrics"];
  CHECK(click["auc"].get<double>() > 0.95);
  CHECK(click["logloss"].get<double>() < 0.5);
  const std::vector<std::string> stars = {"train",
                                          job,
                                          "--in-process",
                                          "--set",
                                          "label={column: stars, weight: known}",
                                          "--set",
                                          "model={kind: linear_regression}",
                                          "--set",
                                          "evaluate={metrics: [rmse, mae]}"};
  CHECK(Run(files, stars)["metrics"]["rmse"].get<double>() < 10);
  const Process::Result shown = Coxswain({"validate", job, "--data"});
  CHECK(shown.code == 0);
  CHECK_THAT(shown.out, Contains(" training examples of a weight above 0: 0 5"));
}

TEST_CASE("queries: a job with lambdarank orders rows better than chance", "[tasks]") {
  const DataFiles files;
  std::string svm;
  for (int q = 0; q < 80; ++q) {
    for (int i = 0; i < 5; ++i) {
      const int good = (q * 3 + i * 2) % 5;
      absl::StrAppend(&svm, good / 2, " qid:", q, " ", 1 + good, ":1 ", 6 + (q + i) % 4, ":1\n");
    }
  }
  files.Write("rows.svm", svm);
  const std::string job = files.Write("queries.yaml", R"(
dataset: {path: rows.svm, format: libsvm, query: qid}
split: {test: 0.25}
model: {kind: mlp, hidden: [8], batch_norm: {momentum: 0.9}}
loss: {kind: lambdarank, truncate: 3}
optimizer: {table: {kind: lazy_adam, learning_rate: 0.01}, dense: {kind: adam, learning_rate: 0.01}}
train: {epochs: 15, batch_size: 8}
evaluate: {metrics: [ndcg@3, mrr, map@5]}
)");
  const nlohmann::json trained =
      Run(files, {"train", job, "--in-process", "--model-dir", files.Path("model")});
  CAPTURE(trained["metrics"].dump());
  CHECK(trained["metrics"]["ndcg@3"].get<double>() > 0.95);
  CHECK(trained["metrics"]["mrr"].get<double>() > 0.95);
  // Of the 80 queries a quarter is drawn.
  const auto held_out = trained["evaluated"]["examples"].get<int64_t>();
  CHECK((held_out > 10 && held_out < 30));
  CHECK(trained["examples"] == 15 * (80 - held_out));
  CHECK(trained["evaluations"][0]["examples"] == held_out);
  // Streamed, too, where a query may lie in two blocks.
  const nlohmann::json streamed =
      Run(files, {"train", job, "--in-process", "--set", "dataset.streaming=true", "--set",
                  absl::StrCat("dataset.cache_directory=", files.Path("cache"))});
  CAPTURE(streamed["metrics"].dump());
  CHECK(streamed["metrics"]["ndcg@3"].get<double>() > 0.95);
}

TEST_CASE("queries: a loss of rows is shown as the mean over rows, whatever queries they are in",
          "[tasks]") {
  const DataFiles files;
  files.Write("rows.csv", "q,x,y\na,1,3\nb,1,1\nb,1,1\nb,1,1\n");
  files.Write("test.csv", "q,x,y\nc,1,0\n");
  // It learns nothing, and so predicts the mean, 1.5.
  const std::string job = files.Write("queries.yaml", R"(dataset: {path: rows.csv, query: q}
features: [{name: x, kind: numeric}]
label: {column: y}
split: {test_path: test.csv}
model: {kind: linear_regression}
optimizer: {dense: {kind: sgd, learning_rate: 1e-30}}
train: {batch_size: 1}
evaluate: {metrics: [rmse]}
)");
  const nlohmann::json report = Run(files, {"train", job, "--in-process"});
  CHECK(report["examples"] == 2);
  CHECK(report["evaluations"][0]["loss"].get<double>() == Approx((2.25 + 3 * 0.25) / 4));
}

TEST_CASE("sequences: a sasrec tells what comes next, and suggests it from its model", "[tasks]") {
  const DataFiles files;
  std::string csv = "user,item,time\n";
  for (int user = 0; user < 60; ++user) {
    const int step = user % 2 == 0 ? 1 : 6;  // forward or backward round a ring of 7
    for (int i = 0; i < 6; ++i) {
      absl::StrAppend(&csv, "u", user, ",i", (user / 2 + i * step) % 7, ",", i, "\n");
    }
  }
  files.Write("visits.csv", csv);
  const std::string job = files.Write("next.yaml", R"(dataset: {path: visits.csv}
features:
  - {name: item, kind: categorical, oov_buckets: 0}
  - {name: seen, kind: history, history_of: item, group_by: user, by: time, max_values: 4}
split: {holdout_per: user, by: time, holdout_last: true}
model: {kind: sasrec, history: seen, dim: 16, blocks: 1}
loss: {kind: full_softmax}
optimizer: {table: {kind: lazy_adam, learning_rate: 0.01}, dense: {kind: adam, learning_rate: 0.01}}
train: {epochs: 40, batch_size: 16}
evaluate: {metrics: [hit_rate@1], every_epochs: 40}
)");
  const std::string model = files.Path("model");
  const nlohmann::json trained = Run(files, {"train", job, "--in-process", "--model-dir", model});
  CAPTURE(trained["metrics"].dump());
  CHECK(trained["metrics"]["hit_rate@1"].get<double>() > 0.9);
  // u0 went 0 1 2 3 4 and then 5; u1 0 6 5 4 3 and then 2.
  const Process::Result asked =
      Coxswain({"recommend", "--model-dir", model, "--user", "u0", "--top", "1"});
  CAPTURE(asked.out, asked.err);
  CHECK(asked.code == 0);
  CHECK_THAT(asked.out, Contains("i5"));
  const Process::Result other =
      Coxswain({"recommend", "--model-dir", model, "--user", "u1", "--top", "1"});
  CHECK_THAT(other.out, Contains("i2"));
}

}  // namespace
}  // namespace coxswain
