// A training job in a simulated world: the processes of its cluster and the program that drives the
// production Controller, as a user's program would, on virtual time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/controller.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/cluster/daemon.h"
#include "tests/sim/site.h"
#include "tests/sim/workload.h"

namespace coxswain::sim {

struct JobOptions {
  int ps = 2;
  int workers = 3;
  int in_flight = 2;
  int window = 16;  // closures that are scheduled and not over
  absl::Duration lease = absl::Seconds(2);
  absl::Duration connect_timeout = absl::Seconds(10);
  RecoveryOptions recovery;
  // How long a worker's task takes, mean; not set: as everywhere.
  std::optional<absl::Duration> worker_task_time;
  bool checkpoints = false;
  CheckpointOptions checkpoint;
  // Not below 0: none of the closures that are no synchronous steps starts while the oldest is
  // behind by more.
  int64_t max_staleness = -1;
  // A closure that kills each worker that gets it, by index; -1: none is so. It must be given up,
  // and no other.
  int64_t poison = -1;
  // The same, but its frames break the connection to the PS that gets them.
  int64_t tearing = -1;
  // Closures that are too large to be sent, or have results that are: they fail, and no others.
  std::set<int64_t> too_large;
  // How many closures the program cancels, or gives a deadline. One of a synchronous step ends with
  // all of it, where none of it has begun.
  double cancels = 0, deadlines = 0;
  // It hangs where it runs, rather than to kill.
  bool poison_hangs = false;
  int gpus = 0;             // of each worker; fake ones
  double gpu_breaks = 0.0;  // how many GPUs are lost if they are used for long
  // How many lives of ps:0 but its first, of several PS, have hardly any memory for tables.
  double small_gpus = 0.0;
  bool gpu_tables = false;  // each PS has one, and tables that can be there are in its memory
  bool pins = false;        // each node that can is pinned to one of the worker's GPUs
  bool moves = false;       // some shards go to any PS at some checkpoints
  // The program tries to start its checkpoints again, and saves, at any time.
  bool starts_twice = false;
  // It reads all when its closures are over, whatever fails then, sometimes after a join.
  bool reads_at_once = false;
};

class Job;

// The coordinator's process: one run of the program, from the newest checkpoint on.
class CoordinatorProcess final : public Process {
 public:
  CoordinatorProcess(Job* job, const Place& place);
  ~CoordinatorProcess() override;
  void Start() override;

  // All closures are over; the rest is up to Verify.
  bool trained() const { return trained_; }
  bool verifying() const { return verifying_; }
  void set_verifying() { verifying_ = true; }
  ClosureId oldest_open() const { return open_.empty() ? ClosureId(0) : *open_.begin(); }
  // How far it is, for people.
  std::string Describe() const;
  // Reads the final state and has it checked; the job is finished when it is good.
  void Verify();
  // As the operator's `add-worker` or a new cluster file.
  void UpdateWorkers(std::vector<std::string> addresses);

 private:
  // The callback does nothing once this process is dead or replaced.
  template <typename Fn>
  auto Guard(Fn fn);
  // Looks for the newest good checkpoint; false when there are some and none is good.
  bool FindCheckpoint();
  // The program ends with an error; whoever started it starts it again.
  void Exit(const std::string& why, const absl::Status& status);
  // The last one that got the cluster. Another one that still stands there, or goes on until it
  // notices, changes nothing in what counts.
  bool in_charge() const;
  // Whether it got the cluster after all others that have heard that they did.
  bool GotItLast() const;
  void OnStarted(const absl::Status& status);
  // Whether checkpoints can be written, as programs do before they begin.
  void TryDirectory();
  void CreateNext();
  void RegisterNext();
  void Train();
  bool LockDirectory(const std::string& directory);
  void Resume();
  void BeginClosures();
  // Now and again, until all is scheduled.
  void StartTwice();
  // The manifest's closures, from this one on.
  void ScheduleResumed(size_t from);
  void ScheduleMore();
  void Schedule(core::ClosureSpec spec);
  void ScheduleStep(int64_t closures);
  // The closure may get a deadline, and may be cancelled after a while, by its number; null where
  // it is not.
  core::Controller::ClosureNumber MayEndEarly(core::ClosureSpec* spec);
  void OnClosureDone(ClosureId id, const absl::Status& status);
  // job_tickets.cc
  bool tickets() const;
  std::string TicketState() const;
  void ReadTickets();
  core::Controller::ResultFn TicketTeller(const core::ClosureSpec& spec);
  void ScheduleResumedTicket(core::ClosureSpec spec);
  void ScheduleTickets();
  void OnTicketDone(ClosureId id, int64_t ticket, const absl::Status& status);
  void OnQuarantined(ClosureId id);
  // False: that was not asked for.
  bool OnEndedEarly(ClosureId id, const absl::Status& status);
  // Row writes. True: those before closure `next_` are there. Else they are made when nothing is
  // open, and ScheduleMore is called.
  bool WrittenBefore();
  void WriteNext(std::vector<RowWrite> writes, size_t at, std::function<void()> then);
  void WriteBeside();
  void Write(const RowWrite& write, std::function<void()> then);
  // job_reads.cc
  void ReadAtOnce();
  void ReadAfterJoin();
  void ReadOver(size_t shard);
  // What it read then, where that is none of the final state.
  std::string WrongReads() const;
  void CheckSettled();
  void ReadNext();
  void CannotRead(const absl::Status& status);

  Job* const job_;
  const Place place_;
  std::unique_ptr<core::Controller> controller_;
  bool resumed_ = false;
  checkpoint::Manifest manifest_;  // if resumed
  std::string manifest_path_;
  std::shared_ptr<env::FileLock> lock_;  // on the directory of checkpoints; null: the disk was full
  std::vector<proto::ShardSpec> shards_;
  size_t created_ = 0;     // of shards_, in their order
  size_t registered_ = 0;  // per-worker values, then functions
  int64_t next_ = 0;       // closure to schedule, by index
  std::set<ClosureId> open_;
  bool all_resumed_ = false;  // the manifest's closures are scheduled
  struct Tickets {
    std::deque<int64_t> waiting;  // to be scheduled
    std::set<int64_t> done;
  };
  Tickets tickets_;
  int64_t written_before_ = -1;  // the closure before which rows were written last
  bool writing_ = false;         // such rows
  struct WritesBeside {
    std::vector<RowWrite> all;
    size_t written = 0;  // of them
  };
  WritesBeside beside_;
  int checkpoints_since_write_ = 2;  // that were written since rows were
  int saving_ = 0;                   // checkpoints that the program waits for
  bool trained_ = false;
  bool verifying_ = false;
  int64_t ps_lost_before_ = 0;
  std::set<int64_t> failed_;  // closures that were too large, by index
  std::set<int64_t> undone_;  // see FinalState
  FinalState final_;
  std::vector<Tensor> read_at_once_;  // by shard; nothing of hash tables
};

class Job {
 public:
  // Adds the nodes to the site: the coordinator, the PS, the workers.
  Job(Site* site, JobOptions options, std::unique_ptr<Workload> workload);

  void StartAll();
  bool finished() const { return finished_; }
  // The coordinator of now; null when it is down.
  CoordinatorProcess* coordinator() const;

  int coordinator_node() const { return coordinator_node_; }
  const std::vector<int>& ps_nodes() const { return ps_nodes_; }
  const std::vector<int>& worker_nodes() const { return worker_nodes_; }
  // One more worker machine; it joins when the coordinator is told.
  int AddWorkerNode();
  // A machine from which another program wants the cluster, when it is started.
  int AddRivalNode();
  // Of the coordinators that start from now on.
  void set_workers(std::vector<std::string> addresses) { worker_addresses_ = std::move(addresses); }
  const std::vector<std::string>& worker_addresses() const { return worker_addresses_; }
  // The number of PS that coordinators use from their next start on.
  void set_ps(int ps) { ps_used_ = ps; }

  // A bit of a checkpoint was flipped: a program that needs that one may end, and start again from
  // the one before.
  bool checkpoint_damaged = false;
  // The coordinator was killed or replaced at least once, so its own counts begin anew.
  bool restarted = false;

  // What all coordinators counted, as far as they were asked.
  struct Totals {
    int64_t coordinators = 0;
    int64_t exits = 0;
    int64_t resumes = 0;
    int64_t reruns = 0;
    int64_t checkpoints = 0;
    int64_t moves = 0;
    int64_t ps_recoveries = 0;
    int64_t updates_lost = 0;
    int64_t duplicates = 0;
    int64_t retried = 0;
    int64_t workers_lost = 0;
    int64_t poisoned = 0;   // of them
    int64_t torn = 0;       // connections to PS that a closure broke
    int64_t too_large = 0;  // closures
    int64_t gpus_lost = 0;
    int64_t gpu_shards = 0;    // that were to be in the memory of GPUs
    int64_t without_room = 0;  // waits of shards for memory
    int64_t quarantined = 0;
    int64_t rivals = 0, rivals_held = 0;  // started; those that got the cluster
    int64_t timeouts = 0;
    int64_t surplus = 0;  // closures that their steps did without
    int64_t directories_tried = 0;
    int64_t starts_refused = 0, saved = 0;       // of checkpoints; those that the program asked for
    int64_t writes = 0;                          // of rows, those that were made again included
    int64_t ended_early = 0, ended_unknown = 0;  // closures; those of which no more is known
    int64_t read_at_once = 0, read_back = 0;     // shards; in reads that shards went back in
  };
  Totals totals;

 private:
  friend class CoordinatorProcess;
  void WatchStaleness();
  void Poison(int64_t closure);
  void Hang(int64_t closure);
  void Tear(int64_t closure);
  static cluster::DaemonOptions OptionsOf(const std::string& job, int task,
                                          const std::string& address);
  // One for the tables of a PS, if it is to have one.
  void AddGpuForTables(const Place& place, int ps, cluster::DaemonOptions* daemon);
  std::function<void(absl::Status)> KillsWithGpu(const Place& place, const std::vector<int>* nodes,
                                                 int task);
  // Those that can be in the memory of GPUs are to be there.
  void PutOnGpus(std::vector<proto::ShardSpec>* shards);
  // Fake ones, for a life of a worker.
  void AddGpus(const Place& place, int worker, cluster::DaemonOptions* daemon);
  Site* const site_;
  const JobOptions options_;
  const std::unique_ptr<Workload> workload_;
  int coordinator_node_ = 0, rival_node_ = -1;
  std::vector<int> ps_nodes_, worker_nodes_;
  std::vector<std::string> worker_addresses_;
  int ps_used_ = 0;
  struct InCharge {
    LifePtr coordinator;
    Epoch epoch = 0;          // of its session
    std::vector<LifePtr> ps;  // when it heard that it has them; null: down
  };
  InCharge in_charge_;
  int gpus_for_tables_ = 0;                // lives of ps:0 that had one
  std::map<int64_t, Effect> ended_early_;  // closures, by index
  bool finished_ = false;
};

inline bool CoordinatorProcess::in_charge() const {
  return job_->in_charge_.coordinator == place_.life;
}

inline bool CoordinatorProcess::tickets() const {
  return job_->workload_->TicketSteps().has_value();
}

template <typename Fn>
auto CoordinatorProcess::Guard(Fn fn) {
  return [life = place_.life, fn = std::move(fn)](auto&&... arguments) mutable {
    if (life->alive) fn(std::forward<decltype(arguments)>(arguments)...);
  };
}

}  // namespace coxswain::sim
