// Jobs under fire, by the command line: faults are done, the job survives, and nothing is left
// behind.
#include <signal.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/observe/observer.h"
#include "protos/control.pb.h"
#include "runtime/net/secret.h"
#include "runtime/net/secret_transport.h"
#include "tests/integration/jobs.h"
#include "tests/testing/event_files.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

// Long enough for any schedule here, and for ever.
const std::vector<std::string> kSeconds = {"--set", "train.epochs=1500", "--set",
                                           "evaluate.every_epochs=1500"};
const std::vector<std::string> kForEver = {"--set", "train.epochs=",
                                           "--set", "train.steps=1000000000",
                                           "--set", "evaluate.every_epochs=1000000000"};

std::vector<std::string> With(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// Whether the process has ended, though nobody may have collected it.
bool Gone(int64_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string stat;
  if (!std::getline(file, stat)) return true;
  const size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos || stat[name_end + 2] == 'Z' || stat[name_end + 2] == 'X';
}

// The tasks of a cluster file, in the order of the file; fails the test when one does not answer.
// A run that started its daemons itself has a secret of its own.
std::vector<proto::TaskStatus> Ask(const std::string& cluster_file,
                                   const std::string& secret_file = "") {
  const auto config = cluster::ReadClusterConfig(cluster_file);
  INFO(config.status());
  REQUIRE(config.ok());
  std::vector<std::string> addresses = config->ps;
  addresses.insert(addresses.end(), config->workers.begin(), config->workers.end());
  auto secret = net::FindSecret({secret_file, /*insecure=*/false});
  INFO(secret.status());
  REQUIRE(secret.ok());
  const auto transport = net::NewSecretTransport(net::NewGrpcTransport(), *std::move(secret));
  std::vector<proto::TaskStatus> tasks;
  for (const auto& answer : observe::ObserveTasks(transport.get(), addresses, absl::Seconds(20))) {
    INFO(answer.status());
    REQUIRE(answer.ok());
    tasks.push_back(*answer);
  }
  return tasks;
}

// Every promise, from the report.
void CheckKept(const nlohmann::json& report) {
  CHECK(report["chaos"]["broken"].empty());
  CHECK(report["updates"]["applied"] == report["steps"]);
  CHECK(report["updates"]["scheduled"] == report["steps"]);
  REQUIRE(report["visitation"].is_object());
  CHECK(report["visitation"]["examples"].get<int64_t>() > 0);
  CHECK(report["visitation"]["missing"] == 0);
  CHECK(report["visitation"]["repeated"] == 0);
}

TEST_CASE("a job whose workers, parameter server and coordinator are killed keeps every promise",
          "[chaos]") {
  const DataFiles files;
  const std::string chaos = files.Write("chaos.yaml", R"(seed: 3
baseline: false
faults:
  - {task: worker, at_update: [200, 900], restart_delay: 100ms}
  - {task: ps, at_update: [500], restart_delay: 100ms}
  - {task: coordinator, at_update: [1200], restart_delay: 0s}
)");
  const std::string report = files.Path("report.json"), model = files.Path("model");
  const auto result =
      Run(CoxswainCommand(
              With({"train", WriteMatrixFactorization(files), "--local", "2x2", "--chaos", chaos,
                    "--set", "checkpoint.every_steps=150", "--report", report, "--model-dir", model,
                    "--chaos-dir", files.Path("run"), "--tensorboard", files.Path("curves")},
                   kSeconds)),
          {}, absl::Seconds(100));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("every promise was kept"));
  const nlohmann::json json = ReadJson(report);
  CheckKept(json);
  CHECK(json["chaos"]["injected"]["worker"]["kill"] == 2);
  CHECK(json["chaos"]["injected"]["ps"]["kill"] == 1);
  CHECK(json["chaos"]["injected"]["coordinator"]["kill"] == 1);
  CHECK(json["chaos"]["coordinator_starts"] == 2);
  CHECK(json["chaos"]["coordinator_recovery_seconds"].size() == 1);
  CHECK(json["failures"]["coordinator"] == 1);
  CHECK(json["examples"] == 1500 * json["visitation"]["examples"].get<int64_t>());
  // The curves of the two coordinators are one, in which no step comes twice.
  const Curves curves = ReadCurves(files.Path("curves"));
  CHECK(curves.starts.size() == 2);
  CHECK(InOrder(curves.points.at("train/loss")));
  CHECK(curves.points.at("train/loss").back().first == json["steps"]);
  CHECK(curves.points.at("cluster/parameter_servers_lost").back().second == json["failures"]["ps"]);
  // The table of visits is no part of the model.
  for (const auto& variable : json["variables"]) CHECK(variable["name"] != "coxswain/visits");
  std::ifstream manifest(model + "/model.json");
  std::stringstream text;
  text << manifest.rdbuf();
  CHECK_THAT(text.str(), Contains("movie") || Contains("item"));
  CHECK_FALSE(absl::StrContains(text.str(), "visits"));
}

TEST_CASE(
    "tasks that are stopped or told to end are survived, too, and the table shows the baseline",
    "[chaos]") {
  const DataFiles files;
  const std::string chaos = files.Write("chaos.yaml", R"(
faults:
  - {task: "worker:0", action: stop, at_update: [50], stop_for: 2500ms}
  - {task: "worker:1", action: terminate, at_update: [300], restart_delay: 100ms}
  - {task: coordinator, action: terminate, at_update: [600], restart_delay: 100ms}
)");
  const std::string report = files.Path("report.json");
  const auto result = Run(CoxswainCommand(With({"train", WriteMatrixFactorization(files), "--local",
                                                "1x2", "--chaos", chaos, "--report", report},
                                               kSeconds)),
                          {}, absl::Seconds(100));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json json = ReadJson(report);
  CheckKept(json);
  CHECK(json["chaos"]["injected"]["worker"]["terminate"] == 1);
  CHECK(json["chaos"]["injected"]["coordinator"]["terminate"] == 1);
  CHECK(json["chaos"]["baseline"]["steps"] == json["steps"]);
  CHECK_THAT(result.out, Contains("(without faults "));
}

TEST_CASE("`coxswain chaos` kills daemons of this machine and starts them as they were",
          "[chaos]") {
  const DataFiles files;
  Daemons daemons(files, 2, 2);
  const std::string chaos = files.Write("chaos.yaml", R"(
baseline: false
faults:
  - {task: "worker:1", at_update: [100], restart_delay: 100ms}
  - {task: "ps:0", at_update: [600], restart_delay: 100ms}
)");
  const auto before = Ask(daemons.cluster_file());
  const std::string report = files.Path("report.json");
  const auto result =
      Run(CoxswainCommand(
              With({"chaos", WriteMatrixFactorization(files), "--cluster", daemons.cluster_file(),
                    "--chaos", chaos, "--report", report, "--set", "checkpoint.every_steps=150"},
                   kSeconds)),
          {}, absl::Seconds(100));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CheckKept(ReadJson(report));
  // All are there again, at the old addresses; those that were killed are new processes.
  const auto after = Ask(daemons.cluster_file());
  REQUIRE(after.size() == 4);
  const bool killed[] = {true, false, false, true};
  for (size_t i = 0; i < 4; ++i) {
    INFO(i);
    CHECK((after[i].incarnation() != before[i].incarnation()) == killed[i]);
    CHECK(after[i].job() == before[i].job());
    CHECK(after[i].task() == before[i].task());
    if (killed[i]) kill(static_cast<pid_t>(after[i].pid()), SIGKILL);
  }
}

TEST_CASE("a chaos run goes on with --resume, also from its job without faults", "[chaos]") {
  const DataFiles files;
  const std::string report = files.Path("report.json");
  const std::string chaos =
      files.Write("chaos.yaml", "faults: [{task: worker, at_update: [200], restart_delay: 0s}]\n");
  const auto command = With({"train", WriteMatrixFactorization(files), "--local", "1x2", "--chaos",
                             chaos, "--chaos-dir", files.Path("run"), "--report", report},
                            kSeconds);
  Process first(CoxswainCommand(command));
  REQUIRE(first.WaitForOutput(" steps"));
  REQUIRE_FALSE(absl::StrContains(first.err(), "under fire"));
  first.Kill(SIGINT);
  const auto interrupted = first.Wait();
  CAPTURE(interrupted.out, interrupted.err);
  CHECK(interrupted.code == 75);
  REQUIRE(std::filesystem::exists(files.Path("run/baseline-checkpoints/checkpoint-000001")));

  nlohmann::json baseline;
  // The second time both jobs have ended already.
  for (const int time : {1, 2}) {
    const auto result = Run(CoxswainCommand(With(command, {"--resume"})), {}, absl::Seconds(100));
    CAPTURE(time, result.out, result.err);
    REQUIRE(result.code == 0);
    const nlohmann::json json = ReadJson(report);
    CheckKept(json);
    CHECK(json["chaos"]["baseline"]["steps"] == json["steps"]);
    CHECK(ReadJson(files.Path("run/baseline.json"))["failures"]["coordinator"] == time);
    if (time == 2) CHECK(json["chaos"]["baseline"] == baseline);
    baseline = json["chaos"]["baseline"];
  }
}

TEST_CASE("a chaos run without --resume runs the job without faults anew", "[chaos]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const std::string chaos =
      files.Write("chaos.yaml", "faults: [{task: worker, at_update: [200], restart_delay: 0s}]\n");
  std::filesystem::create_directories(files.Path("run/baseline-checkpoints"));
  files.Write("run/baseline-checkpoints/mine.txt", "");
  for (const char* checkpoints : {"first", "second"}) {
    const auto result = Coxswain({"train", job, "--local", "1x1", "--chaos", chaos, "--chaos-dir",
                                  files.Path("run"), "--checkpoint-dir", files.Path(checkpoints)});
    CAPTURE(checkpoints, result.out, result.err);
    REQUIRE(result.code == 0);
    CHECK(ReadJson(files.Path("run/baseline.json"))["failures"]["coordinator"] == 0);
  }
  CHECK(std::filesystem::exists(files.Path("run/baseline-checkpoints/mine.txt")));
}

// A job under fire for ever, with one worker that is stopped.
class Endless {
 public:
  Endless()
      : chaos_(files_.Write("chaos.yaml",
                            "baseline: false\nfaults: [{task: 'worker:0', action: stop, at: 200ms, "
                            "stop_for: 1h}]\n")),
        process_(CoxswainCommand(With({"train", WriteMatrixFactorization(files_), "--local", "1x2",
                                       "--chaos", chaos_, "--chaos-dir", files_.Path("run")},
                                      kForEver))) {
    REQUIRE(process_.WaitForOutput(" steps"));
    for (const auto& task :
         Ask(files_.Path("run/logs/cluster.yaml"), files_.Path("run/logs/secret"))) {
      REQUIRE(task.pid() > 0);
      pids_.push_back(task.pid());
    }
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (!absl::StrContains(process_.err(), "stop worker:0") && absl::Now() < deadline) {
      process_.WaitForOutput("not to be found", absl::Milliseconds(20));
    }
    INFO(process_.err());
    REQUIRE(absl::StrContains(process_.err(), "stop worker:0"));
  }
  Process& process() { return process_; }
  void CheckNothingLeft() {
    for (const int64_t pid : pids_) {
      const absl::Time deadline = absl::Now() + absl::Seconds(20);
      while (!Gone(pid) && absl::Now() < deadline) {
      }
      CHECK(Gone(pid));
      if (!Gone(pid)) kill(static_cast<pid_t>(pid), SIGKILL);
    }
  }

 private:
  DataFiles files_;
  std::string chaos_;
  Process process_;
  std::vector<int64_t> pids_;
};

TEST_CASE("a supervisor that is killed leaves no process behind, not even a stopped one",
          "[chaos]") {
  Endless job;
  job.process().Kill(SIGKILL);
  job.process().Wait();
  job.CheckNothingLeft();
}

TEST_CASE("Ctrl-C ends a job under fire and all of its processes", "[chaos]") {
  Endless job;
  job.process().Kill(SIGINT);
  const auto result = job.process().Wait();
  CAPTURE(result.err);
  CHECK(result.code == 75);  // there is a checkpoint
  job.CheckNothingLeft();
}

TEST_CASE("what cannot be done with chaos is told before anything is started", "[chaos]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const auto run = [&](const std::string& chaos, const std::vector<std::string>& more) {
    const std::string file = files.Write("chaos.yaml", chaos);
    const auto result = Coxswain(With({"train", job, "--chaos", file}, more));
    CAPTURE(result.out, result.err);
    CHECK(result.code == 2);
    return result.err;
  };
  const std::string good = "faults: [{task: worker, at: 1s}]\n";
  CHECK_THAT(run("faults: [{task: wroker, at: 1s}]\n", {"--local", "1x1"}),
             Contains("chaos.yaml:1:11: ") && Contains("did you mean 'worker'?"));
  CHECK_THAT(run("faults: [{task: 'worker:2', at: 1s}]\n", {"--local", "1x2"}),
             Contains("the cluster has 2"));
  CHECK_THAT(run(good, {"--in-process"}), Contains("--local PSxW or --cluster FILE"));
  CHECK_THAT(run(good, {"--local", "2"}), Contains("wanted PSxW"));
  CHECK_THAT(run(good, {"--local", "1x1", "--set", "train.epohs=3"}), Contains("'epochs'"));
  CHECK_THAT(run(good, {"--local", "1x1", "--set", "train.visitation=per_worker"}),
             Contains("promises nothing about examples"));
  CHECK_THAT(run(good, {"--local", "1x1", "--chaos-dir", files.Path("")}),
             Contains("which no run left there"));
  std::filesystem::create_directories(files.Path("old/checkpoint-000001"));
  CHECK_THAT(run(good, {"--local", "1x1", "--checkpoint-dir", files.Path("old")}),
             Contains("has checkpoints already"));
}

TEST_CASE("a chaos run puts its report and its directory into nothing that was saved", "[chaos]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const std::string faults = files.Write("chaos.yaml", "faults: [{task: worker, at: 1s}]\n");
  std::filesystem::create_directory(files.Path("saved"));
  files.Write("saved/model.json", R"({"format": "coxswain-model"})");
  const auto refused = [&](const std::string& flag, const std::string& path) {
    const auto result = Coxswain(
        {"train", job, "--chaos", faults, "--local", "1x1", flag, files.Path("saved/" + path)});
    CAPTURE(flag, result.out, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(flag) && Contains("lies in a saved model"));
    CHECK_FALSE(std::filesystem::exists(files.Path("saved/" + path)));
  };
  refused("--report", "report.json");
  refused("--chaos-dir", "run");
  refused("--model-dir", "model");
  refused("--checkpoint-dir", "checkpoints");
}

}  // namespace
}  // namespace coxswain
