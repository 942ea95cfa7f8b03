// A job with real processes whose ids use few shards, all on one PS: they part while it trains.
#include <catch2/catch.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

// 4,000 users in 4 ranges, of which only those of the ranges 0 and 2 occur.
std::string WriteSkewed(const DataFiles& files) {
  std::string users, csv = "user,item,rating\n";
  for (int u = 0; u < 4000; ++u) absl::StrAppend(&users, "u", u, "\n");
  for (int i = 0; i < 20000; ++i) {
    const int u = (i % 2) * 2000 + (i * 37) % 1000;
    absl::StrAppend(&csv, "u", u, ",i", i % 7, ",", 1 + u % 3 + i % 3, "\n");
  }
  files.Write("users.txt", users);
  files.Write("ratings.csv", csv);
  return files.Write("skewed.yaml", R"(name: skewed
dataset: {path: ratings.csv}
features:
  - {name: user, kind: categorical, vocabulary_file: users.txt, oov_buckets: 0}
  - {name: item, kind: categorical}
label: {column: rating}
split: {validation: 0.1}
model:
  kind: matrix_factorization
  user: {feature: user}
  item: {feature: item}
  dim: 8
  biases: false
tables:
  user: {shards: 4, sharding: div}
  item: {shards: 1}
train:
  epochs: 60
  batch_size: 64
checkpoint: {every_seconds: 0, every_steps: 800}
evaluate: {metrics: [rmse], every_epochs: 60}
)");
}

TEST_CASE("used ranges of a table part while processes train, and every update is applied",
          "[balance]") {
  const DataFiles files;
  const std::string report_file = files.Path("report.json");
  const auto result =
      Coxswain({"train", WriteSkewed(files), "--local", "2x2", "--quiet", "--checkpoint-dir",
                files.Path("checkpoints"), "--report", report_file});
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json report = ReadJson(report_file);
  CHECK(report["updates"]["applied"] == report["updates"]["scheduled"]);
  CHECK(report["updates"]["shards_off"] == 0);
  CHECK(report["closures"]["rerun"] == 0);
  CHECK(report["checkpoint"]["shards_moved"].get<int>() > 0);
  CHECK(report["checkpoint"]["move_seconds"].get<double>() > 0);
  for (const auto& variable : report["variables"]) {
    if (variable["name"] != "user") continue;
    REQUIRE(variable["shards"].size() == 4);
    CHECK(variable["shards"][0]["ps"] != variable["shards"][2]["ps"]);
  }
}

}  // namespace
}  // namespace coxswain
