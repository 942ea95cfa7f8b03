// How jobs end, and what they need to run from anywhere.
#include <catch2/catch.hpp>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/job_parser.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("training that runs away ends the job with code 3, and names the closure and the numbers",
          "[end]") {
  const DataFiles files;
  const std::string report = files.Path("report.json");
  const auto result =
      Coxswain({"train", WriteMatrixFactorization(files), "--in-process", "--report", report,
                "--set", "optimizer.table={kind: sgd, learning_rate: 1e30}"});
  CAPTURE(result.out, result.err);
  CHECK(result.code == 3);
  // Whichever is found first: a gradient of the table, or the loss.
  CHECK_THAT(result.err, Contains("the gradient of ") || Contains("the loss is"));
  CHECK_THAT(result.err, Contains("infinite") || Contains("NaN") || Contains("nan"));
  CHECK_THAT(result.err, Contains("closure ") || Contains("step"));
  CHECK_FALSE(std::filesystem::exists(report));
}

TEST_CASE("the evaluations of a report count the epochs, the last one too", "[end]") {
  const DataFiles files;
  const std::string report = files.Path("report.json");
  const auto result =
      Coxswain({"train", WriteTwoTower(files), "--in-process", "--quiet", "--report", report,
                "--set", "train.epochs=5", "--set", "evaluate.every_epochs=2"});
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  std::vector<int> epochs;
  const nlohmann::json written = ReadJson(report);
  for (const auto& evaluation : written["evaluations"]) {
    epochs.push_back(evaluation["epoch"].get<int>());
  }
  CHECK(epochs == std::vector<int>{2, 4, 5});
}

TEST_CASE("a model that was trained by a relative path can be used from any directory", "[end]") {
  const DataFiles files;
  const std::string job = std::filesystem::relative(WriteTwoTower(files)).string();
  const auto parsed = job::ParseJobFile(job);
  REQUIRE(parsed.ok());
  // Workers look for the data from directories of their own.
  CHECK(std::filesystem::path(parsed->dataset.paths(0)).is_absolute());
  const std::string model = files.Path("model");
  const auto trained = Coxswain(
      {"train", job, "--in-process", "--quiet", "--model-dir", model, "--set", "train.epochs=1"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const auto used = Run({"/usr/bin/env", "-C", "/", kProgram, "recommend", "--model-dir", model,
                         "--items", "i0,i1", "--top", "1"});
  CAPTURE(used.out, used.err);
  CHECK(used.code == 0);
  CHECK(used.out.substr(0, 1) == "i");
}

TEST_CASE("a job runs on the cluster that TF_CONFIG names", "[end]") {
  const DataFiles files;
  const Daemons daemons(files, 1, 1);
  const auto list = [](const std::vector<std::string>& addresses) {
    return absl::StrCat("[\"", absl::StrJoin(addresses, "\", \""), "\"]");
  };
  const std::string config = absl::StrCat(
      "{\"cluster\": {\"worker\": ", list(daemons.config().workers),
      ", \"ps\": ", list(daemons.config().ps),
      ", \"chief\": [\"localhost:1\"]}, \"task\": {\"type\": \"chief\", \"index\": 0}}");
  const std::string report = files.Path("report.json");
  const auto result = Coxswain(
      {"train", WriteTwoTower(files), "--quiet", "--report", report, "--set", "train.epochs=2"},
      {{"TF_CONFIG", config}});
  CAPTURE(config, result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json written = ReadJson(report);
  CHECK(written["workers"] == 1);
  CHECK(written["closures"]["completed"] > 0);
}

}  // namespace
}  // namespace coxswain
