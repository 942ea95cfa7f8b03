// Workers that join and leave while a job runs.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/api/task_statuses.h"
#include "coordinator/observe/observer.h"
#include "protos/control.pb.h"
#include "runtime/checkpoint/checkpoint_lock.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/env/file_system.h"
#include "tests/integration/fault_cluster.h"
#include "tests/integration/jobs.h"
#include "tests/testing/paths.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Kind = ClusterEvent::Kind;
using Addresses = std::vector<std::string>;

std::string Worker(int task) { return FaultCluster::Worker(task); }

Addresses First(const Addresses& addresses, size_t count) {
  return {addresses.begin(), addresses.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::unique_ptr<Process> StartWorker(int task) {
  return std::make_unique<Process>(
      std::vector<std::string>{COXSWAIN_BINARY_DIR "/bin/coxswain-worker", "--port", "0", "--task",
                               absl::StrCat(task), "--exit-with-parent"});
}

// A program's cluster that begins with the first of the workers.
struct ElasticCluster {
  ElasticCluster(int ps, int workers, size_t first)
      : daemons(files, ps, workers), cluster(ConnectTo(first)) {}

  const Addresses& workers() const { return daemons.config().workers; }
  void Update(const Addresses& addresses) const { MustBeOk(cluster.UpdateWorkers(addresses)); }
  void ExpectJoined(int worker, int times) const {
    const bool joined = events.Await(Kind::kWorkerJoined, Worker(worker), times);
    INFO(events.ToString());
    REQUIRE(joined);
  }
  uint64_t ClosuresRun(int worker) const {
    for (const proto::TaskStatus& task : TaskStatuses(cluster)) {
      if (task.job() == "worker" && task.task() == worker) return task.closures_run();
    }
    return 0;
  }
  // Gives the job steps until this worker has run some of them.
  void ExpectToWork(int worker, CountingJob* job) const {
    const uint64_t before = ClosuresRun(worker);
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (ClosuresRun(worker) <= before && absl::Now() < deadline) {
      job->Schedule(100);
      MustBeOk(job->Join());
    }
    CHECK(ClosuresRun(worker) > before);
    MustBeOk(job->Join());
  }

  DataFiles files;
  EventLog events;
  Daemons daemons;
  Cluster cluster;

 private:
  Cluster ConnectTo(size_t first) const {
    ClusterOptions options;
    options.on_event = events.Recorder();
    auto connected = Cluster::Connect(
        cluster::ClusterConfig{First(workers(), first), daemons.config().ps}, options);
    INFO(connected.status());
    REQUIRE(connected.ok());
    return *std::move(connected);
  }
};

// What a task says of itself to whoever asks.
proto::TaskStatus Ask(const std::string& address) {
  const auto transport = WithSecret(net::NewGrpcTransport());
  const auto answers = observe::ObserveTasks(transport.get(), {address}, absl::Seconds(5));
  return answers[0].ok() ? *answers[0] : proto::TaskStatus();
}

template <typename Condition>
bool AwaitTask(const std::string& address, Condition condition) {
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (absl::Now() < deadline) {
    if (condition(Ask(address))) return true;
  }
  return false;
}

bool AwaitFree(const std::string& address) {
  return AwaitTask(address, [](const proto::TaskStatus& s) {
    return s.job() == "worker" && s.held_by().empty();
  });
}
bool AwaitWork(const std::string& address) {
  const uint64_t before = Ask(address).closures_run();
  return AwaitTask(address,
                   [before](const proto::TaskStatus& s) { return s.closures_run() > before; });
}

std::string FileText(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteCluster(const DataFiles& files, const Addresses& workers, const Addresses& ps) {
  files.Write("cluster.yaml",
              absl::StrCat("# ours\nps: [", absl::StrJoin(ps, ", "), "]\nworker:\n  - ",
                           absl::StrJoin(workers, "\n  - "), "\n"));
}

// A job of the command line that has no end, with checkpoints, on a cluster file of its own.
class EndlessJob {
 public:
  EndlessJob(const DataFiles& files, const std::string& cluster_file)
      : checkpoints_(files.Path("checkpoints")),
        process_(CoxswainCommand(
            {"train", WriteMatrixFactorization(files), "--cluster", cluster_file,
             "--checkpoint-dir", checkpoints_, "--connect-timeout", "60", "--set", "train.epochs=",
             "--set", "train.steps=1000000000", "--set", "evaluate.every_epochs=1000000000"})) {}

  Process& process() { return process_; }

  // Until it has locked its checkpoints, which it does when it has read the cluster file.
  bool AwaitClusterFileRead() const {
    const auto files = env::NewRealFileSystem();
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (absl::Now() < deadline) {
      if (checkpoint::ReadCheckpointHolder(files.get(), checkpoints_).pid == process_.pid())
        return true;
      std::this_thread::yield();  // nothing tells when a file is there
    }
    return false;
  }

  // Ends it, and holds every shard's counter against the steps that were scheduled.
  void CheckAppliedOnce() {
    process_.Kill(SIGINT);
    const auto result = process_.Wait();
    CAPTURE(result.out, result.err);
    REQUIRE(result.code == 75);
    const auto files = env::NewRealFileSystem();
    const auto newest = checkpoint::NewestGoodCheckpoint(files.get(), checkpoints_, nullptr);
    REQUIRE(newest.ok());
    const checkpoint::Manifest& manifest = *newest->manifest;
    CHECK(manifest.steps > 0);
    CHECK(manifest.low_water == manifest.next_closure);  // it drained
    for (const proto::SavedShard& shard : manifest.shards) {
      CAPTURE(shard.shard().variable().name());
      CHECK(shard.applied() == manifest.steps);
    }
  }

 private:
  std::string checkpoints_;
  Process process_;
};

Process::Result Workers(const std::string& command, const std::string& file,
                        const Addresses& addresses, const std::string& timeout = "10") {
  std::vector<std::string> arguments = {command, "--cluster", file, "--timeout", timeout};
  arguments.insert(arguments.end(), addresses.begin(), addresses.end());
  return Coxswain(arguments);
}

TEST_CASE("a job on one worker gets two more, uses them, and goes down to one", "[elastic]") {
  ElasticCluster c(2, 3, 1);
  CountingJob job(c.cluster);
  job.Schedule(200);
  MustBeOk(job.Join());
  CHECK(c.cluster.num_workers() == 1);

  job.Schedule(1000);
  c.Update(c.workers());
  CHECK(c.cluster.num_workers() == 3);
  for (int worker : {1, 2}) {
    c.ExpectJoined(worker, 1);
    c.ExpectToWork(worker, &job);
  }
  job.CheckAppliedOnce();

  // They leave with closures in hand.
  job.Schedule(2000);
  c.Update(First(c.workers(), 1));
  job.Schedule(500);
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
  CHECK(c.cluster.Stats().workers == 1);
  // They were told, and wait for another coordinator.
  CHECK(AwaitFree(c.workers()[1]));
  CHECK(AwaitFree(c.workers()[2]));

  c.Update(c.workers());
  c.ExpectJoined(2, 2);
  c.ExpectToWork(2, &job);
  job.CheckAppliedOnce();
}

TEST_CASE("workers that come and go while steps run leave each step applied once", "[elastic]") {
  ElasticCluster c(2, 3, 2);
  CountingJob job(c.cluster);
  {
    Feeder feeder(&job);
    for (const size_t count : {3, 1, 2, 1, 3, 2, 3}) {
      const int64_t before = job.completed();
      c.Update(First(c.workers(), count));
      REQUIRE(job.AwaitCompleted(before + 200));
    }
  }
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
}

TEST_CASE("a worker that comes back at another address is taken in", "[elastic]") {
  ElasticCluster c(1, 2, 2);
  CountingJob job(c.cluster);
  job.Schedule(500);
  c.daemons.worker(1).Kill(SIGKILL);
  const auto moved = StartWorker(1);
  c.Update({c.workers()[0], AddressOf(*moved)});
  c.ExpectJoined(1, 1);
  c.ExpectToWork(1, &job);
  job.CheckAppliedOnce();
}

TEST_CASE("the only worker can be replaced by another", "[elastic]") {
  ElasticCluster c(1, 1, 1);
  CountingJob job(c.cluster);
  job.Schedule(500);
  const auto other = StartWorker(0);
  c.Update({AddressOf(*other)});
  job.Schedule(200);
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
  CHECK(AwaitFree(c.workers()[0]));
}

TEST_CASE("a list of workers that is no cluster's is refused and changes nothing", "[elastic]") {
  ElasticCluster c(1, 1, 1);
  const std::string& there = c.workers()[0];
  for (const Addresses& list :
       {Addresses{}, {there, there}, {there, "nowhere"}, {there, "host:0"}}) {
    CHECK(absl::IsInvalidArgument(c.cluster.UpdateWorkers(list)));
  }
  CHECK(c.cluster.num_workers() == 1);
  CountingJob job(c.cluster);
  job.Schedule(50);
  MustBeOk(job.Join());
  job.CheckAppliedOnce();
}

TEST_CASE("add-worker and remove-worker change the file and the job that runs with it",
          "[elastic]") {
  const DataFiles files;
  Daemons daemons(files, 2, 3);
  const Addresses& workers = daemons.config().workers;
  const std::string& file = daemons.cluster_file();
  WriteCluster(files, First(workers, 1), daemons.config().ps);
  EndlessJob job(files, file);
  REQUIRE(job.process().WaitForOutput(" steps"));

  const auto added = Workers("add-worker", file, {workers[1], workers[2]});
  CAPTURE(added.out, added.err);
  CHECK(added.code == 0);
  CHECK_THAT(added.out, Contains(workers[2] + " is worker:2\n") && Contains("was told"));
  CHECK(AwaitWork(workers[1]));
  CHECK(AwaitWork(workers[2]));
  CHECK(job.process().WaitForError("1 -> 3 workers"));

  const auto again = Workers("add-worker", file, {workers[2]});
  CHECK(again.code == 0);
  CHECK_THAT(again.out, Contains(workers[2] + " is worker:2 already"));
  CHECK(job.process().WaitForError("has the same workers as before"));

  const auto middle = Workers("remove-worker", file, {workers[1]});
  CHECK(middle.code == 2);
  CHECK_THAT(middle.err, Contains("only workers at the end") && Contains("worker:2"));
  const auto removed = Workers("remove-worker", file, {workers[1], workers[2]});
  CHECK(removed.code == 0);
  CHECK(AwaitFree(workers[1]));
  CHECK(AwaitFree(workers[2]));
  CHECK(FileText(file) == absl::StrCat("# ours\nps: [", absl::StrJoin(daemons.config().ps, ", "),
                                       "]\nworker:\n  - ", workers[0], "\n"));
  CHECK(AwaitWork(workers[0]));
  job.CheckAppliedOnce();
}

TEST_CASE("on SIGHUP a worker that moved is taken in, and a bad file changes nothing",
          "[elastic]") {
  const DataFiles files;
  Daemons daemons(files, 1, 2);
  const Addresses& workers = daemons.config().workers;
  EndlessJob job(files, daemons.cluster_file());
  REQUIRE(job.process().WaitForOutput(" steps"));

  files.Write("cluster.yaml", "ps: [p:1]\nworker: [a:1, 'b']\n");
  job.process().Kill(SIGHUP);
  CHECK(job.process().WaitForError("cluster.yaml:2:15: wanted 'host:port', found 'b'"));
  CHECK(job.process().WaitForError("the workers stay as they are"));
  WriteCluster(files, workers, {daemons.config().ps[0], "127.0.0.1:1"});
  job.process().Kill(SIGHUP);
  CHECK(job.process().WaitForError("parameter servers of a job that runs cannot be changed"));
  CHECK(AwaitWork(workers[1]));

  daemons.worker(1).Kill(SIGKILL);
  const auto moved = StartWorker(1);
  WriteCluster(files, {workers[0], AddressOf(*moved)}, daemons.config().ps);
  job.process().Kill(SIGHUP);
  CHECK(AwaitWork(AddressOf(*moved)));
  CHECK(job.process().WaitForError("/job:worker/task:1 joins at " + AddressOf(*moved)));
  job.CheckAppliedOnce();
}

TEST_CASE("a worker that is added before the cluster is complete is not forgotten", "[elastic]") {
  const DataFiles files;
  Daemons daemons(files, 1, 2);
  const Addresses& workers = daemons.config().workers;
  daemons.ps(0).Kill(SIGKILL);
  WriteCluster(files, First(workers, 1), daemons.config().ps);
  EndlessJob job(files, daemons.cluster_file());
  // It waits for its parameter server, and holds no task before it has that.
  REQUIRE(job.AwaitClusterFileRead());
  const auto added = Workers("add-worker", daemons.cluster_file(), {workers[1]}, "2");
  CAPTURE(added.out, added.err);
  CHECK_THAT(added.out, Contains("reads the file again when it has it"));
  daemons.RestartPs(0);
  CHECK(AwaitWork(workers[1]));
  CHECK(job.process().WaitForError("1 -> 2 workers"));
  job.CheckAppliedOnce();
}

TEST_CASE("add-worker says who is to be told when it cannot do so", "[elastic]") {
  ElasticCluster c(1, 2, 1);
  WriteCluster(c.files, First(c.workers(), 1), c.daemons.config().ps);
  const std::string& file = c.daemons.cluster_file();
  const auto added = Workers("add-worker", file, {c.workers()[1], "127.0.0.1:1"}, "2");
  CAPTURE(added.out, added.err);
  CHECK(added.code == 0);
  CHECK_THAT(added.out, Contains(absl::StrCat("process ", getpid(), ", which holds the cluster")) &&
                            Contains("Cluster::UpdateWorkers"));
  CHECK_THAT(added.out, Contains("127.0.0.1:1 is worker:2; nobody answers there yet: "
                                 "coxswain-worker --cluster " +
                                 file + " --task 2"));
}

TEST_CASE("workers that are added by several at once are all there", "[elastic]") {
  const DataFiles files;
  WriteCluster(files, {"127.0.0.1:1"}, {"127.0.0.1:2"});
  const std::string file = files.Path("cluster.yaml");
  std::vector<std::unique_ptr<Process>> commands;
  Addresses wanted = {"127.0.0.1:1"};
  for (int i = 0; i < 5; ++i) {
    wanted.push_back(absl::StrCat("127.0.0.1:", 3 + i));
    commands.push_back(std::make_unique<Process>(
        CoxswainCommand({"add-worker", wanted.back(), "--cluster", file, "--timeout", "0.1"})));
  }
  for (auto& command : commands) {
    const auto result = command->Wait();
    CAPTURE(result.out, result.err);
    CHECK(result.code == 0);
    CHECK_THAT(result.out, Contains("no daemon of the cluster answers"));
  }
  auto config = cluster::ReadClusterConfig(file);
  REQUIRE(config.ok());
  std::sort(config->workers.begin(), config->workers.end());
  CHECK(config->workers == wanted);
  CHECK_THAT(FileText(file), Contains("# ours\n"));
}

TEST_CASE("what cannot be added or removed is named, and the file stays as it is", "[elastic]") {
  const DataFiles files;
  WriteCluster(files, {"127.0.0.1:1"}, {"127.0.0.1:2"});
  const std::string file = files.Path("cluster.yaml"), before = FileText(file);
  const auto check = [&](const Process::Result& result, const std::string& message) {
    CAPTURE(result.out);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(message));
    CHECK(FileText(file) == before);
  };
  check(Workers("add-worker", file, {"127.0.0.1:5", "here"}), "'here': there is no port");
  check(Workers("add-worker", file, {"127.0.0.1:2"}), "is ps:0 in");
  check(Workers("remove-worker", file, {"127.0.0.1:1"}), "a cluster has one at least");
  check(Workers("add-worker", files.Path("none.yaml"), {"127.0.0.1:5"}), "none.yaml");
  const auto stranger = Workers("remove-worker", file, {"127.0.0.1:9"}, "0.1");
  CHECK(stranger.code == 0);
  CHECK_THAT(stranger.out, Contains("127.0.0.1:9 is no worker of"));
}

}  // namespace
}  // namespace coxswain
