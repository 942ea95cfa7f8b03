// A list of labels, of which a row may have any number: trained, measured, saved and predicted.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

// Rows x, y with the tags "right" where x > 0 and "Über!" where y > 0: both, one or none.
std::string Rows(int first, int end) {
  std::string csv = "x,y,tags\n";
  for (int i = first; i < end; ++i) {
    const int x = i * 7 % 19 - 9, y = i * 5 % 23 - 11;
    absl::StrAppend(&csv, x, ",", y, ",", x > 0 ? "right" : "", x > 0 && y > 0 ? "|" : "",
                    y > 0 ? "Über!" : "", "\n");
  }
  return csv;
}

std::string WriteJob(const DataFiles& files, const std::string& classes) {
  files.Write("rows.csv", Rows(0, 2000));
  return files.Write(
      "job.yaml",
      absl::StrCat("dataset: {path: rows.csv}\n"
                   "features:\n  - {name: x, kind: numeric}\n  - {name: y, kind: numeric}\n"
                   "labels:\n  - {name: tag, column: tags, value_separator: \"|\", classes: [",
                   classes,
                   "]}\n"
                   "split: {test: 0.2}\n"
                   "model: {kind: shared_bottom, hidden: [16], tower: []}\n"
                   "train: {epochs: 10, batch_size: 50}\n"
                   "evaluate: {metrics: [auc, tag-right/accuracy]}\n"));
}

TEST_CASE("a list of labels is learned, and each class is predicted", "[tasks]") {
  const DataFiles files;
  const std::string model = files.Path("model"), report = files.Path("report.json");
  const auto trained = Coxswain({"train", WriteJob(files, "right, Über!"), "--in-process",
                                 "--quiet", "--model-dir", model, "--report", report});
  CAPTURE(trained.out, trained.err);
  REQUIRE(trained.code == 0);
  const auto metrics = ReadJson(report)["metrics"];
  CAPTURE(metrics.dump());
  CHECK(metrics["tag/auc"] > 0.97);
  CHECK(metrics["tag-right/accuracy"] > 0.9);
  const std::string rows = files.Write("new.csv", "x,y\n9,-11\n-9,11\n");
  const auto predicted = Coxswain({"predict", "--model-dir", model, "--input", rows});
  CAPTURE(predicted.out, predicted.err);
  REQUIRE(predicted.code == 0);
  const std::vector<std::string> lines = absl::StrSplit(predicted.out, '\n');
  CHECK(lines[0] == "tag-right_score,tag-right_probability,tag-Über__score,tag-Über__probability");
  const std::vector<std::string> right = absl::StrSplit(lines[1], ','),
                                 up = absl::StrSplit(lines[2], ',');
  REQUIRE(right.size() == 4);
  REQUIRE(up.size() == 4);
  CHECK(std::stod(right[1]) > 0.9);
  CHECK(std::stod(right[3]) < 0.1);
  CHECK(std::stod(up[1]) < 0.1);
  CHECK(std::stod(up[3]) > 0.9);
}

TEST_CASE("a class that no row has is told by the place of its list", "[tasks]") {
  const DataFiles files;
  const auto result = Coxswain({"train", WriteJob(files, "right, Rigth"), "--in-process"});
  CAPTURE(result.out, result.err);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, StartsWith("error: ") && Contains("job.yaml:6") &&
                             Contains("labels.tag-Rigth: wanted labels that differ, found 0"));
}

}  // namespace
}  // namespace coxswain
