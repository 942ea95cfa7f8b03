// Jobs on ids without a vocabulary, in hash tables.
#include <signal.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

const std::vector<std::string> kHashed = {"--set", "features.user.id=hash", "--set",
                                          "features.item.id=hash"};

std::vector<std::string> With(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

nlohmann::json VariableOf(const nlohmann::json& report, const std::string& name) {
  for (const auto& variable : report["variables"]) {
    if (variable["name"] == name) return variable;
  }
  FAIL("no variable " << name << " in " << report["variables"]);
  return {};
}

int64_t Sum(const nlohmann::json& variable, const std::string& key) {
  int64_t sum = 0;
  for (const auto& shard : variable["shards"]) sum += shard[key].get<int64_t>();
  return sum;
}

// 30 users and 20 items, as WriteMatrixFactorization makes them.
void CheckLearned(const nlohmann::json& report) {
  CHECK(report["metrics"]["rmse"].get<double>() < 0.5);  // the mean alone: 1.15
  const nlohmann::json user = VariableOf(report, "user"), item = VariableOf(report, "item");
  CHECK(user["shape"] == nlohmann::json({-1, 4}));
  CHECK(user["sharding"] == "hash");
  CHECK(Sum(user, "rows") == 30);
  CHECK(Sum(item, "rows") == 20);
  CHECK(Sum(VariableOf(report, "user_bias"), "rows") == 30);
}

TEST_CASE("hash tables: export and table stat show the rows that there are, not free places",
          "[hash]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), checkpoints = files.Path("checkpoints");
  const auto trained =
      Coxswain(With({"train", job, "--in-process", "--quiet", "--checkpoint-dir", checkpoints,
                     "--set", "train.epochs=4", "--set", "tables.user.hash_table.max_rows=12"},
                    kHashed));
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const auto exported = Coxswain({"export", "--checkpoint-dir", checkpoints, "--to", "npz",
                                  "--variables", "user", "--out", files.Path("user.npz")});
  INFO(exported.err);
  REQUIRE(exported.code == 0);
  const auto json = Coxswain({"table", "stat", "user", "--checkpoint-dir", checkpoints, "--json"});
  INFO(json.err);
  REQUIRE(json.code == 0);
  const nlohmann::json stat = nlohmann::json::parse(json.out)[0];
  const auto rows = stat["rows"].get<int64_t>();
  CHECK(rows <= 12);
  CHECK(stat["shape"] == nlohmann::json({rows, 4}));
  const std::string shown = absl::StrCat("user  f32[", rows, ",4], ", rows, " rows");
  CHECK(exported.out == shown + "\n");
  CHECK_THAT(Coxswain({"table", "stat", "user", "--checkpoint-dir", checkpoints}).out,
             Catch::StartsWith(shown + ", "));
}

TEST_CASE("hash tables: a job on names without a vocabulary learns, is saved and evaluated",
          "[hash]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model"),
                    report = files.Path("report.json"), evaluated = files.Path("evaluated.json");
  const auto trained = Coxswain(
      With({"train", job, "--local", "2x1", "--quiet", "--model-dir", model, "--report", report},
           kHashed));
  CAPTURE(trained.out, trained.err);
  REQUIRE(trained.code == 0);
  CheckLearned(ReadJson(report));
  // The saved model says what it is, with the ids of its rows.
  const nlohmann::json manifest = ReadJson(model + "/model.json");
  bool found = false;
  for (const auto& variable : manifest["variables"]) {
    if (variable["name"] == "user") found = variable["hash"].get<bool>();
  }
  CHECK(found);
  const auto result =
      Coxswain(With({"eval", job, "--model-dir", model, "--report", evaluated}, kHashed));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK(ReadJson(evaluated)["metrics"]["rmse"].get<double>() ==
        Approx(ReadJson(report)["metrics"]["rmse"].get<double>()).epsilon(1e-6));
}

TEST_CASE("hash tables: a job that stops early goes back to the rows of its best evaluation",
          "[hash]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model"),
                    report = files.Path("report.json"), evaluated = files.Path("evaluated.json");
  // No gain is large enough, so the first evaluation stays the best. Rows come and go after it.
  const auto trained = Coxswain(
      With({"train", job, "--in-process", "--quiet", "--model-dir", model, "--report", report,
            "--set", "evaluate.every_epochs=1", "--set", "train.early_stopping.patience=4", "--set",
            "train.early_stopping.min_delta=100", "--set", "tables.user.hash_table.max_rows=25"},
           kHashed));
  CAPTURE(trained.out, trained.err);
  REQUIRE(trained.code == 0);
  const nlohmann::json told = ReadJson(report);
  REQUIRE(told["stopped_early"].get<bool>());
  const auto result =
      Coxswain(With({"eval", job, "--model-dir", model, "--report", evaluated}, kHashed));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  const auto rmse = [](const nlohmann::json& of) { return of["metrics"]["rmse"].get<double>(); };
  CHECK(rmse(told["evaluations"][0]) > rmse(told["evaluations"][4]));
  CHECK(rmse(ReadJson(evaluated)) == Approx(rmse(told["evaluations"][0])).epsilon(1e-6));
}

TEST_CASE("hash tables: rows that are not admitted wait, and a row budget is kept", "[hash]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), report = files.Path("report.json");
  const auto trained =
      Coxswain(With({"train", job, "--in-process", "--quiet", "--report", report, "--set",
                     "train.epochs=1", "--set", "tables.user.hash_table.max_rows=10", "--set",
                     "tables.item.hash_table.min_count=1000"},
                    kHashed));
  CAPTURE(trained.out, trained.err);
  REQUIRE(trained.code == 0);
  const nlohmann::json user = VariableOf(ReadJson(report), "user");
  CHECK(Sum(user, "rows") == 10);
  CHECK(Sum(user, "rows_evicted") >= 20);
  const nlohmann::json item = VariableOf(ReadJson(report), "item");
  CHECK(Sum(item, "rows") == 0);
  CHECK(Sum(item, "ids_waiting") == 20);
}

TEST_CASE("hash tables: a parameter server is killed, and the job ends with all rows and updates",
          "[hash]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), report = files.Path("report.json");
  Daemons daemons(files, 2, 2);
  Process run(CoxswainCommand(
      With({"train", job, "--cluster", daemons.cluster_file(), "--checkpoint-dir",
            files.Path("checkpoints"), "--report", report, "--set", "train.epochs=300", "--set",
            "evaluate.every_epochs=100", "--set", "checkpoint.every_seconds=0.1", "--set",
            "cluster.lease_seconds=0.5", "--set", "optimizer.table.learning_rate=0.05"},
           kHashed)));
  const bool written = run.WaitForError("checkpoint 2 written");
  daemons.ps(1).Kill(SIGKILL);
  const bool lost = run.WaitForError("/job:ps/task:1 is lost, closures wait");
  daemons.RestartPs(1);
  const auto result = run.Wait();
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK(written);
  CHECK(lost);
  const nlohmann::json told = ReadJson(report);
  CheckLearned(told);
  CHECK(told["updates"]["applied"] == told["steps"]);
  CHECK(told["updates"]["shards_off"] == 0);
  CHECK(told["failures"]["ps"] == 1);
  CHECK(told["failures"]["recovered"] == 1);
}

}  // namespace
}  // namespace coxswain
