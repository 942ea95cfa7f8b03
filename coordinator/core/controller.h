// The coordinator: holds the cluster, keeps track of shards, plans and data sets, and runs
// closures.
//
// Everything is asynchronous: calls return at once and report through callbacks, on the
// controller's loop. The blocking interface for programs is coordinator/api. All calls are
// thread-safe: they post to the loop.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/core/checkpoints.h"
#include "coordinator/core/closure.h"
#include "coordinator/core/closure_table.h"
#include "coordinator/core/cluster_layout.h"
#include "coordinator/core/cluster_tasks.h"
#include "coordinator/core/controller_options.h"
#include "coordinator/core/dataset_table.h"
#include "coordinator/core/failure_log.h"
#include "coordinator/core/gather.h"
#include "coordinator/core/lifecycle.h"
#include "coordinator/core/long_waits.h"
#include "coordinator/core/owned_loop.h"
#include "coordinator/core/plan_table.h"
#include "coordinator/core/ps_recovery.h"
#include "coordinator/core/session_hold.h"
#include "coordinator/core/shard_moves.h"
#include "coordinator/core/step_pause.h"
#include "coordinator/core/task_session.h"
#include "coordinator/core/values_table.h"
#include "coordinator/core/worker_table.h"
#include "coxswain/checkpoint.h"
#include "protos/control.pb.h"
#include "runtime/base/session_id.h"
#include "runtime/function/partition.h"
#include "runtime/trace/recorder.h"

namespace coxswain::core {

class Controller {
 public:
  using DoneFn = std::function<void(absl::Status)>;
  using ResultFn = ClosureTable::ResultFn;

  // `env` and `transport` must outlive the controller.
  Controller(env::Env* env, net::Transport* transport, ControllerOptions options);
  // Fails requests under way and says goodbye to the daemons (unless Abandon was called).
  ~Controller();

  // Ends at once, as a crash would, without a goodbye. Requests under way may report errors
  // meanwhile; afterwards only the destructor may be called.
  void Abandon();

  // Connects. `done` is OK once all PS and at least one worker are connected (all workers, if they
  // come in time). The session's epoch is one more than the highest that any task knows. If several
  // coordinators start at the same time, one gets the cluster, because all claim the same PS before
  // any other task. Errors: Unavailable with cause kUnreachable, naming the missing tasks; or the
  // refusal of a task (kClusterHeld). After an error, destroy the controller: that releases the
  // tasks that it holds.
  void Start(DoneFn done);

  // Creates shards on the PS that each spec names, or restores them when Resume gave a checkpoint
  // that has them. A PS that is lost meanwhile is not an error: recovery creates the shards.
  // Errors: those of a PS; InvalidArgument when a checkpoint has the shard with another shape.
  void CreateShards(std::vector<proto::ShardSpec> shards, DoneFn done);
  // Places and partitions the function and registers it. `done` is called when all PS and all
  // connected workers have it. Errors: InvalidArgument naming the invalid node; those of a task;
  // Cancelled when it was released before tasks were told of it.
  void RegisterPlan(PlanId plan, std::shared_ptr<const graph::Function> function,
                    std::vector<proto::ArgumentSource> sources, DatasetId dataset, DoneFn done);
  // Returns a function to call when nobody can schedule the plan any more. Tasks forget the plan
  // once none of its closures is open or may have to run again after the loss of a PS. It may be
  // called on any thread, even when the controller is gone.
  std::function<void()> PlanReleaser(PlanId plan);
  // `done` is called when all connected workers have loaded the data set. Replaces the data set
  // with this number, if there is one. Errors: those of a worker; DataLoss for one that has loaded
  // other data.
  void RegisterDataset(DatasetId dataset, DatasetSource source, DoneFn done);
  // What says that nobody schedules on it any more: it goes when the last plan that reads it does.
  // No checkpoint names it from then on.
  std::function<void()> DatasetReleaser(DatasetId dataset);
  // Each worker runs the function, which reads no variable and no data set, and keeps its results:
  // plans may have them for arguments. A worker that comes later, or comes back, does so before it
  // gets closures. `done` is called when all connected workers have them. Errors: those of a
  // worker; then none keeps them.
  void RegisterValues(ValuesId values, std::shared_ptr<const graph::Function> function,
                      std::vector<Tensor> arguments, DoneFn done);
  // As PlanReleaser: workers forget the values when no plan has them for arguments.
  std::function<void()> ValuesReleaser(ValuesId values);
  // Data sets of the checkpoint that the program goes on from, and which it does not make again: no
  // checkpoint names them from now on. None of their closures is to run again.
  void ForgetProgress(std::vector<DatasetId> datasets);

  // By what a closure may be cancelled: its id, once it has one.
  using ClosureNumber = std::shared_ptr<std::atomic<ClosureId>>;
  // Queues a closure. `done` gets its results or its error, once; a lost worker or PS is no error.
  void Schedule(ClosureSpec closure, ResultFn done, ClosureNumber number = nullptr);
  // Queues the closures of a synchronous step (docs/consistency.md), at most kMostReplicas, of one
  // function, each of one training step. Where it changes nothing they are closures like others.
  // `done` is that of each closure; they come together, in order. Should one fail for good, so does
  // all that this controller runs: its step can be neither applied nor left out.
  // Errors, of all: InvalidArgument for another number; FailedPrecondition where lost parameter
  // servers do not go back together (RecoveryOptions::on_ps_loss).
  // `numbers`: none, or one for each.
  void ScheduleStep(std::vector<ClosureSpec> step, const SyncStep& kind, std::vector<ResultFn> done,
                    std::vector<ClosureNumber> numbers = {});
  // Drops the owner's closures that have not started and asks workers to give up those that run:
  // their futures fail with Cancelled (or complete, when they were about to).
  void CancelClosures(uint64_t owner);
  // The same of one; nothing where it is over, or of a synchronous step that has begun.
  void CancelClosure(ClosureNumber number);
  // Calls it on the loop, maybe at once; or after a time above 0: not when this is gone, nor once
  // the call is dropped.
  void Call(std::function<void()> call);
  using TimerId = env::EventLoop::TimerId;
  TimerId CallAfter(absl::Duration delay, std::function<void()> call);
  void DropCall(TimerId call) { loop_.get()->Cancel(call); }

  // Rows of a shard's weights (slot 0) or optimizer slots (1..), wherever the shard is, or what the
  // constants of runtime/cluster/control.h stand for. They wait while a PS is being recovered and
  // closures run again, so that rows have the updates of all closures that are over, and are tried
  // again when the PS is lost meanwhile. Errors: that of the job; Unavailable when the PS was lost
  // each time of many: it may be this request that kills it.
  void ReadRows(ShardId shard, int64_t begin, int64_t count, int slot,
                std::function<void(absl::StatusOr<Tensor>)> done);
  void WriteRows(ShardId shard, int64_t begin, int slot, Tensor rows, DoneFn done);
  // The same for a hash table: reads the rows, with their ids, in `count` places from `begin` on;
  // writes rows by id, and creates rows for ids that have none.
  struct IdsRead {
    Tensor ids, rows;
    int64_t next = 0;           // where to go on; 0: there are no more
    Generation generation = 0;  // see AwaitRerun
  };
  void ReadIds(ShardId shard, int64_t begin, int64_t count, int slot,
               std::function<void(absl::StatusOr<IdsRead>)> done);
  // `replace`: all other rows of the shard are removed. With a slot, as in WriteRows, the ids have
  // rows already.
  void WriteIds(ShardId shard, const Tensor& ids, const Tensor& rows, bool replace, DoneFn done,
                int slot = 0);

  // Continues from a checkpoint, in a new session: call it after Start and before CreateShards.
  // `path` is the checkpoint's directory. See ClosureSpec::resumed for its closures.
  void Resume(checkpoint::Manifest manifest, std::string path);
  // Checks whether all connected PS can write checkpoints into this directory. Errors: those of
  // DirectoryTrial.
  void TryCheckpointDirectory(std::string directory, DoneFn done);
  // OK as long as nobody writes checkpoints of this cluster. Errors: FailedPrecondition, naming the
  // directory of those that are written.
  void CheckNoCheckpoints(DoneFn done);
  // Writes checkpoints at intervals from now on. `job_state` is called on the loop for each, and
  // returns a JSON object that the checkpoint keeps; it may be null. Errors: that of
  // CheckNoCheckpoints; those of listing the directory; that of the job.
  void StartCheckpoints(CheckpointOptions options, std::function<std::string()> job_state,
                        DoneFn done);
  // Writes a checkpoint now (after the one under way, shards that are created, and those that
  // move). Errors: FailedPrecondition without StartCheckpoints; Unavailable when a PS is lost
  // meanwhile; those of the file systems.
  using CheckpointFn = std::function<void(absl::StatusOr<checkpoint::Manifest>)>;
  void Checkpoint(CheckpointFn done);

  // Replaces the list of workers, by position, as in a new cluster file. New workers, and workers
  // whose address changed, are connected; workers that are no longer listed are released, and their
  // closures run elsewhere.
  void UpdateWorkers(std::vector<std::string> addresses);
  // The program wants to end: where nothing can run for `most` from now on, the job fails then.
  void LimitStalls(absl::Duration most);

  // The next three calls are for the code that runs the tasks. From now on, only the process with
  // this incarnation is admitted at the address.
  void ExpectIncarnation(std::string address, Incarnation incarnation);
  // `task`, "/job:ps/task:1", has ended; `message` says how, and whether it is restarted.
  void TaskEnded(std::string task, std::string message);
  // No task is left to run closures: the start, or the job, fails now.
  void GiveUp(absl::Status why);

  // The status of each task that answers.
  void QueryStatus(std::function<void(std::vector<proto::TaskStatus>)> done,
                   bool staleness = false);
  // What one task answered to a TraceQuery. The times of asking and of the answer are on this
  // coordinator's clock.
  struct TaskTrace {
    std::string task;
    Incarnation incarnation = 0;
    int64_t asked_us = 0, answered_us = 0;
    proto::TraceEvents events;
  };
  // Turns the recording of spans on or off in all tasks and this controller, and fetches the spans
  // that they have recorded. Returns the traces of the tasks that answer; the last one is
  // "/job:coordinator".
  void QueryTrace(bool enable, std::function<void(std::vector<TaskTrace>)> done);
  // Sends a request of no closure to a worker. `done` is called on the loop with its answer.
  // Errors: those of TaskSession::Request, also for a number that no worker has.
  void AskWorker(int worker, proto::ControlRequest request,
                 std::function<void(absl::StatusOr<proto::ControlReply>)> done);
  struct Stats {
    DispatcherStats closures;
    FailureStats failures;
    CheckpointStats checkpoints;
    int64_t open = 0;                 // closures that are not over, including those that run again
    int64_t running = 0, queued = 0;  // of these
    int ps_ready = 0;
    // The newest checkpoint that this session has written, if it has written any.
    struct LastCheckpoint {
      int64_t steps = 0;  // of training
      absl::Time at;
      double seconds = 0;  // that it took
    };
    std::optional<LastCheckpoint> last_checkpoint;
    int workers_ready = 0;
    int workers = 0;
    std::string waiting_for;  // empty: closures can run
    // "/job:ps/task:0 at HOST:PORT has worked on create_shards for 40s": the request that has
    // waited longest for its answer. Empty: none has waited for long.
    std::string working;
  };
  void GetStats(std::function<void(Stats)> done);
  // `done` is called when no PS is being recovered and no closure is open, including those that run
  // again because a PS was lost. Errors: that of a job that failed meanwhile; if no closure can run
  // for RecoveryOptions.cluster_timeout, the job fails.
  void AwaitSettled(DoneFn done);
  // `done` is called when no closure that was over runs again because a PS was lost, nor will once
  // that one is back. It gets the generation of the shards, which is another one when they have
  // gone back to a checkpoint, or moved. Errors: that of a job that failed meanwhile.
  void AwaitRerun(std::function<void(absl::StatusOr<Generation>)> done);

  int num_workers() const { return static_cast<int>(options_.workers.size()); }  // at the start
  int num_ps() const { return static_cast<int>(options_.ps.size()); }
  SessionId session() const { return hold_.id(); }  // 0 before it is chosen, in Start
  Epoch epoch() const { return hold_.epoch(); }     // the session's; 0 before it is chosen
  int in_flight() const { return options_.in_flight; }
  env::Env* env() { return env_; }

 private:
  // While running, requests to shards are sent; in other phases they are parked.
  Phase phase() const { return life_.phase(recovery_.phase()); }

  // controller.cc
  void LetGo();  // releases all tasks, at the end

  // controller_start.cc
  TaskSession::Events EventsOf(const std::string& job, int task);
  void OnAnswered(TaskSession* task);
  // Called when all PS have reported the epochs that they know.
  void ChooseSession();
  void OnRefused(bool is_ps, const std::string& task, const absl::Status& refusal);
  void CheckStarted(bool timed_out);
  void FinishStart(absl::Status status);
  // Says whom the start waits for, now and then until it is over.
  void SayMissing();
  absl::Status Unreachable() const;
  std::vector<std::string> MissingTasks() const;
  void Watch();
  // Reports a checkpoint that takes too long.
  void WatchCheckpoint(absl::Duration now);
  std::string WaitingFor() const;
  void Dispatch();
  void Resolve(ClosureId closure, absl::StatusOr<std::vector<Tensor>> results);
  void OnClosureFailed(int worker, function::ClosureReply reply);
  void OnClosureDone(int worker, function::ClosureReply reply, absl::Duration now);
  // Ends closures that were cancelled while they ran and came back to the queue.
  void DropCancelled();
  // Ends it where it waits, or asks its worker to.
  void EndEarly(ClosureId closure, bool expired);
  // What its caller is told.
  absl::Status EndedEarly(ClosureId closure);
  void FailAll(const absl::Status& status);
  void Emit(ClusterEvent::Kind kind, std::string task, std::string message);
  // A span from `*since` on, unless that is zero; it becomes zero.
  void Trace(trace::SpanKind kind, ClosureId closure, absl::Duration* since, int lane = 0);

  // controller_workers.cc
  void OnWorkerUp(int worker);
  void OnWorkerDown(int worker, const absl::Status& status);
  void OnWorkerReady(int worker);
  void OnWorkerData(int worker, net::Message message);
  void SetUpWorker(int worker);
  void OnWayLost(int worker, const absl::Status& status);
  void RetrySetUp(int worker, absl::Duration delay);
  // Takes the worker out of dispatch; its closures run elsewhere.
  int TakeOut(int worker, bool blame);
  // Ends closures that were on too many lost workers.
  void GiveUpQuarantined(absl::Duration now);
  std::vector<RequestToWorker> WorkerSetUpRequests(int worker) const;

  // controller_deadlines.cc
  // Ends attempts that take too long; reports it when one of them holds up all other closures.
  void CheckDeadlines(absl::Duration now);
  void OnOverdue(const ClosureTable::Overdue& overdue);
  // Ends closures whose callers have waited long enough, and sets the alarm for the next of them.
  void ExpireClosures();
  void SetExpiryAlarm();
  void AskToCancel(int worker, const std::vector<ClosureId>& closures);
  std::string HeldBackBy() const;

  // controller_ps.cc
  void OnPsUp(int ps);
  void OnPsDown(int ps, const absl::Status& status);
  bool AllPsUp() const;
  void TryRecover();
  void FailIfNothingComesBack();
  bool HasUpdatesToLose() const;
  void BeginRecovery(const PsRecovery::Decision& decision);
  bool AllGoBack() const;  // shards, when a PS is lost
  absl::StatusOr<const RestorePoint*> ChooseRestorePoint() const;
  // Sets all PS up again: shards that go back get their state at `point`, the others keep theirs.
  void RestoreShards(const RestorePoint& point);
  // The task was asked to end. A PS goes once a checkpoint has what it has now, if there are
  // checkpoints: they bring it back, and next to nothing has to run again.
  void OnTaskEnding(bool is_ps, int task);
  void SaveBeforeEnd();
  // PS that could not restore what they were given, though the checkpoint may be whole.
  struct Refusals {
    std::set<int> cannot_read;  // for them, the files of shards are not there
    std::set<int> no_room;      // they lack memory
  };
  void OnRestored(uint64_t restore, uint64_t checkpoint, const Refusals& refusals,
                  absl::Status status);
  // The checkpoint could not be read, nor will it be.
  void DoWithout(uint64_t checkpoint, const absl::Status& why);
  void AskWhoCannotRead(uint64_t restore, uint64_t checkpoint, const std::set<int>& cannot_read,
                        const absl::Status& status);
  void WaitForReaders(uint64_t checkpoint, const std::set<int>& cannot_read,
                      const absl::Status& status);
  void WaitForRoom(const std::set<int>& no_room, const absl::Status& status);
  void DropStale(int ps);
  void ResumeDispatch();
  void Unpark();
  PlanTable::PsOf PsOf() const;
  void RegisterExpected(PlanId plan, std::shared_ptr<const graph::Function> function,
                        std::vector<proto::ArgumentSource> sources, DatasetId dataset, DoneFn done);
  // Releases those of the unscheduled `plans` that nothing needs any more.
  void ForgetUnusedPlans(const std::vector<PlanId>& plans);
  // Data sets and values that were released and that no plan reads.
  void ForgetUnread();
  void ForgetValues(ValuesId values);
  void TellWorkers(const proto::ControlRequest& release);
  void TellReleased(DatasetId dataset);
  void WithdrawDataset(const DatasetTable::Registration& registration);
  void SendToPs(int ps, proto::ControlRequest request, std::vector<Buffer> payload,
                TaskSession::ResponseFn done);
  // Calls `request` with the shard's PS, now or when recovery is over, and again if the PS is lost.
  void WithShard(ShardId shard, std::function<void(int ps)> request, DoneFn fail);
  // `losses`: how often its PS was lost already with the request under way.
  void RequestRows(const proto::ReadRows& read, TaskSession::ResponseFn done, int losses = 0);
  void SendRows(const proto::WriteRows& write, std::vector<Buffer> payload, DoneFn done,
                int losses = 0);
  void ReleaseWrites();
  void OnCheckpoint(const Checkpointer::Outcome& outcome);
  void OnCheckpointWritten(const checkpoint::Manifest& manifest);
  Checkpointer::Cut CheckpointCut() const;
  ClosureId MarkToTell() const;
  void FailIfNotFinite(const absl::Status& status);
  // Calls `then`, at once or later; if another coordinator has had the cluster since, the session
  // fails instead.
  void UnlessTakenOver(std::function<void()> then);
  // Errors: ResourceExhausted when the log has dropped closures that the checkpoint needs.
  absl::Status DescribeState(const std::function<std::string()>& job_state,
                             checkpoint::Manifest* manifest) const;
  absl::Status NoCheckpoints() const;
  void ScheduleCheckpoint(uint64_t timer);
  void CheckpointBySteps();
  void CheckpointNow(const CheckpointFn& done);

  // controller_steps.cc: a checkpoint is a cut between two synchronous steps.
  void WriteCheckpoint(CheckpointFn done);
  void PauseSteps(StepPause::DoneFn done);
  // A checkpoint that was begun while there were no steps must be over before the first one begins.
  void HoldFirstStep();
  // Tells all PS which closures the steps with backups take that have enough of them.
  void TellChosen();
  void OnStepApplied(ClosureId first, Generation generation, const absl::Status& status);
  // The checkpoint begins when no step is under way.
  void CheckStepsOver();
  // For turns of step_pause_ that are being written.
  void LimitTurn(uint64_t number);
  void TurnOver(uint64_t number);
  void EndStepPause(const absl::Status& why);

  // controller_aftermath.cc: all shards are restored. Lost updates are counted, or closures that
  // must run again are queued, in slices of bounded length; then closures run.
  struct Aftermath {
    uint64_t restore = 0;  // a later restore ends this one
    uint64_t number = 0;   // of the checkpoint
    int64_t steps = 0;
    ClosureId first = 0, end = 0;  // closures that may have to run again
    uint64_t rerun_before = 0;
  };
  void BeginAftermath(uint64_t restore, const RestorePoint& point);
  bool Outdated(const Aftermath& aftermath) const;
  // Whether shards lack updates of closures that are over.
  bool UpdatesAreMissing() const;
  void CountLost(const Aftermath& aftermath);
  void RunAgain(Aftermath aftermath);
  void FinishRecovery(const Aftermath& aftermath, const std::string& shards,
                      const std::string& price);

  // controller_balance.cc: shards move at a checkpoint. No closure begins meanwhile. Starts a
  // checkpoint that is due, with or without moves.
  void BeginCheckpoint();
  std::map<ShardId, int> WantedMoves() const;
  void CheckDrained();
  void MoveShards(const checkpoint::Manifest& manifest);
  void FinishMoves();
  // Moves failed after the old copies were removed: the shards are restored where they were.
  void UndoMoves(const absl::Status& why);
  void GiveUpMoves(const std::string& why);
  void EndPause();

  env::Env* const env_;
  const ControllerOptions options_;
  SessionHold hold_;
  trace::TraceRecorder trace_;
  OwnedLoop loop_;
  // Everything below belongs to the loop. The methods that other classes call (sessions with tasks,
  // the checkpointer, timers) assert this.
  ClusterTasks tasks_;
  WorkerTable worker_table_;
  Lifecycle life_;
  ClosureTable closures_;
  PlanTable plans_;
  DatasetTable datasets_;
  ValuesTable values_;
  ClusterLayout layout_;
  PsRecovery recovery_;
  ShardMoves moves_;
  Checkpoints checkpoints_;
  StepPause step_pause_;
  bool looks_before_recovery_ = false;  // whether another coordinator has had the cluster
  absl::Duration expiry_alarm_ = absl::InfiniteDuration();
  std::vector<std::function<void()>> parked_;  // requests that wait for recovery, or reruns
  FailureLog failures_;
  LongWaits waits_;
  absl::Duration most_stall_;  // the longest time in which nothing can run
};

}  // namespace coxswain::core
