// Jobs on daemons: one after the other, told by `status`, one coordinator at a time.
#include <signal.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "coordinator/observe/observer.h"
#include "protos/control.pb.h"
#include "runtime/net/transport.h"
#include "tests/integration/jobs.h"
#include "tests/testing/paths.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

// A job that does not end by itself, and does not stop to evaluate.
std::vector<std::string> EndlessJob(const std::string& job, const Daemons& daemons) {
  return CoxswainCommand({"train", job, "--cluster", daemons.cluster_file(), "--set",
                          "train.epochs=", "--set", "train.steps=1000000000", "--set",
                          "evaluate.every_epochs=1000000000"});
}

void CheckFree(const nlohmann::json& status) {
  for (const auto& task : status) {
    INFO(task.dump());
    CHECK(task["held_by"] == "");
    CHECK(task["rows"] == 0);
    CHECK(task["bytes"] == 0);
  }
}

TEST_CASE("daemons serve one job after the other and end cleanly on SIGTERM", "[cluster]") {
  const DataFiles files;
  Daemons daemons(files, 2, 2);
  const std::string job = WriteMatrixFactorization(files);
  for (const char* name : {"first.json", "second.json"}) {
    const auto result = Coxswain({"train", job, "--cluster", daemons.cluster_file(), "--report",
                                  files.Path(name), "--set", "train.epochs=15"});
    CAPTURE(name, result.err);
    REQUIRE(result.code == 0);
    const nlohmann::json report = ReadJson(files.Path(name));
    CHECK(report["closures"]["completed"] == report["steps"]);
    CHECK(report["workers"] == 2);
    // The second job begins anew: with other data the daemons' old state would be of no use.
    CHECK(report["evaluations"][0]["loss"].get<double>() > report["final_loss"].get<double>());
    const nlohmann::json status = daemons.Status();
    REQUIRE(status.size() == 4);
    CheckFree(status);
  }
  for (Process* daemon : {&daemons.ps(0), &daemons.ps(1), &daemons.worker(0), &daemons.worker(1)}) {
    daemon->Kill(SIGTERM);
    const auto end = daemon->Wait();
    CAPTURE(end.err);
    CHECK(end.code == 0);
  }
}

TEST_CASE("the status says where another task answers than the cluster file has there",
          "[cluster]") {
  const DataFiles files;
  Daemons daemons(files, 1, 1);
  std::ifstream file(daemons.cluster_file());
  std::string text(std::istreambuf_iterator<char>(file), {});
  text = absl::StrReplaceAll(text, {{"ps:", "worker:"}, {"worker:", "ps:"}});
  const std::string swapped = files.Write("swapped.yaml", text);
  const auto status = Coxswain({"status", "--cluster", swapped});
  CAPTURE(text, status.out, status.err);
  CHECK(status.code == 4);
  CHECK_THAT(status.out, Contains("who answers says that it is worker:0") &&
                             Contains("who answers says that it is ps:0"));
}

TEST_CASE("a running job shows in the status, keeps others out, and frees its tasks on SIGINT",
          "[cluster]") {
  const DataFiles files;
  Daemons daemons(files, 2, 2);
  const std::string job = WriteMatrixFactorization(files);
  const auto idle = Coxswain({"status", "--cluster", daemons.cluster_file()});
  CHECK(idle.code == 0);
  CHECK_THAT(idle.out, Contains("ps:1") && Contains("worker:1") && Contains("waiting"));

  Process running(EndlessJob(job, daemons));
  REQUIRE(running.WaitForOutput(" steps"));
  const nlohmann::json status = daemons.Status();
  REQUIRE(status.size() == 4);
  int64_t rows = 0, bytes = 0;
  for (const auto& task : status) {
    INFO(task.dump());
    CHECK_THAT(task["held_by"].get<std::string>(), StartsWith("ratings ("));
    CHECK_FALSE(task["running"].get<std::string>().empty());
    CHECK(task["held_by"] == status[0]["held_by"]);
    rows += task["rows"].get<int64_t>();
    bytes += task["bytes"].get<int64_t>();
  }
  CHECK(rows == 2 * (31 + 21) + 1);         // two tables of users, two of items, the mean
  CHECK(bytes >= (30 + 20) * (4 + 1) * 4);  // and optimizer slots

  const auto second = Coxswain({"train", job, "--cluster", daemons.cluster_file()});
  CAPTURE(second.err);
  CHECK(second.code == 4);
  CHECK_THAT(second.err,
             Contains("held by coordinator " + status[0]["held_by"].get<std::string>()));

  running.Kill(SIGINT);
  const auto interrupted = running.Wait();
  CAPTURE(interrupted.out, interrupted.err);
  CHECK(interrupted.code == 130);
  CHECK_THAT(interrupted.err, Contains("interrupted"));
  CheckFree(daemons.Status());
  CHECK(Coxswain({"train", job, "--cluster", daemons.cluster_file(), "--quiet"}).code == 0);
}

TEST_CASE(
    "a job starts without a worker that is not there, says why, and waits no longer than told",
    "[cluster]") {
  const DataFiles files;
  Daemons daemons(files, 1, 2);
  const std::string job = WriteMatrixFactorization(files);
  daemons.worker(1).Kill(SIGKILL);
  daemons.worker(1).Wait();
  // Less than the 5 s for which a job waits for the others of its workers.
  const auto trained =
      Coxswain({"train", job, "--cluster", daemons.cluster_file(), "--connect-timeout", "2"});
  CAPTURE(trained.out, trained.err);
  CHECK(trained.code == 0);
  CHECK_THAT(trained.err,
             Contains("starting without /job:worker/task:1 at ") && Contains("no answer"));
}

TEST_CASE("a coordinator that is killed loses its hold on the cluster", "[cluster]") {
  const DataFiles files;
  Daemons daemons(files, 1, 1);
  const std::string job = WriteMatrixFactorization(files);
  Process running(EndlessJob(job, daemons));
  REQUIRE(running.WaitForOutput(" steps"));
  running.Kill(SIGKILL);
  CHECK(running.Wait().code == 128 + SIGKILL);
  const auto next = Coxswain({"train", job, "--cluster", daemons.cluster_file(), "--quiet"});
  CAPTURE(next.err);
  CHECK(next.code == 0);
}

// A line of /proc/PID/limits: the soft and the hard limit.
std::pair<std::string, std::string> LimitsOf(pid_t pid, const std::string& name) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/limits"));
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name, 0) != 0) continue;
    std::istringstream fields(line.substr(name.size()));
    std::pair<std::string, std::string> limits;
    fields >> limits.first >> limits.second;
    return limits;
  }
  FAIL("no " << name << " of process " << pid);
  return {};
}

TEST_CASE("a daemon outlives a logout, and may open as many files as its user may", "[cluster]") {
  Process daemon(
      {"/bin/sh", "-c", "ulimit -Sn 64; exec " COXSWAIN_BINARY_DIR "/bin/coxswain-ps --port 0"});
  const std::string address = AddressOf(daemon);
  daemon.Kill(SIGHUP);
  const auto transport = WithSecret(net::NewHostTransport());
  const auto answers = observe::ObserveTasks(transport.get(), {address}, absl::Seconds(20));
  INFO(answers[0].status());
  REQUIRE(answers[0].ok());
  const auto [soft, hard] = LimitsOf(daemon.pid(), "Max open files");
  CHECK(soft == hard);
  daemon.Kill(SIGTERM);
  CHECK(daemon.Wait().code == 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they map terabytes
TEST_CASE("who may have too little address space is told so at once", "[cluster]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const auto limited = [](const std::string& command) {
    return Run({"/bin/sh", "-c", absl::StrCat("ulimit -v 200000; exec ", command)}, {},
               absl::Seconds(30));
  };
  for (const std::string& command : {absl::StrCat(COXSWAIN_BINARY_DIR "/bin/coxswain-ps --port 0"),
                                     absl::StrCat(kProgram, " train ", job, " --local 1x1"),
                                     absl::StrCat(kProgram, " train ", job, " --in-process"),
                                     absl::StrCat(kProgram, " serve --model-dir none")}) {
    const auto result = limited(command);
    CAPTURE(command, result.out, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("ulimit -v") && Contains("195 MiB"));
  }
}

TEST_CASE("more threads than there is address space for are refused with their flag", "[cluster]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const std::vector<std::string> commands = {
      absl::StrCat(kProgram, " serve --model-dir none --connections 4096"),
      absl::StrCat(kProgram, " train ", job, " --in-process --threads 1000"),
      COXSWAIN_BINARY_DIR "/bin/coxswain-worker --port 0 --threads 1000"};
  for (const std::string& command : commands) {
    const auto result = Run({"/bin/sh", "-c", absl::StrCat("ulimit -v 8000000; exec ", command)});
    CAPTURE(command, result.out, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(": 4096 threads take 32768 MiB") ||
                               Contains("--threads: 1000 threads take 8000 MiB"));
    CHECK_THAT(result.err, Contains("ulimit -v"));
  }
}

TEST_CASE("where shared memory has no room a job with --local uses TCP and says so", "[cluster]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const auto result =
      Run({"/bin/sh", "-c",
           absl::StrCat("ulimit -v 10000000; exec ", kProgram, " train ", job, " --local 1x1")});
  CAPTURE(result.out, result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.err, Contains("ulimit -v") && Contains("TCP"));
}
#endif

TEST_CASE("daemons start by TF_CONFIG", "[cluster]") {
  const DataFiles files;
  const std::string ps = absl::StrCat("127.0.0.1:", FreePort());
  const std::string worker = absl::StrCat("127.0.0.1:", FreePort());
  const std::string cluster =
      absl::StrCat(R"({"cluster": {"chief": ["127.0.0.1:1"], "ps": [")", ps, R"("], "worker": [")",
                   worker, R"("]}, "task": {"type": "TYPE", "index": 0}})");
  const auto environment = [&](const char* type) {
    return Process::Environment{{"TF_CONFIG", absl::StrReplaceAll(cluster, {{"TYPE", type}})}};
  };
  Process ps_daemon({COXSWAIN_BINARY_DIR "/bin/coxswain-ps", "--exit-with-parent"},
                    environment("ps"));
  Process worker_daemon({COXSWAIN_BINARY_DIR "/bin/coxswain-worker", "--exit-with-parent"},
                        environment("worker"));
  CHECK(AddressOf(ps_daemon) == ps);
  CHECK(AddressOf(worker_daemon) == worker);
  const auto trained =
      Coxswain({"train", WriteMatrixFactorization(files), "--quiet"}, environment("chief"));
  CAPTURE(trained.err);
  CHECK(trained.code == 0);
  const auto wrong = Run({COXSWAIN_BINARY_DIR "/bin/coxswain-worker"}, environment("ps"));
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.err, Contains("'ps'") && Contains("coxswain-worker"));
  const auto torn = Run({COXSWAIN_BINARY_DIR "/bin/coxswain-ps"}, {{"TF_CONFIG", "{"}});
  CHECK(torn.code == 2);
  CHECK_THAT(torn.err, Contains("TF_CONFIG"));
}

TEST_CASE("daemons listen at an address of IPv6 with brackets and without", "[cluster]") {
  for (const char* host : {"::1", "[::1]"}) {
    Process daemon({COXSWAIN_BINARY_DIR "/bin/coxswain-worker", "--host", host, "--port", "0",
                    "--exit-with-parent"});
    const bool listens = daemon.WaitForOutput("listening on ");
    INFO(host << ": " << daemon.out() << daemon.err());
    if (!listens && absl::StrContains(daemon.err(), "Cannot assign requested address")) {
      WARN("not tested: this machine has no address ::1");
      return;
    }
    CHECK_THAT(daemon.out(), Contains("listening on [::1]:"));
  }
}

TEST_CASE("a daemon refuses what it is not meant for, and says what is wanted", "[cluster]") {
  const DataFiles files;
  const std::string cluster =
      files.Write("cluster.yaml",
                  "ps: [\"127.0.0.1:7001\", \"127.0.0.1:7002\"]\nworker: [\"127.0.0.1:7003\"]\n");
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> said;
  };
  const std::vector<Case> cases = {
      {{}, {"--cluster", "--task", "TF_CONFIG", "--port"}},
      {{"--host", "0.0.0.0", "--port", "0"}, {"no secret", "--secret-file", "--insecure"}},
      {{"--cluster", cluster}, {"--task"}},
      {{"--cluster", cluster, "--task", "2"}, {"--task 2", "2 tasks", "ps"}},
      {{"--cluster", files.Path("none.yaml"), "--task", "0"}, {"none.yaml"}},
      {{"--port", "65536"}, {"65535"}},
      {{"--port", "0", "--log-level", "loud"}, {"loud", "warning"}},
      {{"--prot", "0"}, {"\"--prot\"", "did you mean \"--port\""}},
  };
  for (const Case& c : cases) {
    std::vector<std::string> command = {COXSWAIN_BINARY_DIR "/bin/coxswain-ps"};
    command.insert(command.end(), c.arguments.begin(), c.arguments.end());
    const Process::Environment no_secret = {{"COXSWAIN_SECRET_FILE", ""},
                                            {"XDG_CONFIG_HOME", files.Path("config")}};
    const auto result = Run(command, no_secret, absl::Seconds(20));
    CAPTURE(c.arguments, result.out, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Catch::Matchers::StartsWith("error: "));
    for (const std::string& text : c.said) CHECK_THAT(result.err, Contains(text));
  }
  Process first({COXSWAIN_BINARY_DIR "/bin/coxswain-ps", "--port", "0"});
  const std::string address = AddressOf(first);
  const auto taken = Run(
      {COXSWAIN_BINARY_DIR "/bin/coxswain-ps", "--port", address.substr(address.rfind(':') + 1)},
      {}, absl::Seconds(20));
  CAPTURE(taken.err);
  CHECK(taken.code == 4);
  CHECK_THAT(taken.err, Contains(address));
}

TEST_CASE("tasks at each other's addresses are told by name", "[cluster]") {
  const DataFiles files;
  Daemons daemons(files, 1, 1);
  const std::string swapped = files.Write(
      "swapped.yaml", absl::StrCat("ps: [\"", daemons.config().workers[0], "\"]\nworker: [\"",
                                   daemons.config().ps[0], "\"]\n"));
  const auto result = Coxswain(
      {"train", WriteMatrixFactorization(files), "--cluster", swapped, "--connect-timeout", "1"});
  CAPTURE(result.err);
  CHECK(result.code == 4);
  CHECK_THAT(result.err, Contains("the cluster names it /job:ps/task:0") &&
                             Contains("it says that it is /job:worker/task:0"));
}

}  // namespace
}  // namespace coxswain
