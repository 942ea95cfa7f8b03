// `coxswain eval --follow` beside a job that trains, with kills of both.
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/env/file_system.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr char kModel[] = R"(label: {column: label}
model: {kind: mlp, hidden: [4]}
train: {batch_size: 32}
evaluate: {metrics: [logloss, auc], every_epochs: 1000000}
)";

std::vector<json> Reports(const std::string& directory) {
  std::vector<json> reports;
  std::ifstream file(directory + "/reports.jsonl");
  for (std::string line; std::getline(file, line);) {
    reports.push_back(json::parse(line, nullptr, /*allow_exceptions=*/false));
    INFO(line);
    REQUIRE(reports.back().is_object());
  }
  return reports;
}

void Train(const std::string& job, const std::string& checkpoints) {
  const auto trained =
      Coxswain({"train", job, "--in-process", "--quiet", "--checkpoint-dir", checkpoints});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
}

TEST_CASE(
    "sidecar: a job is evaluated while it trains, over kills of the side-car and of a worker, and "
    "each checkpoint has one report",
    "[sidecar]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kModel), checkpoints = files.Path("checkpoints"),
                    model = files.Path("model"), own = checkpoints + "/eval";
  const std::vector<std::string> follow = {"eval",    "--follow", checkpoints,
                                           "--local", "1x1",      "--until-finished"};
  Process first(CoxswainCommand(follow));
  REQUIRE(first.WaitForError("waiting for"));
  Daemons daemons(files, 2, 2);
  Process training(CoxswainCommand({"train", job, "--cluster", daemons.cluster_file(), "--quiet",
                                    "--checkpoint-dir", checkpoints, "--model-dir", model, "--set",
                                    "checkpoint.every_steps=200", "--set", "train.epochs=400",
                                    "--set", "checkpoint.keep=100"}));
  const bool begun = first.WaitForOutput("step ");
  INFO(first.out() << first.err() << training.err());
  REQUIRE(begun);
  first.Kill(SIGKILL);
  daemons.worker(0).Kill(SIGKILL);
  daemons.RestartWorker(0);
  Process second(CoxswainCommand(follow));
  const auto trained = training.Wait();
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const auto ended = second.Wait();
  INFO(ended.out << ended.err);
  CHECK(ended.code == 0);

  const std::vector<json> reports = Reports(own);
  REQUIRE(reports.size() > 2);
  size_t best = 0;
  for (size_t i = 0; i < reports.size(); ++i) {
    CHECK(reports[i]["checkpoint"] == i + 1);
    if (reports[i]["metrics"]["logloss"] < reports[best]["metrics"]["logloss"]) best = i;
  }
  const json& last = reports.back();
  CHECK(last["finished"] == true);
  CHECK(last["steps"] == ReadJson(model + "/model.json")["steps"]);
  CHECK(fs::read_symlink(own + "/best") ==
        absl::StrCat("checkpoint-", std::string(5 - std::to_string(best + 1).size() + 1, '0'),
                     best + 1));

  // The last one is the saved model.
  const std::string report = files.Path("eval.json");
  const auto of_model = Coxswain({"eval", "--model-dir", model, "--report", report});
  INFO(of_model.err);
  REQUIRE(of_model.code == 0);
  CHECK(ReadJson(report)["metrics"] == last["metrics"]);
  // The best one answers, without the job's own directory.
  fs::rename(own, files.Path("moved"));
  fs::remove_all(checkpoints);
  const std::string rows = files.Write("rows.csv", "color,size\nred,17\nblue,80\n");
  const auto predicted =
      Coxswain({"predict", "--checkpoint-dir", files.Path("moved/best"), "--input", rows});
  INFO(predicted.err);
  CHECK(predicted.code == 0);
}

TEST_CASE("sidecar: Ctrl-C, --until-step and --idle-seconds end it, and it goes on where it was",
          "[sidecar]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kModel), checkpoints = files.Path("checkpoints"),
                    own = files.Path("side");
  const auto trained =
      Coxswain({"train", job, "--in-process", "--quiet", "--checkpoint-dir", checkpoints, "--set",
                "checkpoint.every_steps=20", "--set", "train.epochs=10"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const std::vector<std::string> follow = {"eval",       job, "--follow", checkpoints,
                                           "--eval-dir", own, "--metric", "auc"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = follow;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto until = Coxswain(with({"--until-step", "1"}));
  INFO(until.out << until.err);
  CHECK(until.code == 0);
  const size_t reported = Reports(own).size();
  CHECK(reported > 0);
  Process running(CoxswainCommand(follow));
  REQUIRE(running.WaitForOutput("evaluating the checkpoints"));
  running.Kill(SIGINT);
  CHECK(running.Wait().code == 0);
  const auto idle = Coxswain(with({"--idle-seconds", "0.1"}));
  CHECK(idle.code == 0);
  CHECK_THAT(idle.err, Contains("no checkpoint came"));
  CHECK(Reports(own).size() == reported);  // nothing twice
}

TEST_CASE("sidecar: a job without a name is called like its file, also where it goes on",
          "[sidecar]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kModel), checkpoints = files.Path("checkpoints");
  std::ifstream named(job);
  std::string text((std::istreambuf_iterator<char>(named)), std::istreambuf_iterator<char>());
  const size_t name = text.find("name: ");
  if (name != std::string::npos) text.erase(name, text.find('\n', name) + 1 - name);
  const std::string mine = files.Write("mine.yaml", text);
  const auto trained =
      Coxswain({"train", mine, "--in-process", "--quiet", "--checkpoint-dir", checkpoints,
                "--model-dir", files.Path("model"), "--set", "checkpoint.every_steps=20"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  for (const char* until : {"--until-step", "--until-finished"}) {
    std::vector<std::string> follow = {"eval", "--follow", checkpoints, until};
    if (until == std::string("--until-step")) follow.push_back("1");
    const auto followed = Coxswain(follow);
    INFO(followed.out << followed.err);
    CHECK(followed.code == 0);
  }
  for (const json& report : Reports(checkpoints + "/eval")) CHECK(report["job"] == "mine");
  const std::string report = files.Path("eval.json");
  CHECK(Coxswain({"eval", "--model-dir", files.Path("model"), "--report", report}).code == 0);
  CHECK(ReadJson(report)["job"] == "mine");
}

TEST_CASE("sidecar: a metric of a job's only label may be named without the label", "[sidecar]") {
  const DataFiles files;
  const std::string job = WriteTabular(files,
                                       "labels: [{name: seen, column: label}]\n"
                                       "model: {kind: shared_bottom, hidden: [4]}\n"
                                       "train: {batch_size: 32, epochs: 1}\n"
                                       "evaluate: {metrics: [logloss, auc]}\n"),
                    checkpoints = files.Path("checkpoints");
  Train(job, checkpoints);
  for (const char* name : {"auc", "seen/auc"}) {
    const auto followed = Coxswain({"eval", "--follow", checkpoints, "--eval-dir",
                                    files.Path("side"), "--metric", name, "--until-finished"});
    INFO(followed.out << followed.err);
    CHECK(followed.code == 0);
  }
  const auto unknown = Coxswain({"eval", "--follow", checkpoints, "--metric", "mae"});
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err, Contains("'mae'") && Contains("seen/auc"));
}

TEST_CASE("sidecar: --until-finished ends where the job's last checkpoint cannot be evaluated",
          "[sidecar]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kModel), checkpoints = files.Path("checkpoints");
  Train(job, checkpoints);
  const auto follow = [&] {
    return Coxswain({"eval", job, "--follow", checkpoints, "--eval-dir", files.Path("side"),
                     "--until-finished"});
  };
  for (const auto& entry : fs::directory_iterator(checkpoints + "/checkpoint-000001")) {
    if (entry.path().extension() == ".safetensors") {
      fs::resize_file(entry.path(), entry.file_size() - 1);
    }
  }
  const auto damaged = follow();
  CHECK(damaged.code == 3);
  CHECK_THAT(damaged.err, Contains("the job's last checkpoint") && Contains("checkpoint-000001"));
  fs::remove_all(checkpoints + "/inputs");
  const auto without = follow();
  CHECK(without.code == 3);
  CHECK_THAT(without.err, Contains("the job has ended with") && Contains("inputs/inputs.json"));
}

TEST_CASE("sidecar: what cannot be looked at is no job that has not begun", "[sidecar]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kModel), side = files.Path("side");
  const std::string file = files.Write("file", "mine"), loop = files.Path("loop");
  fs::create_symlink("loop", loop);
  for (const std::string& wrong : {file, loop}) {
    const auto followed = Coxswain({"eval", job, "--follow", wrong, "--eval-dir", side});
    const auto served = Coxswain({"serve", "--follow", wrong, "--http", "127.0.0.1:0"});
    INFO(followed.err << served.err);
    CHECK(followed.code == (wrong == file ? 2 : 3));
    CHECK(served.code == followed.code);
    CHECK_THAT(followed.err, Contains("--follow: cannot ") && Contains(wrong));
    CHECK_THAT(served.err, Contains("--follow: cannot list " + wrong));
  }
}

TEST_CASE("sidecar: what cannot be is told before anything is evaluated", "[sidecar]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kModel), checkpoints = files.Path("checkpoints");
  Train(job, checkpoints);
  const auto refused = [&](std::vector<std::string> more, const std::string& what) {
    std::vector<std::string> all = {"eval", "--follow", checkpoints};
    all.insert(all.end(), more.begin(), more.end());
    const auto result = Coxswain(all);
    INFO(result.out << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(what));
  };
  refused({"--metric", "rmse"}, "rmse");
  refused({"--eval-dir", checkpoints}, "name another directory");
  refused({"--eval-dir", checkpoints + "/checkpoint-000001"}, "a checkpoint");
  refused({"--set", "split.validation=0.5"}, "trained on");
  refused({"--model-dir", files.Path("model")}, "");
  // Nor is this one's to mend: another one has the directory.
  const auto system = env::NewRealFileSystem();
  REQUIRE(system->MakeDirs(checkpoints + "/eval").ok());
  const auto lock = system->Lock(checkpoints + "/eval/.lock", "");
  REQUIRE(lock.ok());
  const auto held = Coxswain({"eval", "--follow", checkpoints, "--until-finished"});
  INFO(held.out << held.err);
  CHECK(held.code == 4);
  CHECK_THAT(held.err, Contains("another `coxswain eval --follow` writes in"));
}

TEST_CASE("sidecar: what is refused, or waits for a job, has made no directory", "[sidecar]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kModel), checkpoints = files.Path("checkpoints"),
                    model = files.Path("model");
  const std::vector<std::string> train = {"train",   job,           "--in-process",
                                          "--quiet", "--model-dir", model};
  std::vector<std::string> with_checkpoints = train;
  with_checkpoints.insert(with_checkpoints.end(), {"--checkpoint-dir", checkpoints});
  REQUIRE(Coxswain(with_checkpoints).code == 0);
  const auto of_model = Coxswain({"eval", "--follow", model});
  CAPTURE(of_model.err);
  CHECK(of_model.code == 2);
  CHECK_THAT(of_model.err, Contains("--follow " + model + " lies in a saved model"));
  CHECK_FALSE(fs::exists(model + "/eval"));
  CHECK(Coxswain(train).code == 0);  // it may still be replaced
  const std::string inside = checkpoints + "/checkpoint-000001/ev";
  CHECK(Coxswain({"eval", "--follow", checkpoints, "--eval-dir", inside}).code == 2);
  CHECK_FALSE(fs::exists(inside));
  CHECK(Coxswain({"eval", "--follow", checkpoints, "--metric", "rmse"}).code == 2);
  CHECK_FALSE(fs::exists(checkpoints + "/eval"));
  const auto waited = Coxswain({"eval", "--follow", files.Path("typo/x"), "--idle-seconds", "0.1"});
  CHECK(waited.code == 0);
  CHECK_THAT(waited.err, Contains("waiting for "));
  CHECK_FALSE(fs::exists(files.Path("typo")));
}

}  // namespace
}  // namespace coxswain
