// Jobs whose workers compute on fake GPUs (docs/gpu.md).
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/integration/jobs.h"
#include "tests/testing/paths.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

constexpr char kWorkerProgram[] = COXSWAIN_BINARY_DIR "/bin/coxswain-worker";

constexpr char kWideDeep[] = R"(label: {column: label}
model: {kind: wide_deep, deep: {hidden: [16]}}
optimizer:
  table: {kind: adagrad, learning_rate: 0.1}
  dense: {kind: adam, learning_rate: 0.01}
train: {epochs: 30, batch_size: 32, device: gpu}
evaluate: {metrics: [auc], every_epochs: 10}
)";

Daemons::Launch WithFakeGpus(const std::string& job, int) {
  Daemons::Launch launch;
  if (job == "worker") launch.flags = {"--gpus", "fake:2"};
  return launch;
}

TEST_CASE("a job on GPUs learns, each update is applied once, though a worker is killed", "[gpu]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep), report = files.Path("report.json");
  Daemons daemons(files, 2, 2, WithFakeGpus);
  CHECK(daemons.Status()[2]["gpus"].size() == 2);
  Process training(
      CoxswainCommand({"train", job, "--cluster", daemons.cluster_file(), "--report", report}));
  REQUIRE(training.WaitForOutput("epoch"));
  daemons.worker(0).Kill(SIGKILL);
  daemons.RestartWorker(0);
  const auto result = training.Wait(absl::Seconds(120));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json told = ReadJson(report);
  CHECK(told["updates"]["applied"] == told["updates"]["scheduled"]);
  CHECK(told["metrics"]["auc"].get<double>() > 0.9);  // by chance: 0.5
}

// The last loss of a job of one worker, whose updates come one after the other, on the GPUs of
// `gpus`; where the tasks are, and other flags.
double LossOn(const std::string& gpus, const DataFiles& files, const std::string& job,
              const std::string& where = "--local=1x1", const std::vector<std::string>& more = {}) {
  const std::string report = files.Path("report.json");
  std::vector<std::string> flags = {"train",    job,
                                    where,      "--quiet",
                                    "--report", report,
                                    "--set",    "train.closures_in_flight=1",
                                    "--set",    "train.epochs=2"};
  flags.insert(flags.end(), more.begin(), more.end());
  const auto result = Coxswain(flags, {{"COXSWAIN_GPUS", gpus}});
  CAPTURE(gpus, result.out, result.err);
  REQUIRE(result.code == 0);
  return ReadJson(report)["final_loss"].get<double>();
}

// GPUs in COXSWAIN_GPUS's words: on a machine that has one, COXSWAIN_TEST_GPUS=0 trains on it.
std::string TestedGpus() {
  const char* wanted = std::getenv("COXSWAIN_TEST_GPUS");
  return wanted != nullptr && *wanted != 0 ? wanted : "fake";
}

void CheckSameOnGpu(const DataFiles& files, const std::string& job) {
  const double on_cpu = LossOn("none", files, job);
  CHECK(on_cpu > 0);
  CHECK(LossOn(TestedGpus(), files, job) == Approx(on_cpu).epsilon(1e-3));
}

TEST_CASE("models of columns learn on a GPU what they learn on a CPU", "[gpu]") {
  const std::string model = GENERATE("{kind: logistic_regression}", "{kind: mlp, hidden: [16, 8]}",
                                     "{kind: wide_deep, deep: {hidden: [16]}}",
                                     "{kind: dlrm, dim: 4, bottom: [8, 4], top: [16]}",
                                     "{kind: deepfm, dim: 4, hidden: [16]}", "{kind: ffm, dim: 2}",
                                     "{kind: autoint, dim: 4, head_dim: 4, hidden: [16]}",
                                     "{kind: dcn_v2, hidden: [16], cross_layers: 2}");
  CAPTURE(model);
  const DataFiles files;
  CheckSameOnGpu(files, WriteTabular(files, absl::StrCat("label: {column: label}\nmodel: ", model,
                                                         "\ntrain: {batch_size: 32}\n")));
}

TEST_CASE("models of items, ratings and words learn on a GPU what they learn on a CPU", "[gpu]") {
  const DataFiles files;
  SECTION("two_tower") { CheckSameOnGpu(files, WriteTwoTower(files)); }
  SECTION("matrix_factorization") { CheckSameOnGpu(files, WriteMatrixFactorization(files)); }
  SECTION("word2vec") {
    std::string text;
    for (int i = 0; i < 400; ++i) {
      absl::StrAppend(&text, "the word", i % 7, " follows word", i % 5, " and ", i % 3, "\n");
    }
    files.Write("words.txt", text);
    CheckSameOnGpu(files, files.Write("job.yaml", R"(
dataset: {path: words.txt, format: text, min_count: 1, window: 2}
model: {kind: word2vec, dim: 8}
train: {batch_size: 64}
)"));
  }
}

// 1,800 updates: a look at the parameter servers takes half a second where one was just killed, and
// a job that is over by then is spared the rest of its kills.
constexpr char kLongAfterTheLastKill[] = "train.epochs=120";

TEST_CASE("a job on GPUs under fire uses every example once and applies every update once",
          "[gpu]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep), report = files.Path("report.json");
  const std::string chaos = files.Write("chaos.yaml", R"(seed: 3
baseline: false
faults:
  - {task: worker, at_update: [60, 200], restart_delay: 100ms}
  - {task: ps, at_update: [150], restart_delay: 100ms}
  - {task: coordinator, at_update: [300], restart_delay: 0s}
)");
  const auto result =
      Run(CoxswainCommand({"train", job, "--local", "2x2", "--chaos", chaos, "--chaos-dir",
                           files.Path("run"), "--report", report, "--set",
                           "checkpoint.every_steps=50", "--set", kLongAfterTheLastKill}),
          {{"COXSWAIN_GPUS", "fake:2"}}, absl::Seconds(200));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("every promise was kept"));
  const nlohmann::json told = ReadJson(report);
  CHECK(told["updates"]["applied"] == told["updates"]["scheduled"]);
  CHECK(told["visitation"]["missing"] == 0);
  CHECK(told["visitation"]["repeated"] == 0);
  CHECK(told["chaos"]["injected"]["worker"]["kill"] == 2);
  CHECK(told["chaos"]["injected"]["ps"]["kill"] == 1);
}

// The same with hash tables, of which rows come when an id was seen twice, and go.
std::string WriteHashedTabular(const DataFiles& files, const std::string& model) {
  constexpr char kTables[] = R"(tables:
  color: {hash_table: {min_count: 2, max_rows: 4}}
  color_linear: {hash_table: {ttl_steps: 50}}
)";
  std::ifstream plain(WriteTabular(files, absl::StrCat(model, kTables)));
  const std::string text{std::istreambuf_iterator<char>(plain), {}};
  return files.Write(
      "hashed.yaml",
      absl::StrReplaceAll(text, {{"kind: categorical", "kind: categorical, id: hash"}}));
}

const std::vector<std::string> kTablesOnGpu = {"--set", "parameter_servers.table_device=gpu"};

TEST_CASE("tables in a GPU's memory learn to the bit what they learn on the host", "[gpu]") {
  const bool hashed = GENERATE(false, true);
  CAPTURE(hashed);
  const DataFiles files;
  const std::string job = (hashed ? WriteHashedTabular : WriteTabular)(files, kWideDeep);
  const std::string gpus = TestedGpus();
  const double on_host = LossOn(gpus, files, job);
  CHECK(on_host > 0);
  for (const std::string where : {"--local=1x1", "--in-process"}) {
    CAPTURE(where);
    CHECK(LossOn(gpus, files, job, where, kTablesOnGpu) == on_host);
  }
}

TEST_CASE("a job with tables in the memory of GPUs survives kills, and goes on without GPUs",
          "[gpu]") {
  const bool hashed = GENERATE(false, true);
  CAPTURE(hashed);
  const DataFiles files;
  const std::string job = (hashed ? WriteHashedTabular : WriteTabular)(files, kWideDeep);
  const std::string report = files.Path("report.json");
  const std::string chaos = files.Write("chaos.yaml", R"(seed: 3
baseline: false
faults:
  - {task: worker, at_update: [60], restart_delay: 100ms}
  - {task: ps, at_update: [150, 260], restart_delay: 100ms}
)");
  std::vector<std::string> flags = {"train",
                                    job,
                                    "--local",
                                    "2x2",
                                    "--report",
                                    report,
                                    "--set",
                                    "checkpoint.every_steps=50",
                                    "--set",
                                    kLongAfterTheLastKill,
                                    "--checkpoint-dir",
                                    files.Path("checkpoints")};
  std::vector<std::string> on_gpus = flags;
  on_gpus.insert(on_gpus.end(), kTablesOnGpu.begin(), kTablesOnGpu.end());
  on_gpus.insert(on_gpus.end(), {"--chaos", chaos, "--chaos-dir", files.Path("run")});
  const auto first = Run(CoxswainCommand(on_gpus), {{"COXSWAIN_GPUS", "fake"}}, absl::Seconds(200));
  CAPTURE(first.out, first.err);
  REQUIRE(first.code == 0);
  CHECK_THAT(first.out, Contains("every promise was kept"));
  const nlohmann::json told = ReadJson(report);
  CHECK(told["updates"]["applied"] == told["updates"]["scheduled"]);
  CHECK(told["chaos"]["injected"]["ps"]["kill"] == 2);
  // The checkpoint is one like any other.
  flags.insert(flags.end(), {"--resume", "--count-visits", "--set", "train.device=cpu", "--set",
                             "train.epochs=125"});
  const auto second = Run(CoxswainCommand(flags), {{"COXSWAIN_GPUS", "none"}}, absl::Seconds(100));
  CAPTURE(second.out, second.err);
  REQUIRE(second.code == 0);
  const nlohmann::json then = ReadJson(report);
  CHECK(then["updates"]["applied"] == then["updates"]["scheduled"]);
  CHECK(then["metrics"]["auc"].get<double>() > 0.9);
}

TEST_CASE("a GPU that fails for good ends a job in one process, which can be resumed", "[gpu]") {
  const std::string on_error = GENERATE("fail_fast", "ignore");
  const bool tables_there = GENERATE(false, true);
  CAPTURE(on_error, tables_there);
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep), report = files.Path("report.json");
  std::vector<std::string> flags = {"train",
                                    job,
                                    "--in-process",
                                    "--report",
                                    report,
                                    "--set",
                                    absl::StrCat("train.on_error=", on_error),
                                    "--set",
                                    "checkpoint.every_steps=20",
                                    "--checkpoint-dir",
                                    files.Path("checkpoints")};
  if (tables_there) flags.insert(flags.end(), kTablesOnGpu.begin(), kTablesOnGpu.end());
  const auto failed = Coxswain(flags, {{"COXSWAIN_GPUS", "fake:1:4000"}});
  CAPTURE(failed.out, failed.err);
  CHECK(failed.code == 3);
  CHECK_THAT(failed.err,
             Contains("was broken: a GPU that failed for good cannot be used any more"));
  flags.push_back("--resume");
  const auto resumed = Coxswain(flags, {{"COXSWAIN_GPUS", "fake"}});
  CAPTURE(resumed.out, resumed.err);
  REQUIRE(resumed.code == 0);
  const nlohmann::json told = ReadJson(report);
  CHECK(told["updates"]["applied"] == told["updates"]["scheduled"]);
}

TEST_CASE("workers and parameter servers whose GPUs fail for good are started again", "[gpu]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep), report = files.Path("report.json");
  const auto result =
      Run(CoxswainCommand({"train", job, "--local", "2x2", "--report", report, "--set",
                           "checkpoint.every_steps=50", "--checkpoint-dir",
                           files.Path("checkpoints"), kTablesOnGpu[0], kTablesOnGpu[1]}),
          {{"COXSWAIN_GPUS", "fake:1:4000"}}, absl::Seconds(200));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json told = ReadJson(report);
  CHECK(told["updates"]["applied"] == told["updates"]["scheduled"]);
  CHECK(told["failures"]["worker"] > 0);
  CHECK_THAT(result.err, Contains("ended with code 5"));
}

TEST_CASE("a model that was trained on GPUs, its tables too, is evaluated without GPUs", "[gpu]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep), model = files.Path("model");
  std::vector<std::string> train = {"train",          job,           "--in-process", "--set",
                                    "train.epochs=2", "--model-dir", model};
  train.insert(train.end(), kTablesOnGpu.begin(), kTablesOnGpu.end());
  const auto trained = Coxswain(train, {{"COXSWAIN_GPUS", "fake"}});
  CAPTURE(trained.out, trained.err);
  REQUIRE(trained.code == 0);
  const auto evaluate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> eval = {"eval", "--model-dir", model, "--allow-training-rows"};
    eval.insert(eval.end(), more.begin(), more.end());
    return Coxswain(eval, {{"COXSWAIN_GPUS", "none"}});
  };
  for (const std::string& more : {std::string(), std::string("--local=1x1"), job}) {
    const auto result = evaluate(more.empty() ? std::vector<std::string>() : std::vector{more});
    CAPTURE(more, result.out, result.err);
    CHECK(result.code == 0);
    CHECK_THAT(result.out, Contains("auc"));
  }
  // Who insists on GPUs has them, or an error.
  for (const std::string set : {"train.device=gpu", "train={batch_size: 8, device: gpu}"}) {
    const auto result = evaluate({"--set", set});
    CAPTURE(set, result.out);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("is to run on GPUs (train.device: gpu)"));
  }
}

TEST_CASE("a table that is to be in a GPU's memory is refused by a PS without, with its name",
          "[gpu]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep);
  const auto result = Coxswain(
      {"train", job, "--in-process", "--set", "train.device=cpu", kTablesOnGpu[0], kTablesOnGpu[1]},
      {{"COXSWAIN_GPUS", "none"}});
  CAPTURE(result.out);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("/job:ps/task:0: shard"));
  CHECK_THAT(result.err, Contains("is to be in the memory of a GPU (device: gpu), but this "
                                  "parameter server has none"));
}

TEST_CASE("a job that wants GPUs is refused by workers without, never run on their CPUs", "[gpu]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep);
  const auto result = Coxswain({"train", job, "--in-process"}, {{"COXSWAIN_GPUS", "none"}});
  CAPTURE(result.out);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("is to run on GPUs (train.device: gpu), but /job:worker/task:0 "
                                  "has none"));
}

TEST_CASE("GPUs that are asked for by number, or by no word that there is, are an error", "[gpu]") {
  // One that is not there may be back soon: with 5 a supervisor starts the daemon again.
  const auto number = Process({kWorkerProgram, "--port", "0", "--gpus", "63"}).Wait();
  CHECK(number.code == 5);
  CHECK_THAT(number.err, Contains("--gpus: "));
  const auto word = Process({kWorkerProgram, "--port", "0", "--gpus", "all"}).Wait();
  CHECK(word.code == 2);
  CHECK_THAT(word.err, Contains("'all': wanted auto, none, or numbers"));
  const auto twice = Process({kWorkerProgram, "--port", "0", "--gpus", "1,0,1"}).Wait();
  CHECK(twice.code == 2);
  CHECK_THAT(twice.err, Contains("'1,0,1': wanted each once, found 1 again"));
}

TEST_CASE("GPU words of the environment that there are not are a mistake of use", "[gpu]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep);
  for (const std::string where : {"--in-process", "--local=1x1"}) {
    const auto result = Coxswain({"train", job, where}, {{"COXSWAIN_GPUS", "all"}});
    CAPTURE(where, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("COXSWAIN_GPUS: GPUs 'all': wanted auto, none, or numbers"));
  }
}

TEST_CASE("GPUs of the environment that are not there are one error, which names the variable",
          "[gpu]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep);
  for (const std::string where : {"--in-process", "--local=2x2"}) {
    const auto result = Coxswain({"train", job, where}, {{"COXSWAIN_GPUS", "62,63"}});
    CAPTURE(where, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, StartsWith("error: COXSWAIN_GPUS: "));
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK_THAT(result.err, !Contains("--gpus"));
  }
}

TEST_CASE("explain shows what a GPU gets of a step, and the copies", "[gpu]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep);
  const auto plain = Coxswain({"explain", job}), gpu = Coxswain({"explain", job, "--gpu"});
  REQUIRE(gpu.code == 0);
  CHECK_THAT(plain.out, !Contains("on GPU:0"));
  CHECK_THAT(gpu.out, Contains("on GPU:0"));
  CHECK_THAT(gpu.out, Contains("= CopyToDevice("));
  CHECK_THAT(gpu.out, Contains("= CopyToHost("));
}

TEST_CASE("explain shows tables in GPU memory where no GPU is", "[gpu]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep);
  for (const bool gpu : {false, true}) {
    std::vector<std::string> flags = {"explain", job, "--set", "tables.color.device=gpu"};
    if (gpu) flags.push_back("--gpu");
    const auto result = Coxswain(flags, {{"COXSWAIN_GPUS", "none"}});
    CAPTURE(gpu, result.out, result.err);
    CHECK(result.code == 0);
    int looked_up = 0;
    for (const absl::string_view line : absl::StrSplit(result.out, '\n')) {
      if (!absl::StrContains(line, "= GatherShard(")) continue;
      CAPTURE(line);
      ++looked_up;
      CHECK(absl::StrContains(line, "on_gpu=true") ==
            absl::StrContains(line, "variable=\"color\""));
    }
    CHECK(looked_up > 1);
  }
}

TEST_CASE("explain shows no GPU's part of a job that computes on CPUs", "[gpu]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kWideDeep);
  const auto cpu = Coxswain({"explain", job, "--gpu", "--set", "train.device=cpu"});
  CHECK(cpu.code == 2);
  CHECK_THAT(cpu.err, Contains("--set train.device=cpu: --gpu: with train.device: cpu the "
                               "workers' parts run on their CPUs; wanted auto or gpu"));
  const auto deterministic = Coxswain(
      {"explain", job, "--gpu", "--set", "train={epochs: 1, batch_size: 32, deterministic: true}"});
  CHECK(deterministic.code == 2);
  CHECK_THAT(deterministic.err, Contains("--gpu: with train.deterministic the workers'"));
}

}  // namespace
}  // namespace coxswain
