// `--tensorboard`: what jobs leave for TensorBoard, over losses of their tasks too.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"
#include "tests/testing/event_files.h"
#include "tests/testing/tiny_disk.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
namespace fs = std::filesystem;

std::vector<std::string> With(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// The points of an evaluated metric are those of the report.
void CheckEvaluations(const json& report, const std::string& metric, const Curves& curves) {
  Curves::Points wanted[2], losses;
  const std::string parts[2] = {"validation", "test"};
  for (const json& evaluation : report["evaluations"]) {
    const int64_t steps = evaluation["steps"];
    for (int part = 0; part < 2; ++part) {
      if (evaluation["part"] != parts[part]) continue;
      wanted[part].emplace_back(steps, evaluation["metrics"][metric].get<float>());
    }
    losses.emplace_back(steps, evaluation["loss"].get<float>());
  }
  for (int part = 0; part < 2; ++part) {
    const auto found = curves.points.find(absl::StrCat(parts[part], "/", metric));
    CHECK((found == curves.points.end() ? Curves::Points{} : found->second) == wanted[part]);
  }
  CHECK(curves.points.at("train/mean_loss") == losses);
}

TEST_CASE("tensorboard: a job's curves are those of its report", "[tensorboard]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), runs = files.Path("new/runs"),
                    report_file = files.Path("report.json");
  const auto result =
      Coxswain({"train", job, "--in-process", "--tensorboard", runs, "--report", report_file,
                "--set", "train.epochs=3", "--set", "split={validation: 0.2, test: 0.1}", "--set",
                "evaluate.every_epochs=1", "--set", "optimizer.table.learning_rate=0.125"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  const json report = ReadJson(report_file);
  const Curves curves = ReadCurves(runs);
  CheckEvaluations(report, "rmse", curves);
  const Curves::Points& loss = curves.points.at("train/loss");
  CHECK(loss.size() >= 3);
  CHECK(InOrder(loss));
  CHECK(loss.back().first == report["steps"]);
  CHECK(loss.back().second == report["final_loss"].get<float>());
  CHECK(curves.points.at("learning_rate/user").back().second == 0.125);
  CHECK(curves.points.at("cluster/workers").back().second == 1);
  for (const auto& [step, rate] : curves.points.at("train/examples_per_second")) CHECK(rate > 0);
  CHECK_THAT(curves.texts.at("job"),
             Contains("kind: matrix_factorization") && Contains("--set train.epochs=3"));
  CHECK(curves.starts == std::vector<int64_t>{0});
}

TEST_CASE("tensorboard: the last point after early stopping is of the values that are kept",
          "[tensorboard]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), runs = files.Path("runs"),
                    report_file = files.Path("report.json");
  const auto result =
      Coxswain({"train", job, "--in-process", "--tensorboard", runs, "--report", report_file,
                "--set", "train.epochs=20", "--set", "split.validation=0.2", "--set",
                "train.early_stopping={metric: rmse, patience: 1, min_delta: 0.5}"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  const json report = ReadJson(report_file);
  REQUIRE(report["stopped_early"] == true);
  const Curves::Points points = ReadCurves(runs).points.at("validation/rmse");
  CHECK(points.back().second == report["metrics"]["rmse"].get<float>());
  CHECK(points.size() == report["evaluations"].size());
}

TEST_CASE("tensorboard: the curves of a job whose coordinator is killed go on where it goes on",
          "[tensorboard][resume]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), runs = files.Path("runs"),
                    report_file = files.Path("report.json");
  const std::vector<std::string> arguments = {"train",
                                              job,
                                              "--in-process",
                                              "--resume",
                                              "--checkpoint-dir",
                                              files.Path("checkpoints"),
                                              "--tensorboard",
                                              runs,
                                              "--report",
                                              report_file,
                                              "--set",
                                              "train.epochs=1000",
                                              "--set",
                                              "split.validation=0.2",
                                              "--set",
                                              "evaluate.every_epochs=50",
                                              "--set",
                                              "checkpoint.every_seconds=0.1"};
  {
    Process first(CoxswainCommand(arguments));
    const bool there = first.WaitForError(" written, ");
    CAPTURE(first.out(), first.err());
    REQUIRE(there);
    first.Kill(SIGKILL);
    first.Wait();
  }
  // As a write that was under way leaves it.
  REQUIRE(EventFiles(runs).size() == 1);
  std::ofstream(EventFiles(runs)[0], std::ios::binary | std::ios::app) << "torn";
  const auto result = Coxswain(arguments);
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  const json report = ReadJson(report_file);
  const Curves curves = ReadCurves(runs);
  CHECK(EventFiles(runs).size() == 2);
  REQUIRE(curves.starts.size() == 2);
  CHECK(curves.starts[0] == 0);
  CHECK(curves.starts[1] > 1);
  CheckEvaluations(report, "rmse", curves);
  CHECK(InOrder(curves.points.at("train/loss")));
  CHECK(curves.points.at("train/loss").back().first == report["steps"]);
}

TEST_CASE("tensorboard: the command that goes on with an interrupted job has the flag",
          "[tensorboard][resume]") {
  const DataFiles files;
  const std::string runs = files.Path("runs");
  Process job(CoxswainCommand({"train", WriteMatrixFactorization(files), "--in-process",
                               "--checkpoint-dir", files.Path("checkpoints"), "--tensorboard", runs,
                               "--set", "train.epochs=1000000"}));
  const bool trains = job.WaitForOutput(" steps");
  CAPTURE(job.out(), job.err());
  REQUIRE(trains);
  job.Kill(SIGINT);
  const auto result = job.Wait();
  CHECK(result.code == 75);
  CHECK_THAT(result.err, Contains(absl::StrCat("--tensorboard ", runs)) && Contains("--resume"));
  // What was trained until then has a point, too.
  CHECK(ReadCurves(runs).points.at("train/loss").back().first > 0);
}

TEST_CASE("tensorboard: a directory that cannot have summaries is told before training",
          "[tensorboard]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  REQUIRE(Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model}).code == 0);
  const auto told = [&](const std::string& directory, const std::vector<std::string>& more) {
    const auto result =
        Coxswain(With({"train", job, "--in-process", "--tensorboard", directory}, more));
    CAPTURE(directory, result.out);
    CHECK(result.code == 2);
    CHECK_THAT(result.out, !Contains("epoch"));
    return result.err;
  };
  CHECK_THAT(told(files.Write("file", "mine"), {}), Contains("it is no directory"));
  CHECK_THAT(told(files.Path("file/runs"), {}), Contains("--tensorboard"));
  CHECK_THAT(told(model, {}), Contains("lies in a saved model"));
  CHECK_THAT(told(files.Path("new/runs"), {"--model-dir", files.Path("new")}),
             Contains("which is replaced as a whole"));
  CHECK_THAT(told(files.Path("runs"), {"--report", files.Path("runs")}), Contains("--report"));
  CHECK_THAT(told("s3://bucket/runs", {}), Contains("wanted a path of this machine"));
  fs::create_directories(files.Path("days/1"));
  files.Write("days/1/a.csv", "user,item,rating\n");
  CHECK_THAT(told(files.Path("days/runs"), {"--set", "dataset.path=" + files.Path("days/*/*")}),
             Contains("would be read as"));
  CHECK_FALSE(fs::exists(files.Path("new")));
  CHECK_FALSE(fs::exists(files.Path("runs")));
}

TEST_CASE("tensorboard: a disk that fills up costs a job its curves and nothing else",
          "[tensorboard]") {
  const DataFiles files;
  const TinyDisk disk(files.Path("disk"), "64k");
  if (!disk.mounted()) return;
  const std::string job = WriteMatrixFactorization(files), report = files.Path("report.json");
  // An evaluation for each epoch: more points than the disk holds.
  const auto result =
      Coxswain({"train", job, "--in-process", "--tensorboard", files.Path("disk/runs"), "--report",
                report, "--set", "train.epochs=1000", "--set", "split.validation=0.2", "--set",
                "evaluate.every_epochs=1"});
  CAPTURE(result.out, result.err);
  CHECK(result.code == 0);
  const std::string warning = "warning: no more summaries for TensorBoard: ";
  const size_t at = result.err.find(warning);
  REQUIRE(at != std::string::npos);
  CHECK(result.err.find(warning, at + 1) == std::string::npos);
  CHECK(ReadJson(report)["evaluations"].size() == 1000);
  CHECK(ReadCurves(files.Path("disk/runs")).points.at("validation/rmse").size() > 10);
}

TEST_CASE("tensorboard: a side-car's curves are its reports", "[tensorboard][sidecar]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), runs = files.Path("runs"),
                    checkpoints = files.Path("checkpoints");
  const auto trained =
      Coxswain({"train", job, "--in-process", "--quiet", "--checkpoint-dir", checkpoints, "--set",
                "split.validation=0.2", "--set", "train.epochs=40", "--set",
                "checkpoint.every_steps=100", "--set", "checkpoint.keep=100"});
  CAPTURE(trained.err);
  REQUIRE(trained.code == 0);
  const auto evaluate = [&](const std::vector<std::string>& more) {
    return Coxswain(With({"eval", "--follow", checkpoints, "--tensorboard", runs}, more));
  };
  CHECK(evaluate({"--until-step", "1"}).code == 0);
  const auto evaluated = evaluate({"--until-finished"});
  CAPTURE(evaluated.out, evaluated.err);
  REQUIRE(evaluated.code == 0);
  Curves::Points wanted;
  std::ifstream reports(checkpoints + "/eval/reports.jsonl");
  for (std::string line; std::getline(reports, line);) {
    const json report = json::parse(line);
    wanted.emplace_back(report["steps"], report["metrics"]["rmse"].get<float>());
  }
  CHECK(wanted.size() > 1);
  CHECK(ReadCurves(runs).points.at("validation/rmse") == wanted);
  // The side-car's own directory holds nothing else.
  CHECK(Coxswain({"eval", "--follow", checkpoints, "--tensorboard", checkpoints + "/eval/runs",
                  "--until-finished"})
            .code == 2);
}

}  // namespace
}  // namespace coxswain
