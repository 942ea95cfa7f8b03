// Training on few of the rows whose label is 0.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/jobs.h"
#include "tests/testing/data_files.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

// Of 20 rows of the color a 4 have the label 1, of 50 of the color b one has.
std::string WriteClicks(const DataFiles& files, const std::string& label) {
  std::string rows = "color,clicked\n";
  for (int i = 0; i < 20000; ++i) {
    const int of_a = i % 2, number = i / 2;
    const bool clicked = of_a != 0 ? number % 20 < 4 : number % 50 == 0;
    absl::StrAppend(&rows, of_a != 0 ? "a," : "b,", clicked ? 1 : 0, "\n");
  }
  files.Write("clicks.csv", rows);
  return files.Write("clicks.yaml", absl::StrCat(R"(name: clicks
dataset: {path: clicks.csv}
features: [{name: color, kind: categorical}]
label: {column: clicked)",
                                                 label, R"(}
split: {validation: 0.1}
model: {kind: logistic_regression}
optimizer: {table: {kind: adagrad, learning_rate: 0.3}, dense: {kind: adagrad, learning_rate: 0.3}}
train: {epochs: 20, batch_size: 500}
evaluate: {metrics: [logloss, calibration]}
)"));
}

TEST_CASE("predictions of a model that few of the negatives were trained on are those of all rows",
          "[train]") {
  const DataFiles files;
  const std::string job = WriteClicks(files, ", keep_negatives: 0.1"), model = files.Path("model");
  const auto trained = Coxswain({"train", job, "--local", "1x2", "--quiet", "--model-dir", model});
  CAPTURE(trained.out, trained.err);
  REQUIRE(trained.code == 0);
  const auto says =
      Coxswain({"predict", "--model-dir", model, "--input", files.Write("t.csv", "color\na\nb\n")});
  CAPTURE(says.out, says.err);
  REQUIRE(says.code == 0);
  const std::vector<std::string> lines = absl::StrSplit(says.out, '\n', absl::SkipEmpty());
  REQUIRE(lines.size() == 3);
  double a = 0, b = 0;
  REQUIRE(absl::SimpleAtod(std::vector<std::string>(absl::StrSplit(lines[1], ','))[1], &a));
  REQUIRE(absl::SimpleAtod(std::vector<std::string>(absl::StrSplit(lines[2], ','))[1], &b));
  // 0.2 and 0.02; of the rows that were trained on 0.71 and 0.17 have the label 1.
  CHECK(a > 0.17);
  CHECK(a < 0.23);
  CHECK(b > 0.014);
  CHECK(b < 0.028);
}

TEST_CASE("where few of the negatives are trained on, it is told what cannot be", "[train]") {
  const DataFiles files;
  const auto error = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> command = {"train", WriteClicks(files, ", keep_negatives: 0.1"),
                                        "--in-process", "--quiet"};
    command.insert(command.end(), flags.begin(), flags.end());
    const auto ended = Coxswain(command);
    CHECK(ended.code == 2);
    return ended.err;
  };
  CHECK_THAT(
      error({"--set", "train.batch_size=50"}),
      Contains("clicks.yaml:4:") &&
          Contains("label.keep_negatives: train.batch_size counts all rows, and of 50 only 5 "
                   "would be left; wanted at least 10"));
  CHECK_THAT(error({"--set", "loss.kind=focal"}),
             Contains("label.keep_negatives: only for labels 0 and 1 with the loss "
                      "sigmoid_cross_entropy"));
  CHECK_THAT(error({"--count-visits"}), Contains("visits are counted of all rows"));
  files.Write("clicks.csv", "color,clicked\na,1\nb,0.5\na,0\n");
  const std::string job = files.Path("clicks.yaml");
  const auto soft = Coxswain({"train", job, "--in-process", "--quiet"});
  CHECK(soft.code == 2);
  CHECK_THAT(soft.err,
             Contains("clicks.csv:3") && Contains("a label that is an integer from 0 to 1"));
}

}  // namespace
}  // namespace coxswain
