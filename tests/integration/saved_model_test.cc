// Models on disk: what comes back is what was trained, and damage is told.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/config/yaml_reader.h"
#include "tests/integration/jobs.h"
#include "tests/testing/pages.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

void TrainAndSave(const std::string& job, const std::string& model, const std::string& report) {
  const auto result =
      Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model, "--report", report});
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(result.out.empty());
}

TEST_CASE("eval of a saved model gives the metrics that training reported", "[model]") {
  const DataFiles files;
  for (const std::string& job : {WriteMatrixFactorization(files), WriteLogisticRegression(files)}) {
    INFO(job);
    const std::string model = files.Path("model"), trained = files.Path("trained.json"),
                      evaluated = files.Path("evaluated.json");
    TrainAndSave(job, model, trained);
    const auto result = Coxswain({"eval", job, "--model-dir", model, "--report", evaluated});
    CAPTURE(result.out, result.err);
    REQUIRE(result.code == 0);
    const nlohmann::json was = ReadJson(trained), is = ReadJson(evaluated);
    CHECK(is["job"] == was["job"]);
    CHECK(is["examples"] == was["evaluated"]["examples"]);
    REQUIRE(is["metrics"].size() == was["metrics"].size());
    for (const auto& [name, value] : was["metrics"].items()) {
      INFO(name);
      CHECK_THAT(result.out, Contains(name));
      CHECK(is["metrics"][name].get<double>() == Approx(value.get<double>()).epsilon(1e-6));
    }
  }
}

TEST_CASE("a model whose rows are sharded by hash has each row where its id is", "[model]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model"),
                    trained = files.Path("trained.json"), evaluated = files.Path("evaluated.json");
  const auto result = Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model,
                                "--report", trained, "--set", "tables.user.sharding=hash", "--set",
                                "tables.user.shards=4", "--set", "tables.item.sharding=hash"});
  INFO(result.err);
  REQUIRE(result.code == 0);
  const auto eval = Coxswain({"eval", job, "--set", "tables.user.sharding=hash", "--set",
                              "tables.user.shards=3", "--model-dir", model, "--report", evaluated});
  INFO(eval.err);
  REQUIRE(eval.code == 0);
  CHECK(ReadJson(evaluated)["metrics"]["rmse"].get<double>() ==
        Approx(ReadJson(trained)["metrics"]["rmse"].get<double>()).epsilon(1e-6));
}

TEST_CASE("recommend suggests what goes with known items", "[model]") {
  const DataFiles files;
  const std::string job = WriteTwoTower(files), model = files.Path("model");
  TrainAndSave(job, model, files.Path("report.json"));
  const auto result =
      Coxswain({"recommend", "--model-dir", model, "--items", "i0,i1,i2,i3", "--top", "4"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  const std::vector<std::string> lines = absl::StrSplit(result.out, '\n', absl::SkipEmpty());
  REQUIRE(lines.size() == 4);
  int of_the_kind = 0;
  for (const std::string& line : lines) {
    int item = -1;
    REQUIRE(line.substr(0, 1) == "i");
    REQUIRE(absl::SimpleAtoi(line.substr(1), &item));
    CHECK(item >= 4);  // what is known is not suggested
    of_the_kind += item < 8;
  }
  CHECK(of_the_kind >= 3);

  const auto user = Coxswain({"recommend", "--model-dir", model, "--user", "u3", "--top", "2"});
  CHECK(user.code == 0);
  CHECK_THAT(user.out, StartsWith("  u3  i"));
  const auto unknown = Coxswain({"recommend", "--model-dir", model, "--items", "i0,i99"});
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err, Contains("'i99'"));
  const auto nobody = Coxswain({"recommend", "--model-dir", model, "--user", "nobody"});
  CHECK(nobody.code == 2);
  CHECK_THAT(nobody.err, Contains("'nobody'"));
}

TEST_CASE("a model that cannot recommend says so", "[model]") {
  const DataFiles files;
  const std::string model = files.Path("model");
  TrainAndSave(WriteLogisticRegression(files), model, files.Path("report.json"));
  for (const std::vector<std::string>& whom :
       {std::vector<std::string>{"--items", "i1"}, {"--user", "u1"}, {"--value", "a=1"}}) {
    std::vector<std::string> arguments = {"recommend", "--model-dir", model};
    arguments.insert(arguments.end(), whom.begin(), whom.end());
    const auto result = Coxswain(arguments);
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("cannot recommend") && Contains("two_tower"));
  }
}

TEST_CASE(
    "a model keeps the job file to the byte, and beside it what --set changed, and both count",
    "[model]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model"),
                    checkpoints = files.Path("checkpoints");
  const std::vector<std::string> sets = {"model.dim=6", "evaluate.metrics=[mae]"};
  const auto trained =
      Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model, "--checkpoint-dir",
                checkpoints, "--set", sets[0], "--set", sets[1], "--set", "train.epochs=2"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  for (const std::string& manifest : {model + "/model.json", checkpoints + "/inputs/inputs.json"}) {
    INFO(manifest);
    const nlohmann::json json = ReadJson(manifest);
    CHECK(json["overrides"] == nlohmann::json({sets[0], sets[1], "train.epochs=2"}));
    CHECK(json["job_file"] == job);
    const std::string kept = manifest.substr(0, manifest.rfind('/')) + "/job.yaml";
    CHECK(*config::ReadTextFile(kept) == *config::ReadTextFile(job));
  }
  // By the file alone it would be another model, with other metrics.
  const auto eval = Coxswain({"eval", "--model-dir", model});
  CAPTURE(eval.out, eval.err);
  CHECK(eval.code == 0);
  CHECK_THAT(eval.out, Contains("mae") && !Contains("rmse"));
  // And the page says so.
  const std::string page = PageText("docs/predict.md");
  const size_t row = page.find("| `job.yaml` |");
  REQUIRE(row != std::string::npos);
  CHECK_THAT(page.substr(row, page.find('\n', row) - row), Contains("`overrides`"));
}

TEST_CASE("a damaged model is told by its file", "[model]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  TrainAndSave(job, model, files.Path("report.json"));
  const std::filesystem::path tensor = std::filesystem::path(model) / "user.safetensors";
  const auto whole = std::filesystem::file_size(tensor);
  const auto eval = [&] { return Coxswain({"eval", job, "--model-dir", model}); };
  for (const uintmax_t size : {whole - 1, whole / 2, uintmax_t{4}, uintmax_t{0}}) {
    std::filesystem::resize_file(tensor, size);
    const auto result = eval();
    CAPTURE(size, result.err);
    CHECK(result.code == 3);
    CHECK_THAT(result.err, StartsWith("error: ") && Contains("user.safetensors"));
  }
  std::filesystem::remove(tensor);
  const auto gone = eval();
  CHECK(gone.code == 3);
  CHECK_THAT(gone.err, Contains("user.safetensors"));
  std::ofstream(std::filesystem::path(model) / "model.json") << "{";
  const auto torn = eval();
  CHECK(torn.code == 2);
  CHECK_THAT(torn.err, Contains("model.json"));
}

TEST_CASE("a model of other data is refused", "[model]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  TrainAndSave(job, model, files.Path("report.json"));
  const auto result = Coxswain({"eval", job, "--model-dir", model, "--set", "model.dim=5"});
  CAPTURE(result.err);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("does not fit") && Contains("'user'"));
}

TEST_CASE("a report or model that cannot be written is told before training", "[model]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  files.Write("file", "no directory");
  for (const std::vector<std::string>& where :
       {std::vector<std::string>{"--report", files.Path("none/report.json")},
        {"--report", files.Path("file/report.json")},
        {"--report", files.Path("")},
        {"--model-dir", files.Path("file/model")}}) {
    std::vector<std::string> arguments = {"train", job, "--in-process"};
    arguments.insert(arguments.end(), where.begin(), where.end());
    const auto result = Coxswain(arguments);
    CAPTURE(where, result.out, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, StartsWith("error: " + where[0] + " " + where[1]));
    CHECK(result.out.empty());
  }
}

}  // namespace
}  // namespace coxswain
