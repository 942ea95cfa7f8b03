// Generated data, whose best possible score is known: models come near it.
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <system_error>

#include "tests/integration/jobs.h"
#include "tests/testing/paths.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

// Runs `coxswain generate` and returns the sidecar.
nlohmann::json Generate(const std::string& kind, const std::string& path,
                        std::vector<std::string> options) {
  options.insert(options.begin(), {"generate", kind, "--out", path});
  const auto result = Coxswain(options);
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains(path) && Contains("the truth"));
  return ReadJson(path + ".truth.json");
}

nlohmann::json Train(const DataFiles& files, std::vector<std::string> arguments) {
  const std::string report = files.Path("report.json");
  arguments.insert(arguments.begin(), "train");
  arguments.insert(arguments.end(), {"--quiet", "--report", report});
  const auto result = Coxswain(arguments);
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  return ReadJson(report);
}

std::string WriteClicks(const DataFiles& files, const std::string& data) {
  return files.Write("clicks.yaml", "dataset: {format: criteo, path: " + data + R"(}
split: {test: 0.1}
model: {kind: logistic_regression}
optimizer:
  table: {kind: lazy_adam, learning_rate: 0.003}
  dense: {kind: adam, learning_rate: 0.002}
train: {epochs: 4, batch_size: 256}
evaluate: {metrics: [auc, logloss], every_epochs: 4}
)");
}

TEST_CASE("models of products come near the planted AUC, far above a linear model", "[planted]") {
  const DataFiles files;
  const std::string data = files.Path("clicks.tsv");
  const nlohmann::json truth =
      Generate("criteo", data, {"--rows", "2e5", "--seed", "1", "--ids", "100"});
  const double best = truth["auc"];
  CHECK(best > 0.8);
  const std::string job = WriteClicks(files, data);
  const auto auc = [&](const std::string& model) {
    const nlohmann::json report =
        Train(files, {job, "--in-process", "--set", model, "--set", "dataset.hash_buckets=2000"});
    return report["metrics"]["auc"].get<double>();
  };
  const double linear = auc("model.kind=logistic_regression");
  for (const char* model :
       {"model={kind: dlrm, dim: 8, bottom: [16], top: [32, 16]}",
        "model={kind: deepfm, dim: 8, hidden: [32]}", "model={kind: fm, dim: 8}",
        "model={kind: dcn_v2, rank: 16, hidden: [32], dropout: 0.1}"}) {
    CAPTURE(model, best, linear);
    const double reached = auc(model);
    CHECK(reached > best - 0.035);
    CHECK(reached > linear + 0.035);
    CHECK(reached < best + 0.015);  // a test part of 20,000 rows is off by 0.003
  }
}

TEST_CASE("matrix_factorization comes near the planted noise", "[planted]") {
  const DataFiles files;
  const std::string data = files.Path("ratings.csv.gz");
  const nlohmann::json truth = Generate(
      "ratings", data, {"--rows", "60000", "--seed", "5", "--users", "300", "--items", "150"});
  CHECK(truth["rmse"] == 0.5);
  const std::string job = files.Write("ratings.yaml", "dataset: {path: " + data + R"(}
features:
  - {name: user, kind: categorical}
  - {name: item, kind: categorical}
label: {column: rating}
split: {test: 0.1}
model: {kind: matrix_factorization, user: {feature: user}, item: {feature: item}, dim: 6}
optimizer: {table: {kind: lazy_adam, learning_rate: 0.005}}
train: {epochs: 8, batch_size: 256}
)");
  const nlohmann::json report = Train(files, {job, "--in-process"});
  const double rmse = report["metrics"]["rmse"];
  CHECK(rmse > 0.48);
  CHECK(rmse < 0.53);  // the mean alone: about 0.9
}

TEST_CASE("the example of clicks trains on processes, and its saved model is evaluated",
          "[planted]") {
  const DataFiles files;
  const std::string data = files.Path("clicks.tsv.gz"), model = files.Path("model");
  Generate("criteo", data, {"--rows", "20000", "--ids", "50"});
  const std::string job = std::string(COXSWAIN_SOURCE_DIR) + "/examples/criteo.yaml";
  const std::vector<std::string> set = {"--set", "dataset.path=" + data,
                                        "--set", "train.epochs=2",
                                        "--set", "dataset.hash_buckets=500"};
  std::vector<std::string> train = {job, "--local", "2x2", "--model-dir", model};
  train.insert(train.end(), set.begin(), set.end());
  const nlohmann::json trained = Train(files, train);
  CHECK(trained["steps"] > 60);
  CHECK(trained["updates"]["scheduled"] == trained["updates"]["applied"]);
  std::vector<std::string> eval = {"eval", job,        "--model-dir",
                                   model,  "--report", files.Path("eval.json")};
  eval.insert(eval.end(), set.begin(), set.end());
  const auto result = Coxswain(eval);
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json metrics = ReadJson(files.Path("eval.json"))["metrics"];
  for (const char* name : {"auc", "logloss"}) {
    CHECK(metrics[name].get<double>() ==
          Approx(trained["metrics"][name].get<double>()).epsilon(1e-5));
  }
}

TEST_CASE("generate tells what is wrong with its flags and keeps what is there", "[planted]") {
  const DataFiles files;
  const std::string path = files.Path("x.csv");
  const auto failed = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "generate");
    const auto result = Coxswain(arguments);
    CHECK(result.code == 2);
    CHECK(result.out == "");
    return result.err;
  };
  CHECK_THAT(failed({"ratings", "--out", path, "--rows", "1.5"}),
             Contains("--rows: wanted a whole number of 1 to 9007199254740992, found 1.5"));
  CHECK_THAT(failed({"ratings", "--out", path, "--rows", "1e99"}),
             Contains("--rows: wanted a whole number of 1 to 9007199254740992, found 1e+99"));
  CHECK_THAT(failed({"ratings", "--out", path, "--rows", "10", "--users", "0"}),
             Contains("--users: wanted a whole number of 1 to ") && Contains(", found 0"));
  CHECK_THAT(failed({"ratings", "--out", "-", "--rows", "10"}),
             Contains("--out: wanted a file's name, found '-'"));
  CHECK_FALSE(std::filesystem::exists("-"));
  CHECK_THAT(failed({"criteo", "--out", path}), Contains("--rows is required"));
  CHECK_THAT(failed({"criterion", "--out", path}), Contains("did you mean") && Contains("criteo"));
  CHECK_THAT(failed({"criteo", "--out", path, "--rows", "10", "--users", "3"}),
             Contains("--users"));
  CHECK_FALSE(std::filesystem::exists(path));
  Generate("ratings", path, {"--rows", "10"});
  CHECK_THAT(failed({"ratings", "--out", path, "--rows", "10"}), Contains("--force replaces it"));
  Generate("ratings", path, {"--rows", "10", "--force"});
  const auto nowhere =
      Coxswain({"generate", "ratings", "--out", files.Path("no/such/x.csv"), "--rows", "10"});
  CHECK(nowhere.code != 0);
  CHECK_THAT(nowhere.err, Contains("no/such/x.csv"));
}

TEST_CASE("generate that is interrupted leaves nothing behind", "[planted]") {
  const DataFiles files;
  const std::string path = files.Path("x.csv");
  // A file that has the name of what earlier versions began stays as it is.
  files.Write("x.csv.begun", "mine");
  const int watch = inotify_init1(IN_CLOEXEC);
  REQUIRE(watch >= 0);
  REQUIRE(inotify_add_watch(watch, files.Path("").c_str(), IN_MODIFY) >= 0);
  Process process(CoxswainCommand({"generate", "ratings", "--out", path, "--rows", "1e9"}));
  // In the middle of it there is more than what a trial of the directory writes.
  const auto much = [&] {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(files.Path(""), error)) {
      const auto bytes = entry.file_size(error);
      if (!error && bytes > 100'000) return true;
    }
    return false;
  };
  pollfd modified = {watch, POLLIN, 0};
  char events[4096];
  do {
    REQUIRE(poll(&modified, 1, 60'000) == 1);
    REQUIRE(read(watch, events, sizeof(events)) > 0);
  } while (!much());
  close(watch);
  process.Kill(SIGINT);
  const Process::Result result = process.Wait();
  CAPTURE(result.out, result.err);
  CHECK(result.code == 130);
  CHECK_THAT(result.err, Contains("interrupted"));
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(files.Path(""))) {
    left.push_back(entry.path().filename().string());
  }
  CHECK(left == std::vector<std::string>{"x.csv.begun"});
}

}  // namespace
}  // namespace coxswain
