// Jobs that train in synchronous steps or with bounded staleness, by the command line, on processes
// that die.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

const std::vector<std::string> kSync = {"--set", "train.consistency={mode: sync, replicas: 2}"};

nlohmann::json Train(const DataFiles& files, const std::string& job,
                     std::vector<std::string> arguments) {
  const std::string report = files.Path("report.json");
  arguments.insert(arguments.begin(), {"train", job, "--report", report});
  const Process::Result result = Coxswain(arguments);
  INFO(result.out << result.err);
  REQUIRE(result.code == 0);
  return ReadJson(report);
}

std::vector<std::string> With(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// The same model: only what is measured of it was summed in another order.
void CheckSameScore(const nlohmann::json& one, const nlohmann::json& two) {
  CHECK(one["metrics"]["rmse"].get<double>() ==
        Approx(two["metrics"]["rmse"].get<double>()).epsilon(1e-9));
}

// 15 batches an epoch: 8 updates, the last one of one batch.
const std::vector<std::string> kFits = {
    "--set", "train.epochs=6",       "--set", "train.batch_size=32",
    "--set", "split.validation=0.2", "--set", "evaluate.every_epochs=2"};

TEST_CASE("a synchronous job gives the same result on one worker and on two", "[consistency]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const nlohmann::json one = Train(files, job, With(With({"--local", "2x1"}, kFits), kSync));
  const nlohmann::json two = Train(files, job, With(With({"--local", "2x2"}, kFits), kSync));
  const int64_t steps = one["steps"];
  CHECK(steps == 90);
  for (const nlohmann::json& report : {one, two}) {
    INFO(report["updates"]);
    CHECK(report["consistency"]["mode"] == "sync");
    CHECK(report["consistency"]["replicas"] == 2);
    CHECK(report["updates"]["scheduled"] == 48);
    CHECK(report["updates"]["applied"] == 48);
    CHECK(report["updates"]["shards_off"] == 0);
  }
  REQUIRE(one["evaluations"].size() == two["evaluations"].size());
  for (size_t e = 0; e < one["evaluations"].size(); ++e) {
    CheckSameScore(one["evaluations"][e], two["evaluations"][e]);
  }
}

TEST_CASE("a job with bounded staleness of 0 gives the same result on one worker and on two",
          "[consistency]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const std::vector<std::string> bounded = {"--set",
                                            "train.consistency={mode: bounded, max_staleness: 0}"};
  const nlohmann::json one = Train(files, job, With(With({"--local", "1x1"}, kFits), bounded));
  const nlohmann::json two = Train(files, job, With(With({"--local", "1x2"}, kFits), bounded));
  CHECK(one["consistency"]["mode"] == "bounded");
  CHECK(two["updates"]["applied"] == two["steps"]);
  CheckSameScore(one, two);
}

// Workers die four times and a parameter server once; and, with it, the coordinator.
constexpr char kKills[] = R"(
seed: 5
baseline: false
faults:
  - {task: worker, action: kill, at_update: [100, 400, 700, 1000], restart_delay: 100ms}
  - {task: ps, action: kill, at_update: [250], restart_delay: 100ms}
)";
constexpr char kCoordinatorToo[] =
    "  - {task: coordinator, action: kill, at_update: [550], restart_delay: 100ms}\n";
// And once more as by Ctrl-C.
constexpr char kInterruptToo[] =
    "  - {task: coordinator, action: terminate, at_update: [850], restart_delay: 100ms}\n";

struct Fire {
  Process::Result result;
  nlohmann::json report;
};

Fire TrainUnderFire(const std::string& local, int epochs, const std::string& consistency) {
  const DataFiles files;
  const std::string report = files.Path("report.json");
  const std::string chaos = files.Write("chaos.yaml", absl::StrCat(kKills, kCoordinatorToo));
  Fire fire;
  fire.result = Coxswain({"train",
                          WriteMatrixFactorization(files),
                          "--local",
                          local,
                          "--chaos",
                          chaos,
                          "--report",
                          report,
                          "--checkpoint-dir",
                          files.Path("checkpoints"),
                          "--set",
                          "checkpoint.every_steps=150",
                          "--set",
                          absl::StrCat("train.epochs=", epochs),
                          "--set",
                          "train.batch_size=32",
                          "--set",
                          absl::StrCat("evaluate.every_epochs=", epochs),
                          "--set",
                          "split.validation=0.2",
                          "--set",
                          "cluster.lease_seconds=1",
                          "--set",
                          absl::StrCat("train.consistency=", consistency)});
  INFO(fire.result.out << fire.result.err);
  REQUIRE(fire.result.code == 0);
  CHECK_THAT(fire.result.out, Catch::Matchers::Contains("every promise was kept"));
  fire.report = ReadJson(report);
  CHECK(fire.report["chaos"]["injected"]["worker"]["kill"] == 4);
  CHECK(fire.report["chaos"]["injected"]["ps"]["kill"] == 1);
  CHECK(fire.report["chaos"]["coordinator_starts"] == 2);
  return fire;
}

TEST_CASE(
    "a synchronous job whose workers, parameter server and coordinator are killed keeps every "
    "promise",
    "[consistency]") {
  const Fire fire = TrainUnderFire("2x2", 600, "{mode: sync, replicas: 2}");
  CHECK_THAT(fire.result.out, Catch::Matchers::Contains("updates == synchronous steps"));
  CHECK(fire.report["updates"]["applied"] == 600 * 8);
}

TEST_CASE(
    "backups, groups, microbatches and a bound keep every promise while workers, a parameter "
    "server "
    "and the coordinator are killed",
    "[consistency]") {
  const struct {
    const char* consistency;
    int64_t updates;  // an epoch has 15 batches
  } kModes[] = {{"{mode: sync, replicas: 2, backup: 1}", 8},
                {"{mode: hybrid, group_size: 2}", 8},
                {"{mode: bounded, max_staleness: 2}", 15},
                {"{accumulate: 4}", 4}};
  for (const auto& [consistency, updates] : kModes) {
    INFO(consistency);
    const nlohmann::json kept = TrainUnderFire("2x3", 400, consistency).report;
    CHECK(kept["updates"]["applied"] == 400 * updates);
    CHECK(kept["updates"]["shards_off"] == 0);
    CHECK(kept["closures"]["completed"] == kept["closures"]["scheduled"]);
  }
}

// Many batches move the running statistics at once. Differences to what each has read would add up:
// 64 of them would go 6.4 times as far as they should, and a variance would be below 0.
TEST_CASE("running statistics stay between those of batches, however many move them at once",
          "[consistency]") {
  const DataFiles files;
  std::string rows = "x,y,is\n";
  for (int i = 0; i < 1024; ++i) {
    absl::StrAppend(&rows, i % 17, ".5,", i * 7 % 23, ",", (i % 17) > (i * 7 % 23) / 2 ? 1 : 0,
                    "\n");
  }
  const std::string job = files.Write(
      "job.yaml",
      absl::StrCat("name: norms\ndataset: {path: ", files.Write("rows.csv", rows), "}\n",
                   "features:\n  - {name: x, kind: numeric}\n  - {name: y, kind: numeric}\n",
                   "label: {column: is}\nsplit: {validation: 0.2}\n",
                   "model: {kind: mlp, hidden: [8], batch_norm: {momentum: 0.9}}\n",
                   "optimizer: {dense: {kind: sgd, learning_rate: 0.05}}\n",
                   "train: {epochs: 20, batch_size: 8}\nevaluate: {metrics: [logloss]}\n"));
  const struct {
    std::vector<std::string> where;
    const char* consistency;
    const char* momentum;
  } kWays[] = {{{"--in-process"}, "{accumulate: 64}", "0.9"},
               {{"--in-process"}, "{mode: hybrid, group_size: 64}", "0.9"},
               {{"--in-process"}, "{mode: sync, replicas: 8, accumulate: 8}", "0.9"},
               {{"--in-process"}, "{mode: sync, replicas: 64, reduce: none}", "0.5"},
               {{"--local", "1x4"}, "{mode: async}", "0.2"}};
  for (const auto& [where, consistency, momentum] : kWays) {
    INFO(consistency);
    const nlohmann::json report =
        Train(files, job,
              With(where, {"--set", absl::StrCat("train.consistency=", consistency), "--set",
                           absl::StrCat("model.batch_norm.momentum=", momentum)}));
    REQUIRE(report["metrics"]["logloss"].is_number());
    CHECK(report["metrics"]["logloss"].get<double>() < 2);
  }
}

// By their names within the directory.
std::map<std::string, std::string> FilesIn(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    files[entry.path().lexically_relative(directory).string()] =
        std::string(std::istreambuf_iterator<char>(in), {});
  }
  return files;
}

TEST_CASE(
    "a deterministic job leaves the same bytes on 1, 2 and 5 workers, whoever is killed, and "
    "when it is resumed",
    "[consistency]") {
  // One update of three batches, or each an update of its own.
  const auto [consistency, updates, latest] =
      GENERATE(table<std::string, int, int>({{"{mode: sync, replicas: 3}", 5, 0},
                                             {"{mode: sync, replicas: 3, reduce: none}", 15, 2},
                                             {"{mode: async, window: 4}", 15, 3},
                                             {"{mode: bounded, max_staleness: 2}", 15, 2}}));
  INFO(consistency);
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  // The second one is resumed twice: after a kill, and from the checkpoint that it wrote when it
  // was told to end.
  const std::map<std::string, std::string> chaos = {
      {"killed", files.Write("killed.yaml", kKills)},
      {"resumed",
       files.Write("resumed.yaml", absl::StrCat(kKills, kCoordinatorToo, kInterruptToo))}};
  const std::vector<std::string> deterministic = {
      "--set",
      absl::StrCat("train={epochs: 300, batch_size: 32, deterministic: true, consistency: ",
                   consistency, "}"),
      "--set",
      "split.validation=0.2",
      "--set",
      "evaluate.every_epochs=300",
      "--set",
      "cluster.lease_seconds=1"};
  std::map<std::string, std::string> wanted;
  for (const std::string workers : {"2x1", "2x2", "2x5", "killed", "resumed"}) {
    INFO(workers);
    const std::string model = files.Path("model-" + workers);
    std::vector<std::string> more = {"--local", workers, "--model-dir", model};
    if (const auto faults = chaos.find(workers); faults != chaos.end()) {
      more[1] = "2x2";
      // By a flag: the model's description has the keys of the job.
      more = With(more, {"--chaos", faults->second, "--checkpoint-dir",
                         files.Path("checkpoints-" + workers), "--checkpoint-every", "0.1"});
    }
    const nlohmann::json report = Train(files, job, With(more, deterministic));
    CHECK(report["updates"]["applied"] == 300 * updates);
    CHECK(report["updates"]["shards_off"] == 0);
    for (const nlohmann::json& variable : report["variables"]) {
      CHECK(variable["staleness"]["most"] == latest);
    }
    if (chaos.contains(workers)) {
      CHECK(report["chaos"]["injected"]["worker"]["kill"] == 4);
      CHECK(report["chaos"]["injected"]["ps"]["kill"] == 1);
      CHECK(report["chaos"]["coordinator_starts"] == (workers == "resumed" ? 3 : 1));
    }
    const auto found = FilesIn(model);
    CHECK(found.size() >= 2);
    if (wanted.empty()) wanted = found;
    for (const auto& [name, bytes] : wanted) {
      INFO(name);
      REQUIRE(found.count(name) == 1);
      CHECK((found.at(name) == bytes));
    }
    CHECK(found.size() == wanted.size());
  }
}

// Predictions go by the running statistics, so a batch that moved them twice, or not at all, shows.
TEST_CASE("running statistics of batch_norm are the same when workers and a PS are killed",
          "[consistency]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const std::vector<std::string> sets =
      With({"--set", "model={kind: mlp, hidden: [8], batch_norm: {momentum: 0.9}}", "--set",
            "loss.kind=mse", "--set", "train.epochs=300", "--set", "train.batch_size=32", "--set",
            "evaluate.every_epochs=300"},
           kSync);
  const nlohmann::json quiet = Train(files, job, With({"--local", "2x1"}, sets));
  const std::string chaos = files.Write("chaos.yaml", kKills);
  const nlohmann::json killed =
      Train(files, job,
            With({"--local", "2x2", "--chaos", chaos, "--checkpoint-dir", files.Path("checkpoints"),
                  "--set", "checkpoint.every_steps=150", "--set", "cluster.lease_seconds=1"},
                 sets));
  CHECK(killed["chaos"]["injected"]["worker"]["kill"] == 4);
  CHECK(killed["chaos"]["injected"]["ps"]["kill"] == 1);
  CheckSameScore(quiet, killed);
  CHECK(killed["updates"]["applied"] == quiet["updates"]["applied"]);
  CHECK(killed["updates"]["shards_off"] == 0);
}

// The model that is saved has the averages, so an update that moved them twice, or not at all,
// shows.
TEST_CASE("moving averages are the same to the bit when workers and a PS are killed",
          "[consistency]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const std::vector<std::string> sets = {
      "--set",
      "train={epochs: 300, batch_size: 32, deterministic: true, ema: {decay: 0.99}, "
      "consistency: {mode: sync, replicas: 3}}",
      "--set",
      "split.validation=0.2",
      "--set",
      "evaluate.every_epochs=300",
      "--set",
      "cluster.lease_seconds=1"};
  const nlohmann::json quiet =
      Train(files, job, With({"--local", "2x1", "--model-dir", files.Path("quiet")}, sets));
  const std::string chaos = files.Write("chaos.yaml", kKills);
  const nlohmann::json killed = Train(
      files, job,
      With({"--local", "2x2", "--model-dir", files.Path("killed"), "--chaos", chaos,
            "--checkpoint-dir", files.Path("checkpoints"), "--set", "checkpoint.every_steps=150"},
           sets));
  CHECK(killed["chaos"]["injected"]["ps"]["kill"] == 1);
  CHECK(killed["updates"]["shards_off"] == 0);
  CheckSameScore(quiet, killed);
  auto wanted = FilesIn(files.Path("quiet")), found = FilesIn(files.Path("killed"));
  int tables = 0;
  for (const auto& [name, bytes] : wanted) {
    if (std::filesystem::path(name).extension() != ".safetensors") continue;
    INFO(name);
    CHECK((found[name] == bytes));
    ++tables;
  }
  CHECK(tables >= 2);
}

// An evaluation takes numbers of closures, and one that a lost PS spoils takes them twice.
TEST_CASE("a deterministic job draws the same samples however often it is evaluated",
          "[consistency]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  std::map<std::string, std::string> models[2];
  for (const int every : {1, 4}) {
    const std::string model = files.Path(absl::StrCat("model-", every));
    Train(
        files, job,
        {"--local", "2x2", "--model-dir", model, "--set",
         "model={kind: mlp, hidden: [8], dropout: 0.3}", "--set", "loss.kind=mse", "--set",
         "train={epochs: 4, batch_size: 32, deterministic: true, "
         "consistency: {mode: sync, replicas: 2}}",
         "--set", "split.validation=0.2", "--set", absl::StrCat("evaluate.every_epochs=", every)});
    for (const auto& [name, bytes] : FilesIn(model)) {
      if (std::filesystem::path(name).extension() == ".safetensors") {
        models[every > 1][name] = bytes;
      }
    }
  }
  CHECK(models[0].size() >= 2);
  CHECK((models[0] == models[1]));
}

// The tables and layers of a saved model.
std::map<std::string, std::string> ValuesIn(const std::string& model) {
  std::map<std::string, std::string> files = FilesIn(model);
  std::erase_if(files, [](const auto& file) {
    return std::filesystem::path(file.first).extension() != ".safetensors";
  });
  CHECK(files.size() >= 2);
  return files;
}

// 1,500 rows of a name, one of 300 words and a number.
std::string WriteWords(const DataFiles& files, const std::string& model) {
  std::string rows = "user,word,size,label\n";
  for (int i = 0; i < 1500; ++i) {
    absl::StrAppend(&rows, "u", i % 37, ",w", i * 7919 % 300, ",", i * 31 % 50 / 10.0, ",",
                    (i % 37 + i * 7919 % 300) % 2, "\n");
  }
  files.Write("words.csv", rows);
  return files.Write("job.yaml", absl::StrCat(R"(
dataset: {path: words.csv}
features:
  - {name: user, kind: categorical, dim: 16}
  - {name: word, kind: categorical, id: hash, dim: 8}
  - {name: size, kind: numeric}
label: {column: label}
split: {validation: 0.2}
model: )",
                                              model, R"(
tables: {word: {hash_table: {admission_probability: 0.4}}}
optimizer:
  table: {kind: adagrad, learning_rate: 0.05}
  dense: {kind: adam, learning_rate: 0.01}
)"));
}

// oneDNN sums a part of a large product in another order than the whole.
TEST_CASE("a deterministic job leaves the same bytes whatever the threads of its workers",
          "[consistency]") {
  const DataFiles files;
  const std::string job = WriteWords(files, "{kind: mlp, hidden: [256, 64]}");
  std::map<std::string, std::string> wanted;
  for (const std::string threads : {"1", "2", "3"}) {
    INFO(threads);
    const std::string model = files.Path("model-" + threads);
    Train(files, job,
          {"--local", "1x2", "--threads", threads, "--model-dir", model, "--set",
           "train={epochs: 2, batch_size: 512, deterministic: true, "
           "consistency: {mode: sync, replicas: 2}}"});
    if (wanted.empty()) wanted = ValuesIn(model);
    CHECK((ValuesIn(model) == wanted));
  }
}

TEST_CASE(
    "a deterministic job admits the same ids however often it is evaluated, and when it is resumed",
    "[consistency]") {
  const DataFiles files;
  const std::string job = WriteWords(files, "{kind: mlp, hidden: [8]}");
  const std::string consistency = GENERATE("{mode: sync, replicas: 2}", "{mode: async, window: 3}");
  const auto train = [&](int epochs, int every, std::vector<std::string> more) {
    more = With({"--local", "1x2"}, more);
    Train(files, job,
          With(more, {"--set",
                      absl::StrCat(
                          "train={epochs: ", epochs,
                          ", batch_size: 32, deterministic: true, consistency: ", consistency, "}"),
                      "--set", absl::StrCat("evaluate.every_epochs=", every)}));
  };
  const std::string often = files.Path("often"), seldom = files.Path("seldom"),
                    resumed = files.Path("resumed"), checkpoints = files.Path("checkpoints");
  train(4, 1, {"--model-dir", often});
  train(4, 4, {"--model-dir", seldom});
  train(2, 1, {"--checkpoint-dir", checkpoints});
  train(4, 1, {"--checkpoint-dir", checkpoints, "--resume", "--model-dir", resumed});
  const auto wanted = ValuesIn(often);
  CHECK((ValuesIn(seldom) == wanted));
  CHECK((ValuesIn(resumed) == wanted));
}

}  // namespace
}  // namespace coxswain
