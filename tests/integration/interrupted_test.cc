// Jobs that are interrupted while the tasks that they need are lost.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("an interrupted job does not wait long for lost tasks, and tells how it goes on",
          "[interrupted]") {
  const DataFiles files;
  const std::string checkpoints = files.Path("checkpoints");
  const std::string job_file = WriteMatrixFactorization(files);
  const auto train_on = [&](const Daemons& daemons, const std::vector<std::string>& more) {
    std::vector<std::string> command = {"train",
                                        job_file,
                                        "--cluster",
                                        daemons.cluster_file(),
                                        "--checkpoint-dir",
                                        files.Path("checkpoints"),
                                        "--set",
                                        "checkpoint.every_steps=200",
                                        "--set",
                                        "train.epochs=",
                                        "--set",
                                        "train.steps=1000000000"};
    command.insert(command.end(), more.begin(), more.end());
    return CoxswainCommand(command);
  };
  struct Case {
    const char* what;
    const char* consistency;
    std::function<void(Daemons&)> lose;
  };
  const std::vector<Case> cases = {
      {"all workers", "{}", [](Daemons& d) { d.worker(0).Kill(SIGKILL); }},
      {"all parameter servers", "{}", [](Daemons& d) { d.ps(0).Kill(SIGKILL); }},
      {"parameter servers that hang", "{mode: sync, replicas: 2}",
       [](Daemons& d) { d.ps(0).Kill(SIGSTOP); }},
      {"all, as when the machines go", "{}",
       [](Daemons& d) {
         d.ps(0).Kill(SIGTERM);
         d.worker(0).Kill(SIGTERM);
       }},
  };
  const Case c = cases[static_cast<size_t>(GENERATE(range(0, 4)))];
  CAPTURE(c.what);
  Daemons daemons(files, 1, 1);
  const std::string consistency = std::string("train.consistency=") + c.consistency;
  Process job(train_on(daemons, {"--set", consistency}));
  REQUIRE(job.WaitForError("checkpoint 1 written"));
  c.lose(daemons);
  job.Kill(SIGTERM);
  const auto result = job.Wait();
  CAPTURE(result.err);
  CHECK(result.code == 75);
  CHECK_THAT(result.err, Contains("resume with"));
  // It does, elsewhere.
  Daemons others(files, 1, 1);
  Process resumed(train_on(others, {"--resume", "--set", consistency}));
  REQUIRE(resumed.WaitForError(" written, "));
  resumed.Kill(SIGTERM);
  CHECK(resumed.Wait().code == 75);
}

TEST_CASE("a job that is interrupted and cannot save goes on from an older checkpoint",
          "[interrupted]") {
  const DataFiles files;
  const std::string checkpoints = files.Path("checkpoints"), away = files.Path("away");
  const std::vector<std::string> train = {"train",
                                          WriteMatrixFactorization(files),
                                          "--in-process",
                                          "--checkpoint-dir",
                                          checkpoints,
                                          "--set",
                                          "checkpoint.every_steps=200",
                                          "--set",
                                          "train.epochs=",
                                          "--set",
                                          "train.steps=1000000000"};
  Process job(CoxswainCommand(train));
  REQUIRE(job.WaitForError("checkpoint 1 written"));
  // The disk is not there.
  std::filesystem::rename(checkpoints, away);
  files.Write("checkpoints", "");
  job.Kill(SIGTERM);
  const auto result = job.Wait();
  CAPTURE(result.err);
  CHECK(result.code == 75);
  CHECK_THAT(result.err, Contains("interrupted, and no checkpoint could be written; --resume goes "
                                  "on from the newest one there is"));
  CHECK_THAT(result.err, Contains("resume with"));
  std::filesystem::remove(checkpoints);
  std::filesystem::rename(away, checkpoints);
  std::vector<std::string> again = train;
  again.push_back("--resume");
  Process resumed(CoxswainCommand(again));
  REQUIRE(resumed.WaitForError(" written, "));
  resumed.Kill(SIGTERM);
  CHECK(resumed.Wait().code == 75);
}

TEST_CASE("a job that is interrupted while all workers are lost saves what it has",
          "[interrupted]") {
  // Not where a checkpoint was under way that wanted them: then it goes on from the one before.
  bool saved = false;
  for (int attempt = 0; attempt < 4 && !saved; ++attempt) {
    const DataFiles files;
    const std::string checkpoints = files.Path("checkpoints");
    Daemons daemons(files, 1, 1);
    Process job(CoxswainCommand({"train", WriteMatrixFactorization(files), "--cluster",
                                 daemons.cluster_file(), "--checkpoint-dir", checkpoints, "--set",
                                 "train.epochs=", "--set", "train.steps=1000000000", "--set",
                                 "checkpoint.every_steps=200"}));
    REQUIRE(job.WaitForError("checkpoint 1 written"));
    daemons.worker(0).Kill(SIGKILL);
    REQUIRE(job.WaitForError("/job:worker/task:0 is lost"));
    job.Kill(SIGTERM);
    const auto result = job.Wait();
    CAPTURE(result.err);
    CHECK(result.code == 75);
    CHECK_THAT(result.err, Contains("resume with"));
    CHECK(Coxswain({"checkpoint", "verify", checkpoints}).code == 0);
    saved = result.err.find(" written", result.err.find("is lost")) != std::string::npos;
  }
  CHECK(saved);
}

TEST_CASE("a job that waits for its cluster says for whom, before it gives up", "[interrupted]") {
  const DataFiles files;
  const std::string nobody = "127.0.0.1:" + std::to_string(FreePort());
  const std::string cluster =
      files.Write("cluster.yaml", "ps: [\"" + nobody + "\"]\nworker: [\"127.0.0.1:1\"]\n");
  Process job(CoxswainCommand({"train", WriteMatrixFactorization(files), "--cluster", cluster,
                               "--connect-timeout", "300"}));
  CHECK(job.WaitForError("waiting for the cluster: /job:ps/task:0 at " + nobody));
  CHECK(job.WaitForError("gives up after 5m"));
}

}  // namespace
}  // namespace coxswain
