// A side-car of a job that begins anew, as another one.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

TEST_CASE("eval --follow evaluates a job that begins anew as the job that it now is", "[follow]") {
  const DataFiles files;
  std::string rows = "x,y\n", others = "x,y\n";
  for (int i = 0; i < 400; ++i) {
    absl::StrAppend(&rows, i % 7, ",", i % 7 * 2, "\n");
    absl::StrAppend(&others, i % 5, ",", i % 5 * 3 - 20, "\n");
  }
  const std::string others_path = files.Write("others.csv", others);
  const std::string job = files.Write(
      "job.yaml", absl::StrCat("name: again\ndataset: {path: ", files.Write("rows.csv", rows),
                               "}\n", "features: [{name: x, kind: numeric}]\nlabel: {column: y}\n",
                               "split: {validation: 0.25}\nmodel: {kind: mlp, hidden: [8]}\n",
                               "train: {batch_size: 10, epochs: 1}\n",
                               "loss: {kind: mse}\nevaluate: {metrics: [rmse]}\n"));
  const std::string saved = files.Path("saved");
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"train", job, "--in-process", "--checkpoint-dir", saved};
    all.insert(all.end(), more.begin(), more.end());
    const auto result = Coxswain(all);
    CAPTURE(result.out, result.err);
    REQUIRE(result.code == 0);
  };
  train({});
  Process sidecar(CoxswainCommand({"eval", "--follow", saved, "--eval-dir", files.Path("own"),
                                   "--local", "1x1", "--until-step", "50"}));
  REQUIRE(sidecar.WaitForOutput("  rmse "));
  for (const auto& entry : fs::directory_iterator(saved)) fs::remove_all(entry.path());
  train({"--set", "model.activation=tanh", "--set", "evaluate.metrics=[mae]", "--set",
         "train.epochs=2", "--set", absl::StrCat("dataset.path=", others_path)});
  const auto result = sidecar.Wait(absl::Minutes(2));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  std::ifstream reports(files.Path("own") + "/reports.jsonl");
  json last;
  for (std::string line; std::getline(reports, line);) last = json::parse(line);
  const auto eval = Coxswain({"eval", "--checkpoint-dir", saved, "--part", "validation", "--report",
                              files.Path("eval.json")});
  CAPTURE(eval.err);
  REQUIRE(eval.code == 0);
  CHECK(last["metrics"] == ReadJson(files.Path("eval.json"))["metrics"]);
  CHECK(last["metrics"].contains("mae"));
  CHECK(last["best"] == true);
}

}  // namespace
}  // namespace coxswain
