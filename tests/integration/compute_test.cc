// Training in bf16 comes to what training in f32 comes to, on planted clicks.
#include <catch2/catch.hpp>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

// One thread and one closure at a time: the order of updates is the same in every run.
constexpr char kJob[] = R"(dataset: {format: criteo, path: clicks.tsv, hash_buckets: 500}
split: {test: 0.3}
train: {epochs: 2, batch_size: 256, closures_in_flight: 1}
optimizer:
  table: {kind: adagrad, learning_rate: 0.05}
  dense: {kind: adagrad, learning_rate: 0.02}
evaluate: {part: test, metrics: [auc, logloss]}
)";

nlohmann::json Train(const DataFiles& files, const std::string& job, const std::string& compute) {
  const std::string report = files.Path("report.json");
  const auto result = Coxswain({"train", job, "--in-process", "--threads", "1", "--set",
                                absl::StrCat("train.compute=", compute), "--report", report});
  CAPTURE(compute, result.out, result.err);
  REQUIRE(result.code == 0);
  return ReadJson(report);
}

TEST_CASE("bf16 trains to the AUC of f32, within 0.001", "[compute]") {
  const DataFiles files;
  const auto made = Coxswain({"generate", "criteo", "--rows", "120000", "--ids", "300", "--out",
                              files.Path("clicks.tsv")});
  INFO(made.err);
  REQUIRE(made.code == 0);
  for (const char* model : {"model: {kind: dlrm, dim: 16, bottom: [64, 32], top: [128, 64]}\n",
                            "model: {kind: mlp, hidden: [256, 128, 64]}\n"}) {
    CAPTURE(model);
    const std::string job = files.Write("job.yaml", absl::StrCat(kJob, model));
    const nlohmann::json f32 = Train(files, job, "f32"), bf16 = Train(files, job, "bf16");
    const double auc = f32["metrics"]["auc"], auc_bf16 = bf16["metrics"]["auc"];
    CAPTURE(auc, auc_bf16);
    CHECK(auc > 0.65);  // by chance: 0.5
    CHECK(std::fabs(auc - auc_bf16) < 0.001);
  }
}

}  // namespace
}  // namespace coxswain
