// A sasrec that is trained on all positions of its sequences, from the command line.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

constexpr int kUsers = 40, kItems = 24, kRows = 18, kLongest = 5, kEpochs = 20;
// Of the 17 rows of a user that are trained on all but the first are targets, 5 in a window.
constexpr int kTargets = kUsers * (kRows - 2), kWindows = kUsers * 4;

// Everybody goes round the same ring of items, half of them forward and half backward, so that
// the two last items tell the next one, and one alone does not: of the seven items that a user has
// not had, the last one and the next one of the other direction are as good for who sees a set.
std::string WriteRing(const DataFiles& files) {
  std::string csv = "user,item,time\n";
  for (int i = 0; i < kRows; ++i) {
    for (int user = 0; user < kUsers; ++user) {
      const int step = user % 2 == 0 ? i : kRows * kItems - i;
      absl::StrAppend(&csv, "u", user, ",i", (user / 2 + step) % kItems, ",", i, "\n");
    }
  }
  files.Write("ring.csv", csv);
  return files.Write(
      "job.yaml",
      absl::StrCat("dataset: {path: ring.csv}\n"
                   "features:\n  - {name: item, kind: categorical, oov_buckets: 0}\n"
                   "  - {name: seen, kind: history, history_of: item, group_by: user, by: time, "
                   "max_values: ",
                   kLongest,
                   "}\nsplit: {holdout_per: user, by: time, holdout_last: true}\n"
                   "model: {kind: sasrec, history: seen, dim: 16, blocks: 1, positions: all}\n"
                   "loss: {kind: full_softmax}\n"
                   "optimizer: {table: {kind: adam, learning_rate: 0.02}, "
                   "dense: {kind: adam, learning_rate: 0.02}}\n"
                   "train: {epochs: ",
                   kEpochs,
                   ", batch_size: 12}\n"
                   "evaluate: {metrics: [hit_rate@1]}\n"));
}

TEST_CASE("a sasrec of all positions learns an order, uses each window once, and goes on",
          "[sequences]") {
  const DataFiles files;
  const std::string job = WriteRing(files), report = files.Path("report.json"),
                    evaluation = files.Path("evaluation.json");
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"train",          job,        "--quiet",
                                          "--count-visits", "--report", report};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Process::Result result = Coxswain(arguments, {{"COXSWAIN_GPUS", "fake"}});
    CAPTURE(result.out, result.err);
    REQUIRE(result.code == 0);
    return ReadJson(report);
  };
  const auto check = [&](const nlohmann::json& of, int epochs) {
    CAPTURE(of.dump());
    CHECK(of["examples"] == kWindows * epochs);
    CHECK(of["visitation"]["examples"] == kWindows);
    CHECK(of["visitation"]["missing"] == 0);
    CHECK(of["visitation"]["repeated"] == 0);
    CHECK(of["evaluated"]["examples"] == kUsers);
  };
  const nlohmann::json whole = train({"--local", "2x2", "--model-dir", files.Path("model")});
  check(whole, kEpochs);
  CHECK(whole["metrics"]["hit_rate@1"] > 0.9);

  // Each time on the rest of an epoch: an epoch has 14 steps.
  for (const char* steps : {"5", "20", "50"}) {
    train({"--in-process", "--resume", "--checkpoint-dir", files.Path("checkpoints"), "--set",
           "train.epochs=", "--set", absl::StrCat("train.steps=", steps)});
  }
  const nlohmann::json resumed =
      train({"--in-process", "--resume", "--checkpoint-dir", files.Path("checkpoints")});
  check(resumed, kEpochs);
  CHECK(resumed["metrics"]["hit_rate@1"] > 0.9);

  // On a GPU as on the CPU.
  const nlohmann::json on_gpu = train({"--in-process", "--set", "train.device=gpu"});
  check(on_gpu, kEpochs);
  CHECK(on_gpu["metrics"]["hit_rate@1"] > 0.9);

  // The model that was saved is one of rows as well: what is asked of it goes by the last position.
  const auto evaluated =
      Coxswain({"eval", job, "--model-dir", files.Path("model"), "--report", evaluation, "--set",
                "model.positions=last", "--set", "dataset.streaming=true"});
  CAPTURE(evaluated.out, evaluated.err);
  REQUIRE(evaluated.code == 0);
  CHECK(ReadJson(evaluation)["metrics"]["hit_rate@1"] > 0.9);
  const auto next = Coxswain(
      {"recommend", "--model-dir", files.Path("model"), "--top", "1", "--items", "i1,i2,i3,i4,i5"});
  CAPTURE(next.out, next.err);
  CHECK_THAT(next.out, Contains("i6"));
  const nlohmann::json on_rows = train({"--in-process", "--init-from", files.Path("model"), "--set",
                                        "model.positions=last", "--set", "train.epochs=1"});
  CHECK(on_rows["examples"] == kUsers * (kRows - 1));
  CHECK(on_rows["metrics"]["hit_rate@1"] > 0.9);
}

TEST_CASE("windows of a sasrec are shown, and data that has none is refused", "[sequences]") {
  const DataFiles files;
  const std::string job = WriteRing(files);
  const auto shown = Coxswain({"validate", job, "--data"});
  CAPTURE(shown.out, shown.err);
  REQUIRE(shown.code == 0);
  CHECK_THAT(shown.out, Contains(absl::StrCat("examples: training ", kWindows, " windows with ",
                                              kTargets, " targets, test ", kUsers, "\n")));
  files.Write("ring.csv", "user,item,time\nu,i1,1\nv,i2,2\nu,i2,3\n");
  const auto none = Coxswain({"validate", job, "--data"});
  CAPTURE(none.out, none.err);
  CHECK(none.code == 2);
  CHECK_THAT(none.err, Contains("model.positions: all: wanted a user with two training rows"));
  const auto streamed = Coxswain({"validate", job, "--set", "dataset.streaming=true"});
  CHECK(streamed.code == 2);
  CHECK_THAT(streamed.err, Contains("model.positions: all: windows of a user's rows are made in "
                                    "memory, and the data is streamed"));
}

}  // namespace
}  // namespace coxswain
