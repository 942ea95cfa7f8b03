// Jobs whose data has rows that cannot be read (dataset.max_bad_rows).
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

constexpr char kModel[] = R"(label: {column: label}
model: {kind: mlp, hidden: [4]}
train: {epochs: 2, batch_size: 32}
evaluate: {metrics: [logloss]}
)";

// The tabular job whose file has 12 more rows, which cannot be read.
std::string WriteWithBadRows(const DataFiles& files) {
  const std::string job = WriteTabular(files, kModel);
  std::ifstream file(files.Path("table.csv"), std::ios::binary);
  const std::string clean{std::istreambuf_iterator<char>(file), {}};
  std::string dirty;
  int line = 0;
  for (const std::string& row : std::vector<std::string>(absl::StrSplit(clean, '\n'))) {
    if (row.empty()) break;
    absl::StrAppend(&dirty, row, "\n");
    if (line++ % 50 == 7) absl::StrAppend(&dirty, line % 100 == 8 ? "torn\n" : "red,big,1,1\n");
  }
  files.Write("clean.csv", clean);
  files.Write("table.csv", dirty);
  return job;
}

std::vector<std::string> Training(const std::string& job, const std::string& most,
                                  std::vector<std::string> more) {
  more.insert(more.begin(), {"train", job, "--count-visits", "--set",
                             absl::StrCat("dataset.max_bad_rows=", most)});
  return more;
}

TEST_CASE("a job passes over as many bad rows as it may, and says which", "[cli]") {
  const DataFiles files;
  const std::string job = WriteWithBadRows(files), report = files.Path("report.json");
  const auto first = Coxswain({"train", job, "--in-process", "--quiet"});
  CHECK(first.code == 2);
  CHECK_THAT(first.err, Contains("table.csv:9:"));
  const auto few = Coxswain(Training(job, "11", {"--in-process"}));
  CHECK(few.code == 2);
  CHECK_THAT(few.err, Contains("12 rows cannot be read") && Contains("dataset.max_bad_rows"));
  const std::string cache = "dataset.cache_directory=" + files.Path("cache");
  const std::vector<std::vector<std::string>> ways = {
      {"--in-process", "--set", "dataset.streaming=false"},
      {"--local", "1x2", "--set", "dataset.streaming=false"},
      {"--local", "2x2", "--set", "dataset.streaming=true", "--set", "dataset.block_bytes=400",
       "--set", cache}};
  for (std::vector<std::string> way : ways) {
    CAPTURE(way);
    way.insert(way.end(), {"--report", report, "--model-dir", files.Path("model")});
    const auto trained = Coxswain(Training(job, "12", way));
    CAPTURE(trained.out, trained.err);
    REQUIRE(trained.code == 0);
    CHECK_THAT(trained.err, Contains("a row is passed over: ") && Contains("table.csv:9:1: ") &&
                                Contains("12 rows were passed over"));
    CHECK_THAT(trained.out, Contains("rows of the data that were passed over") && Contains(": 12"));
    const auto told = ReadJson(report);
    CHECK(told["bad_rows"] == 12);
    const int64_t training = told["visitation"]["examples"];
    CHECK(told["examples"] == 2 * training);
    CHECK(told["visitation"]["missing"] == 0);
    CHECK(told["visitation"]["repeated"] == 0);
    // The model's own evaluation reads the same rows, and is told nothing else of the clean ones.
    const auto evaluated = Coxswain({"eval", "--model-dir", files.Path("model")});
    CHECK_THAT(evaluated.err, Contains("12 rows were passed over"));
    const auto clean = Coxswain({"eval", "--model-dir", files.Path("model"), "--set",
                                 "dataset.path=" + files.Path("clean.csv")});
    CHECK(clean.out == evaluated.out);
    std::filesystem::remove_all(files.Path("model"));
  }
}

TEST_CASE("a job goes on with another number of bad rows that may be", "[cli]") {
  const DataFiles files;
  const std::string job = WriteWithBadRows(files), checkpoints = files.Path("checkpoints");
  const std::string streaming = GENERATE("false", "true");
  CAPTURE(streaming);
  const std::vector<std::string> where = {"--in-process",
                                          "--checkpoint-dir",
                                          checkpoints,
                                          "--set",
                                          "dataset.streaming=" + streaming,
                                          "--set",
                                          "dataset.cache_directory=" + files.Path("cache")};
  auto begin = where;
  begin.insert(begin.end(), {"--set", "train.epochs=1"});
  const auto begun = Coxswain(Training(job, "12", begin));
  CAPTURE(begun.err);
  REQUIRE(begun.code == 0);
  auto go_on = where;
  go_on.push_back("--resume");
  const auto fewer = Coxswain(Training(job, "3", go_on));
  CHECK(fewer.code == 2);
  CHECK_THAT(fewer.err, Contains("dataset.max_bad_rows"));
  const std::string report = files.Path("report.json");
  go_on.insert(go_on.end(), {"--report", report});
  const auto more = Coxswain(Training(job, "500", go_on));
  CAPTURE(more.err);
  REQUIRE(more.code == 0);
  const auto told = ReadJson(report);
  CHECK(told["visitation"]["missing"] == 0);
  CHECK(told["visitation"]["repeated"] == 0);
  CHECK(told["bad_rows"] == 12);
}

TEST_CASE("validate --data lists bad rows, whatever number there may be", "[cli]") {
  const DataFiles files;
  const std::string job = WriteWithBadRows(files);
  const auto none = Coxswain({"validate", job, "--data"});
  CHECK(none.code == 2);
  CHECK_THAT(none.err, Contains("dataset.max_bad_rows: wanted at most 0 rows that cannot be read, "
                                "found 12:") &&
                           Contains("table.csv:9:1: ") && Contains("table.csv:60:5: ") &&
                           Contains("and 2 more"));
  const auto enough = Coxswain({"validate", job, "--data", "--set", "dataset.max_bad_rows=12"});
  CAPTURE(enough.err);
  CHECK(enough.code == 0);
  CHECK_THAT(enough.out, Contains("rows that cannot be read and are passed over: 12 "
                                  "(dataset.max_bad_rows: 12)\n") &&
                             Contains("table.csv:9:1: ") && Contains("and 2 more"));
  const auto other = Coxswain(
      {"validate", job, "--set", "dataset.max_bad_rows=1", "--set", "dataset.format=jsonl"});
  CHECK(other.code == 2);
  CHECK_THAT(other.err, Contains("dataset.max_bad_rows") && Contains("csv and criteo"));
}

}  // namespace
}  // namespace coxswain
