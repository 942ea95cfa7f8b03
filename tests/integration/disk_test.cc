// Jobs whose tables are on disk (docs/disk.md).
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/integration/jobs.h"
#include "tests/testing/paths.h"
#include "tests/testing/tiny_disk.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

constexpr char kPsProgram[] = COXSWAIN_BINARY_DIR "/bin/coxswain-ps";
constexpr char kVariable[] = "COXSWAIN_TABLE_DIR";
constexpr char kOnDisk[] = "parameter_servers.table_device=disk";

constexpr char kWideDeep[] = R"(label: {column: label}
model: {kind: wide_deep, deep: {hidden: [16]}}
optimizer:
  table: {kind: adagrad, learning_rate: 0.1}
  dense: {kind: adam, learning_rate: 0.01}
train: {epochs: 2, batch_size: 32}
evaluate: {metrics: [auc]}
)";

// The last loss of a job of one worker, whose updates come one after the other.
double LossWith(const std::string& device, const DataFiles& files, const std::string& job,
                const std::string& where, const std::string& directory,
                const std::string& gpus = "none") {
  const std::string report = files.Path("report.json");
  const auto result =
      Coxswain({"train", job, where, "--quiet", "--report", report, "--set",
                "train.closures_in_flight=1", "--set", "parameter_servers.table_device=" + device},
               {{kVariable, directory}, {"COXSWAIN_GPUS", gpus}});
  CAPTURE(device, where, result.out, result.err);
  REQUIRE(result.code == 0);
  return ReadJson(report)["final_loss"].get<double>();
}

TEST_CASE("a job with its tables on disk learns what it learns in memory, and leaves no files",
          "[disk]") {
  const DataFiles files, disk;
  const std::string job = WriteTabular(files, kWideDeep);
  for (const std::string where : {"--local=1x1", "--in-process"}) {
    const double in_memory = LossWith("cpu", files, job, where, "");
    CHECK(in_memory > 0);
    CHECK(LossWith("disk", files, job, where, disk.Path("")) == in_memory);
  }
  CHECK(std::filesystem::is_empty(disk.Path("")));
}

TEST_CASE("daemons that were told where keep a job's tables on disk", "[disk]") {
  const DataFiles files, disk;
  const std::string job = WriteTabular(files, kWideDeep);
  Daemons daemons(files, 2, 1, [&](const std::string& kind, int) {
    Daemons::Launch launch;
    if (kind == "ps") launch.flags = {"--table-dir", disk.Path("")};
    return launch;
  });
  const auto result =
      Coxswain({"train", job, "--cluster", daemons.cluster_file(), "--set", kOnDisk});
  CAPTURE(result.out, result.err);
  CHECK(result.code == 0);
  CHECK(std::filesystem::is_empty(disk.Path("")));
}

TEST_CASE("a job with its tables on disk keeps its promises when parameter servers are killed",
          "[disk]") {
  const DataFiles files, disk;
  const std::string job = WriteTabular(files, kWideDeep), report = files.Path("report.json");
  const std::string chaos = files.Write("chaos.yaml", R"(seed: 3
baseline: false
faults:
  - {task: ps, at_update: [60, 200], restart_delay: 100ms}
  - {task: worker, at_update: [150], restart_delay: 100ms}
)");
  const auto result =
      Run(CoxswainCommand({"train", job, "--local=2x2", "--chaos", chaos, "--checkpoint-dir",
                           files.Path("ck"), "--set", "checkpoint.every_steps=40", "--set", kOnDisk,
                           "--set", "train.epochs=60", "--report", report}),
          {{kVariable, disk.Path("")}}, absl::Seconds(200));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("every promise was kept"));
  CHECK(ReadJson(report)["failures"]["ps"] > 0);
  CHECK(std::filesystem::is_empty(disk.Path("")));
}

TEST_CASE(
    "tables on a disk without room for them twice come back when a parameter server is killed",
    "[disk]") {
  const DataFiles files;
  const TinyDisk disk(files.Path("disk"), "10m");
  if (!disk.mounted()) return;
  const std::string job = WriteTabular(files, kWideDeep);
  const std::string chaos = files.Write("chaos.yaml", R"(seed: 3
baseline: false
faults:
  - {task: ps, at_update: [60, 200], restart_delay: 100ms}
)");
  // 2.4 MB on each with what Adagrad accumulates, which take 4.
  const auto result =
      Run(CoxswainCommand({"train", job, "--local=2x1", "--chaos", chaos, "--checkpoint-dir",
                           files.Path("ck"), "--set", "checkpoint.every_steps=40", "--set", kOnDisk,
                           "--set", "features.0.hash_buckets=30000", "--set", "features.0.dim=20",
                           "--set", "train.epochs=30"}),
          {{kVariable, files.Path("disk")}}, absl::Seconds(200));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("every promise was kept"));
  CHECK_THAT(result.err, !Contains("No space left"));
}

TEST_CASE("a job with its tables on disk learns as in memory where its workers have a GPU",
          "[disk]") {
  const DataFiles files, disk;
  const std::string job = WriteTabular(files, kWideDeep);
  const double in_memory = LossWith("cpu", files, job, "--in-process", "", "fake");
  CHECK(LossWith("disk", files, job, "--in-process", disk.Path(""), "fake") == in_memory);
}

TEST_CASE("a model that was trained with its tables on disk is evaluated without that directory",
          "[disk]") {
  const DataFiles files, disk;
  const std::string job = WriteTabular(files, kWideDeep), model = files.Path("model");
  const auto trained =
      Coxswain({"train", job, "--in-process", "--set", kOnDisk, "--model-dir", model},
               {{kVariable, disk.Path("")}});
  CAPTURE(trained.out, trained.err);
  REQUIRE(trained.code == 0);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, std::vector<std::string>{"--local=1x1"}}) {
    std::vector<std::string> eval = {"eval", "--model-dir", model, "--allow-training-rows"};
    eval.insert(eval.end(), more.begin(), more.end());
    const auto result = Coxswain(eval);
    CAPTURE(result.out, result.err);
    CHECK(result.code == 0);
    CHECK_THAT(result.out, Contains("auc"));
  }
}

TEST_CASE("a job that wants its tables on disk is refused where there is no directory for them",
          "[disk]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep);
  for (const std::string where : {"--local=1x1", "--in-process"}) {
    CAPTURE(where);
    const auto none = Coxswain({"train", job, where, "--set", kOnDisk}, {{kVariable, ""}});
    CHECK(none.code == 2);
    CHECK_THAT(none.err,
               Contains("is to be on disk (device: disk)") && Contains("--table-dir DIR"));
    const auto wrong =
        Coxswain({"train", job, where, "--set", kOnDisk}, {{kVariable, files.Path("missing")}});
    CHECK(wrong.code == 2);
    CHECK_THAT(wrong.err, StartsWith("error: COXSWAIN_TABLE_DIR: ") && Contains("missing"));
  }
  const auto daemon =
      Process({kPsProgram, "--port", "0", "--table-dir", files.Path("none")}).Wait();
  CHECK(daemon.code == 2);
  CHECK_THAT(daemon.err, StartsWith("error: --table-dir: ") && Contains("none"));
}

}  // namespace
}  // namespace coxswain
