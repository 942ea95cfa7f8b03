// Metrics of parts of the examples (evaluate.slices), as people ask for them.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Strings = std::vector<std::string>;

nlohmann::json MustReport(const DataFiles& files, Strings arguments, std::string* printed) {
  const std::string report = files.Path(absl::StrCat(arguments[0], ".json"));
  arguments.insert(arguments.end(), {"--report", report});
  const auto result = Coxswain(arguments);
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  *printed = result.out;
  return ReadJson(report);
}

// By value, "" for those without one.
std::map<std::string, nlohmann::json> ByValue(const nlohmann::json& report,
                                              const std::string& feature) {
  std::map<std::string, nlohmann::json> slices;
  for (const nlohmann::json& slice : report["slices"]) {
    if (slice["feature"] != feature) continue;
    slices[slice["value"].is_null() ? "" : slice["value"].get<std::string>()] = slice;
  }
  return slices;
}

TEST_CASE("slices tell the country that a model is no good for, in training and by eval",
          "[metrics]") {
  const DataFiles files;
  std::string csv = "country,x,y\n";
  for (int i = 0; i < 1200; ++i) {
    const int x = (i * 7919) % 100;
    // In de the label is x's; in fr it has nothing to do with it. In it there are no clicks.
    const char* const country = i % 3 == 0 ? "de" : i % 3 == 1 ? "fr" : "it";
    const int y = i % 3 == 0 ? (x > 50) : i % 3 == 1 ? (i / 3 % 2) : 0;
    absl::StrAppend(&csv, country, ",", x / 100.0, ",", y, "\n");
  }
  files.Write("rows.csv", csv);
  const std::string job = files.Write("job.yaml", R"(
dataset: {path: rows.csv}
features:
  - {name: country, kind: categorical}
  - {name: x, kind: numeric, normalization: standard}
  - {name: range, kind: bucketized, column: x, boundaries: [0.5]}
label: {column: y}
split: {test: 0.4}
model: {kind: mlp, hidden: [16], features: [country, x]}
optimizer: {dense: {kind: adam, learning_rate: 0.01}}
train: {epochs: 10, batch_size: 32}
evaluate: {metrics: [auc, logloss], slices: [country, range], batch_size: 50}
)");
  std::string printed;
  const nlohmann::json trained = MustReport(
      files, {"train", job, "--in-process", "--model-dir", files.Path("model")}, &printed);
  CAPTURE(trained["slices"].dump(), printed);
  auto countries = ByValue(trained, "country");
  REQUIRE(countries.size() == 3);
  CHECK(countries["de"]["metrics"]["auc"].get<double>() > 0.95);
  CHECK(countries["fr"]["metrics"]["auc"].get<double>() < 0.7);
  CHECK(countries["it"]["metrics"]["auc"].is_null());
  CHECK_THAT(printed, Contains("country") && Contains("  it") && Contains("undefined"));
  for (const char* feature : {"country", "range"}) {
    int64_t examples = 0;
    double loss = 0;
    for (const auto& [value, slice] : ByValue(trained, feature)) {
      examples += slice["examples"].get<int64_t>();
      loss += slice["metrics"]["logloss"].get<double>() * slice["examples"].get<double>();
    }
    CHECK(examples == trained["evaluated"]["examples"]);
    // A mean over examples is that of the slices' means.
    CHECK(loss / static_cast<double>(examples) ==
          Approx(trained["metrics"]["logloss"].get<double>()));
  }
  const nlohmann::json again =
      MustReport(files, {"eval", "--model-dir", files.Path("model")}, &printed);
  CHECK(again["slices"] == trained["slices"]);
  CHECK_THAT(printed, Contains("undefined"));
}

TEST_CASE("slices of examples whose items are ranked", "[metrics]") {
  const DataFiles files;
  const std::string job = WriteTwoTower(files);
  std::string printed;
  const nlohmann::json report =
      MustReport(files, {"train", job, "--in-process", "--set", "evaluate.slices=item"}, &printed);
  int64_t examples = 0;
  double hits = 0;
  for (const auto& [value, slice] : ByValue(report, "item")) {
    examples += slice["examples"].get<int64_t>();
    hits += slice["metrics"]["hit_rate@3"].get<double>() * slice["examples"].get<double>();
  }
  CHECK(examples == 24);
  CHECK(hits / 24 == Approx(report["metrics"]["hit_rate@3"].get<double>()));
  CHECK_THAT(printed, Contains("smaller ones, see --report"));
}

TEST_CASE("slices of long values and of several lines are shown on one line each", "[metrics]") {
  const DataFiles files;
  std::string csv = "place,x,y\n";
  for (int i = 0; i < 300; ++i) {
    const std::string place = i % 100 == 7 ? std::string(2000, 'l') : "\"on\ntwo\"";
    absl::StrAppend(&csv, place, ",", i % 10, ",", i % 2, "\n");
  }
  files.Write("rows.csv", csv);
  const std::string job = files.Write("job.yaml", R"(
dataset: {path: rows.csv}
features: [{name: place, kind: categorical}, {name: x, kind: numeric}]
label: {column: y}
split: {test: 0.5}
model: {kind: mlp, hidden: [4]}
train: {epochs: 1}
evaluate: {metrics: [auc], slices: place}
)");
  std::string printed;
  MustReport(files, {"train", job, "--in-process", "--quiet", "--model-dir", files.Path("m")},
             &printed);
  MustReport(files, {"eval", "--model-dir", files.Path("m")}, &printed);
  CHECK_THAT(printed, Contains("\n  on\\ntwo ") && !Contains(std::string(60, 'l')));
}

TEST_CASE("slices of values without names are refused", "[metrics]") {
  const DataFiles files;
  const std::string job = WriteTwoTower(files);
  const auto result = Coxswain(
      {"validate", job, "--set", "features.0.hash_buckets=10", "--set", "evaluate.slices=item"});
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("evaluate.slices") && Contains("is hashed"));
}

}  // namespace
}  // namespace coxswain
