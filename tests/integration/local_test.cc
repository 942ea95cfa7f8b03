// Clusters whose daemons this program starts itself: Cluster::Local and `--local`.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "coordinator/api/task_statuses.h"
#include "coordinator/observe/observer.h"
#include "protos/control.pb.h"
#include "runtime/base/status.h"
#include "runtime/net/secret.h"
#include "runtime/net/secret_transport.h"
#include "runtime/net/transport.h"
#include "runtime/net/unique_fd.h"
#include "tests/integration/fault_cluster.h"
#include "tests/testing/paths.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Kind = ClusterEvent::Kind;

constexpr char kPrograms[] = COXSWAIN_BINARY_DIR "/bin";

ClusterOptions LocalOptions(const EventLog& events) {
  ClusterOptions options;
  options.daemon_directory = kPrograms;
  options.on_event = events.Recorder();
  return options;
}

Cluster StartLocal(int ps, int workers, const ClusterOptions& options) {
  auto cluster = Cluster::Local(ps, workers, options);
  INFO(cluster.status());
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

void Expect(const EventLog& events, Kind kind, const std::string& task, int times) {
  const bool happened = events.Await(kind, task, times);
  CAPTURE(static_cast<int>(kind), task, times, events.ToString());
  REQUIRE(happened);
}

// Of a task that answers.
pid_t PidOf(const Cluster& cluster, const std::string& job, int task) {
  for (const proto::TaskStatus& status : TaskStatuses(cluster)) {
    if (status.job() == job && status.task() == task) return static_cast<pid_t>(status.pid());
  }
  FAIL("no answer from " << job << ":" << task);
  return -1;
}

// A process's command line; empty when it has ended.
std::vector<std::string> FlagsOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/cmdline"), std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return absl::StrSplit(text.str(), '\0', absl::SkipEmpty());
}

// What the process was given with `flag`.
std::string FlagOf(pid_t pid, const std::string& flag) {
  const std::vector<std::string> words = FlagsOf(pid);
  const auto it = std::find(words.begin(), words.end(), flag);
  REQUIRE(words.end() - it >= 2);
  return it[1];
}

// The processes that this one, by any of its threads, has started and that run.
std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> children;
  std::error_code error;
  for (const auto& thread :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"), error)) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child; file >> child;) children.push_back(child);
  }
  return children;
}

// A directory with the two programs, of which the worker's, when it is started, ends with code 7 if
// this directory has a file `broken`, and does nothing if it has a file `asleep`.
std::string ProgramsThatMayBreak(const DataFiles& files) {
  const std::string script =
      files.Write("coxswain-worker", absl::StrCat("#!/bin/sh\ncd ", files.Path(""),
                                                  "\n[ -e broken ] && exit 7\n"
                                                  "[ -e asleep ] && exec sleep 1000\nexec ",
                                                  kPrograms, "/coxswain-worker \"$@\"\n"));
  REQUIRE(chmod(script.c_str(), 0755) == 0);
  std::error_code error;
  std::filesystem::create_symlink(absl::StrCat(kPrograms, "/coxswain-ps"),
                                  files.Path("coxswain-ps"), error);
  REQUIRE_FALSE(error);
  return files.Path("");
}

TEST_CASE("a local parameter server that is killed is started again; each step is applied once",
          "[local]") {
  EventLog events;
  const Cluster cluster = StartLocal(2, 2, LocalOptions(events));
  CountingJob job(cluster);
  job.Schedule(300);
  REQUIRE(job.AwaitCompleted(10));
  const pid_t before = PidOf(cluster, "ps", 1);
  REQUIRE(kill(before, SIGKILL) == 0);
  Expect(events, Kind::kTaskEnded, "/job:ps/task:1", 1);
  Expect(events, Kind::kRecovered, "", 1);
  job.Schedule(300);
  MustBeOk(job.Join());
  MustBeOk(cluster.WaitUntilSettled());
  job.CheckAppliedOnce();
  CHECK_THAT(events.ToString(), Contains("was ended by signal 9 (Killed); it is started again"));
  // It serves, where one that was given up would hold nothing.
  CHECK(PidOf(cluster, "ps", 1) != before);
  int holding = 0;
  for (const auto& task : TaskStatuses(cluster))
    holding += task.job() == "ps" && task.shards_size() > 0;
  CHECK(holding == 2);
}

TEST_CASE("local workers that are all killed at once come back and do the work", "[local]") {
  EventLog events;
  const Cluster cluster = StartLocal(1, 2, LocalOptions(events));
  CountingJob job(cluster);
  job.Schedule(300);
  REQUIRE(job.AwaitCompleted(10));
  const pid_t first = PidOf(cluster, "worker", 0), second = PidOf(cluster, "worker", 1);
  REQUIRE(kill(first, SIGKILL) == 0);
  REQUIRE(kill(second, SIGKILL) == 0);
  for (const char* worker : {"/job:worker/task:0", "/job:worker/task:1"}) {
    Expect(events, Kind::kTaskEnded, worker, 1);
    Expect(events, Kind::kWorkerJoined, worker, 1);
  }
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
  CHECK(cluster.Stats().workers_ready == 2);
}

TEST_CASE("when no local worker can be started again the job says so at once", "[local]") {
  const DataFiles files;
  EventLog events;
  ClusterOptions options = LocalOptions(events);
  options.daemon_directory = ProgramsThatMayBreak(files);
  options.local_restarts = 2;
  const Cluster cluster = StartLocal(1, 1, options);
  CountingJob job(cluster);
  job.Schedule(100);
  REQUIRE(job.AwaitCompleted(1));
  files.Write("broken", "");
  REQUIRE(kill(PidOf(cluster, "worker", 0), SIGKILL) == 0);
  // RecoveryOptions::cluster_timeout, 10 minutes, would be the wait of a cluster of others.
  job.Schedule(100);
  const absl::Status joined = job.Join();
  REQUIRE_FALSE(joined.ok());
  CHECK(events.Count(Kind::kTaskEnded, "/job:worker/task:0") == 3);
  CHECK_THAT(std::string(joined.message()),
             Contains("no worker is left") && Contains("ended with code 7") && Contains("2 times"));
  CHECK(GetDetail(joined)->cause == ErrorCause::kTaskLost);
}

TEST_CASE("a local task that is not started again leaves the work to the others", "[local]") {
  EventLog events;
  ClusterOptions options = LocalOptions(events);
  options.local_restarts = 0;
  options.recovery.ps_return_timeout = absl::Milliseconds(200);
  const Cluster cluster = StartLocal(2, 2, options);
  CountingJob job(cluster);
  job.Schedule(300);
  REQUIRE(job.AwaitCompleted(10));
  REQUIRE(kill(PidOf(cluster, "worker", 1), SIGKILL) == 0);
  REQUIRE(kill(PidOf(cluster, "ps", 0), SIGKILL) == 0);
  Expect(events, Kind::kTaskEnded, "/job:worker/task:1", 1);
  Expect(events, Kind::kTaskEnded, "/job:ps/task:0", 1);
  Expect(events, Kind::kRecovered, "", 1);
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
}

TEST_CASE("a stranger at the address of a local task that has ended is not taken for it",
          "[local]") {
  const DataFiles files;
  EventLog events;
  ClusterOptions options = LocalOptions(events);
  options.daemon_directory = ProgramsThatMayBreak(files);
  const Cluster cluster = StartLocal(1, 1, options);
  CountingJob job(cluster);
  job.Schedule(100);
  MustBeOk(job.Join());
  const pid_t pid = PidOf(cluster, "worker", 0);
  const std::string name = FlagOf(pid, "--local-socket");
  // Even one that has the cluster's secret, which this process keeps open for its children.
  const std::string secret = absl::StrCat("/proc/self/fd/", FlagOf(pid, "--secret-fd"));
  const net::UniqueFd for_stranger(open(secret.c_str(), O_RDONLY));
  const auto ours = net::Secret::ReadDescriptor(open(secret.c_str(), O_RDONLY | O_CLOEXEC));
  MustBeOk(ours.status());
  files.Write("asleep", "");  // what is started now in its place never listens
  REQUIRE(kill(pid, SIGKILL) == 0);
  Expect(events, Kind::kWorkerLost, "/job:worker/task:0", 1);
  std::optional<Process> stranger;
  stranger.emplace(std::vector<std::string>{
      absl::StrCat(kPrograms, "/coxswain-worker"), "--task", "0", "--local-socket", name,
      "--secret-fd", absl::StrCat(for_stranger.get()), "--exit-with-parent"});
  const std::string address = AddressOf(*stranger);
  job.Schedule(100);
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (!absl::StrContains(cluster.Stats().waiting_for, "was restarted") &&
         absl::Now() < deadline) {
  }
  CHECK_THAT(cluster.Stats().waiting_for, Contains("/job:worker/task:0 was restarted"));
  const auto transport = net::NewSecretTransport(net::NewHostTransport(), *ours);
  const auto answers = observe::ObserveTasks(transport.get(), {address}, absl::Seconds(20));
  MustBeOk(answers[0].status());
  CHECK(answers[0]->held_by().empty());
  CHECK(answers[0]->closures_run() == 0);
  // It goes, and the keeper's own comes up at last.
  stranger.reset();
  REQUIRE(unlink(files.Path("asleep").c_str()) == 0);
  for (const pid_t child : ChildrenOf(getpid())) {
    if (FlagsOf(child) == std::vector<std::string>{"sleep", "1000"}) kill(child, SIGKILL);
  }
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
}

TEST_CASE("a local cluster outlives the thread that started it", "[local]") {
  EventLog events;
  absl::StatusOr<Cluster> cluster = absl::UnknownError("not started");
  std::thread([&] { cluster = Cluster::Local(1, 1, LocalOptions(events)); }).join();
  MustBeOk(cluster.status());
  CountingJob job(*cluster);
  job.Schedule(200);
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
  CHECK(events.Count(Kind::kTaskEnded, "/job:ps/task:0") == 0);
  CHECK(events.Count(Kind::kTaskEnded, "/job:worker/task:0") == 0);
}

// The one of them that runs `program`; fails the test when there is none.
pid_t ChildThatRuns(const std::string& program, const Process& process) {
  for (const pid_t child : ChildrenOf(process.pid())) {
    std::error_code error;
    const auto path = std::filesystem::read_symlink(absl::StrCat("/proc/", child, "/exe"), error);
    if (!error && path.filename() == program) return child;
  }
  FAIL("no " << program);
  return -1;
}

TEST_CASE("a job with --local goes on when its only parameter server and worker are killed",
          "[local]") {
  const DataFiles files;
  const std::string report = files.Path("report.json");
  Process job(
      CoxswainCommand({"train", WriteMatrixFactorization(files), "--local", "1x1", "--report",
                       report, "--set", "train.epochs=300", "--set", "evaluate.every_epochs=300"}));
  REQUIRE(job.WaitForOutput(" steps"));
  REQUIRE(kill(ChildThatRuns("coxswain-ps", job), SIGKILL) == 0);
  REQUIRE(job.WaitForError("/job:ps/task:0 was ended by signal 9 (Killed); it is started again"));
  REQUIRE(job.WaitForError("recovered: "));
  REQUIRE(kill(ChildThatRuns("coxswain-worker", job), SIGKILL) == 0);
  const auto result = job.Wait();
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.err, Contains("/job:worker/task:0 was ended by signal 9 (Killed)"));
  const nlohmann::json json = ReadJson(report);
  CHECK(json["updates"]["applied"] == json["steps"]);
  CHECK(json["examples"] == 300 * (600 - json["evaluated"]["examples"].get<int64_t>()));
}

TEST_CASE(
    "the daemons of a job with --local end with it, also when it is killed or they stand still",
    "[local]") {
  const DataFiles files;
  Process job(CoxswainCommand({"train", WriteMatrixFactorization(files), "--local", "1x2", "--set",
                               "train.epochs=", "--set", "train.steps=1000000000"}));
  REQUIRE(job.WaitForOutput(" steps"));
  const std::vector<pid_t> daemons = ChildrenOf(job.pid());
  REQUIRE(daemons.size() == 3);
  REQUIRE(kill(daemons[2], SIGSTOP) == 0);
  job.Kill(SIGKILL);
  job.Wait();
  for (const pid_t daemon : daemons) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    // Nobody but init may collect it: it is over when its memory is gone.
    const auto gone = [&] { return FlagsOf(daemon).empty(); };
    while (!gone() && absl::Now() < deadline) {
    }
    CHECK(gone());
  }
}

TEST_CASE("daemons that are not where they are looked for: the error says what names the place",
          "[local]") {
  const DataFiles files;
  ClusterOptions options;
  options.daemon_directory = files.Path("nowhere");
  const absl::Status status = Cluster::Local(1, 1, options).status();
  CHECK(absl::IsNotFound(status));
  CHECK_THAT(std::string(status.message()),
             Contains("nowhere/coxswain-ps") && Contains("ClusterOptions::daemon_directory"));
}

}  // namespace
}  // namespace coxswain
