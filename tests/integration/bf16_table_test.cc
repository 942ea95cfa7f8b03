// Tables whose rows are stored as bf16 learn what tables of f32 learn, and their models are used
// alike.
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/env/file_system.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

nlohmann::json Train(const DataFiles& files, const std::string& job,
                     std::vector<std::string> arguments) {
  const std::string report = files.Path("report.json");
  arguments.insert(arguments.begin(), {"train", job, "--quiet", "--report", report});
  const auto result = Coxswain(arguments);
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  return ReadJson(report);
}

std::vector<std::string> Bf16(const std::vector<std::string>& tables, const std::string& rounding,
                              std::vector<std::string> more = {}) {
  for (const std::string& table : tables) {
    more.insert(more.end(), {"--set", absl::StrCat("tables.", table,
                                                   "={dtype: bf16, rounding: ", rounding, "}")});
  }
  return more;
}

checkpoint::SafetensorsEntry OnlyEntry(const std::string& path) {
  const auto files = env::NewRealFileSystem();
  const auto file = checkpoint::SafetensorsFile::Open(files.get(), path);
  REQUIRE(file.ok());
  REQUIRE(file->entries().size() == 1);
  return file->entries()[0];
}

TEST_CASE("bf16 tables reach the quality of f32, and eval finds it again in the saved model",
          "[train][bf16]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  const double f32 = Train(files, job, {"--in-process"})["metrics"]["rmse"];
  for (const char* rounding : {"stochastic", "nearest"}) {
    const auto tables = Bf16({"user", "item", "user_bias", "item_bias"}, rounding);
    for (const char* where : {"--in-process", "--local=2x2"}) {
      std::vector<std::string> train = tables;
      train.insert(train.end(), {"--model-dir", model, where});
      const double bf16 = Train(files, job, train)["metrics"]["rmse"];
      INFO(rounding << " " << where << ": " << bf16 << ", f32: " << f32);
      CHECK(bf16 < f32 + 0.05);  // the mean alone: 1.15
      CHECK(OnlyEntry(absl::StrCat(model, "/item.safetensors")).dtype == DType::kBF16);
      std::vector<std::string> eval = {"eval", job,        "--model-dir",
                                       model,  "--report", files.Path("eval.json")};
      eval.insert(eval.end(), tables.begin(), tables.end());
      const auto result = Coxswain(eval);
      CAPTURE(result.out, result.err);
      REQUIRE(result.code == 0);
      CHECK(ReadJson(files.Path("eval.json"))["metrics"]["rmse"].get<double>() ==
            Approx(bf16).epsilon(1e-6));
    }
  }
}

TEST_CASE("recommend works on tables in bf16, row-wise Adagrad and a schedule", "[train][bf16]") {
  const DataFiles files;
  const std::string model = files.Path("model");
  const nlohmann::json report =
      Train(files, WriteTwoTower(files),
            Bf16({"item"}, "stochastic",
                 {"--in-process", "--model-dir", model, "--set",
                  "optimizer.table={kind: rowwise_adagrad, learning_rate: 0.3, schedule: {kind: "
                  "cosine_decay, decay_steps: 2000, end_factor: 0.1, warmup_steps: 5}}"}));
  CHECK(report["metrics"]["hit_rate@3"].get<double>() > 0.6);  // by chance: 3 of 27
  const auto result =
      Coxswain({"recommend", "--model-dir", model, "--items", "i0,i1,i2,i3", "--top", "4"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  int of_the_kind = 0;
  for (const char* item : {"i4", "i5", "i6", "i7"}) {
    of_the_kind += result.out.find(item) != std::string::npos;
  }
  CHECK(of_the_kind >= 3);
}

}  // namespace
}  // namespace coxswain
