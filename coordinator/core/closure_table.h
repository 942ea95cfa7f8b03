// The table of closures: those that are not over, and the state that is kept of those that are. It
// combines where each closure runs (Dispatcher), how long it may take (ClosureDeadlines), which
// closures form a step (SyncTable), which may have to run again (ClosureLog), which updates were
// lost (LostUpdates), and which examples were used. It does no I/O: events go in, decisions come
// out, and time is passed in. Owned by the coordinator's loop.
//
// A closure enters the table with Schedule and leaves it with End. A method that reports that a
// closure is over leaves it to the caller to call End and pass on the result. End moves a closure
// with updates to the log, from where RunAgain may take it back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "coordinator/core/closure.h"
#include "coordinator/core/closure_deadlines.h"
#include "coordinator/core/closure_log.h"
#include "coordinator/core/dispatcher.h"
#include "coordinator/core/lost_updates.h"
#include "coordinator/core/sync_table.h"
#include "coxswain/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/function/frame.h"

namespace coxswain::core {

struct ClosureTableOptions {
  int in_flight = 2;  // closures per worker
  QuarantineOptions quarantine;
  ClosureId window = ClosureId{1} << 62;  // see Dispatcher
  DeadlineOptions deadlines;
  int most_timeouts = 4;  // overdue attempts after which a closure is given up
  // Bounds of the log.
  int64_t max_log_closures = 1 << 20;
  int64_t max_log_bytes = int64_t{2} << 30;
};

class ClosureTable {
 public:
  using ResultFn = std::function<void(absl::StatusOr<std::vector<Tensor>>)>;
  using DoneFn = std::function<void(absl::Status)>;
  struct Closure {
    ClosureSpec spec;
    bool updates = false;  // its function updates state
    ResultFn done;         // null when it runs again: its result was delivered before
    ClosureId after = 0;
    uint32_t first_step = 0;                      // the steps before are applied on all shards
    bool cancelled = false;                       // by its owner
    bool expired = false;                         // the same, by its deadline
    uint32_t attempts = 0;                        // that were begun
    int worker = 0;                               // that it was given to last
    absl::Status way_lost;                        // by which an attempt ended last, if one did
    absl::Duration begun;                         // its step, on the deadlines' clock
    std::optional<absl::Duration> overdue_begun;  // that of the first attempt that was overdue
    // For the trace; zero when it is off.
    absl::Duration scheduled, sent;
  };

  explicit ClosureTable(const ClosureTableOptions& options);

  // Goes on from the state of a checkpoint. To be called before any closure is scheduled.
  void Resume(const checkpoint::Manifest& manifest);
  // Errors: InvalidArgument for a resumed closure that the checkpoint does not list;
  // FailedPrecondition for a new closure while resumed ones are missing.
  absl::StatusOr<ClosureId> Schedule(ClosureSpec spec, bool updates);
  // Sets `sync` of the closures of a new step, which are to be scheduled next, one after the other:
  // what they have in `sync` of it is `mean`, `backup`, of that many closures, and `free`.
  void NumberStep(std::vector<ClosureSpec>* step);
  // Null when the closure is over.
  Closure* Find(ClosureId id);
  // For people.
  std::string Describe(ClosureId id) const;
  // Removes the closure and returns it; nullopt if it was removed before. Its examples are counted.
  // If it has updates and ended well, it is logged; its `spec` has then been moved to the log.
  std::optional<Closure> End(ClosureId id, const absl::Status& status);
  // Removes all closures; returns the callbacks of those that wait for them, in order.
  std::vector<ResultFn> CancelAll();

  // CancelQueued: the owner's queued closures are over; returns them. CancelRunning: the owner's
  // running closures are to end early; returns them by worker. If one returns to the queue instead,
  // TakeCancelled reports it.
  std::vector<ClosureId> CancelQueued(uint64_t owner);
  std::map<int, std::vector<ClosureId>> CancelRunning(uint64_t owner);
  std::vector<ClosureId> TakeCancelled();

  // The caller of this one wants no result of it. It is over where it waits, and with it all of its
  // synchronous step, of which none has begun; or it is to end early, on this worker. Neither,
  // where it is over, runs again, or is of a step that has begun.
  struct Cancellation {
    std::vector<ClosureId> over;
    std::optional<int> worker;
  };
  Cancellation Cancel(ClosureId id);
  // What a closure that ends early has changed. What a worker says of an attempt does not tell: the
  // message by which it was begun may come twice.
  static Effect EffectOf(const Closure& closure);
  // Of those whose time is over, each once, and once more kExpiryGrace later if it is still open.
  static constexpr absl::Duration kExpiryGrace = absl::Seconds(1);
  std::vector<ClosureId> TakeExpired(absl::Duration now);
  // When that may have something; infinite: never.
  absl::Duration next_expiry() const {
    return expiring_.empty() ? absl::InfiniteDuration() : expiring_.begin()->first;
  }
  // It runs, and its worker does not say how it ends: it is over.
  void GiveUp(ClosureId id) { dispatcher_.GiveUp(id); }

  // A worker can take closures. `broken`: what its way to a PS may have been lost by before.
  void AddWorker(int worker, const std::vector<ClosureId>& broken, absl::Duration now);
  // The worker can take no closures; its closures go to other workers. Returns their number. See
  // Dispatcher.
  int RemoveWorker(int worker, bool blame, absl::Duration now);
  // The worker lost its connection to a PS with `status`; returns the closures that run there.
  std::vector<ClosureId> WayLost(int worker, const absl::Status& status);

  // The assignments to send now. The caller must call Sent for each, or Refused if it cannot be
  // sent, after which the closure is over.
  std::vector<Dispatcher::Assignment> TakeAssignments(absl::Duration now);
  // The request for an assignment, without session and generation.
  function::ClosureRequest RequestFor(const Dispatcher::Assignment& assignment) const;
  void Sent(ClosureId id, absl::Duration now);
  // Closures that are given up because they kill their workers: they are over.
  std::vector<ClosureId> TakeQuarantined(absl::Duration now);

  // Reports of a worker on an attempt. True: the closure is over.
  void Progress(ClosureId id, uint32_t attempt, uint32_t steps_done, absl::Duration now);
  bool Done(ClosureId id, uint32_t attempt, uint32_t steps_done, absl::Duration now);
  // In place of Done, for a closure of a synchronous step. Returns nullopt where Done would return
  // false, else the closures that are over now, in order: none until the last closure of the step
  // is done.
  std::optional<std::vector<SyncTable::Done>> DoneInStep(ClosureId id, uint32_t attempt,
                                                         std::vector<Tensor> results,
                                                         absl::Duration now);
  // A step with backups of which enough closures are done, if there is one. The others are over:
  // those that run are to be cancelled, by worker.
  struct Choice {
    SyncStep step;
    std::vector<ClosureId> chosen, surplus;
    std::map<int, std::vector<ClosureId>> to_cancel;
  };
  std::optional<Choice> ChooseInStep();
  // It is applied everywhere; returns its closures, which are over, in order.
  std::vector<SyncTable::Done> StepApplied(ClosureId first, absl::Duration now);
  bool Failed(ClosureId id, uint32_t attempt) { return dispatcher_.Complete(id, attempt, false); }
  bool Refused(const Dispatcher::Assignment& a) { return Failed(a.closure, a.attempt); }
  // Whether this attempt is the one that counts; Retry then runs its closure again.
  bool IsCurrent(ClosureId id, uint32_t attempt) const {
    return dispatcher_.IsCurrent(id, attempt);
  }
  void Retry(ClosureId id, uint32_t attempt) { dispatcher_.Retry(id, attempt); }

  struct Overdue {
    ClosureId closure = 0;
    int worker = 0;
    absl::Duration allowed;
  };
  // Tick: to be called like ClosureDeadlines::Tick. The next method returns closures that run for
  // too long.
  void Tick(absl::Duration now, bool counts) { deadlines_.Tick(now, counts); }
  std::vector<Overdue> FindOverdue(absl::Duration now) const;
  bool IsRunning(ClosureId id) const { return dispatcher_.IsRunning(id); }
  enum class Late : uint8_t { kRunsAgain, kCancelled, kGivenUp };  // over, except for kRunsAgain
  struct Lateness {
    Late fate = Late::kRunsAgain;
    int times = 0;
  };
  // A running closure takes too long.
  Lateness TookTooLong(ClosureId id);

  // Lost shards were restored from the checkpoint. Open closures begin again with their first step;
  // `in_order`: each waits for the closures that preceded it.
  void BeginAnew(bool in_order);
  // Takes closures from `first` to below `end` from the log and queues them; later ones first, see
  // Dispatcher::RunAgain.
  void RunAgain(ClosureId first, ClosureId end);
  // Overdue attempts no longer count, however they end.
  void ForgetOverdueAttempts() { dispatcher_.ForgetOverdueAttempts(); }
  // No synchronous step begins until ResumeSteps; steps that have begun go on to their end.
  void StopSteps();
  void ResumeSteps();
  const SyncTable& steps_open() const { return sync_; }
  int64_t rerun_open() const { return rerun_open_; }  // closures that run again
  // Counts the updates that lost shards do not get back: see LostUpdates.
  void BeginCountingLost(std::vector<LostUpdates::Shard> shards, ClosureId first,
                         LostUpdates::KeysOf keys_of);
  // Nullopt when there is more to count.
  std::optional<int64_t> CountLost(int64_t most);

  // Fills in the closures and data positions of a checkpoint, without fingerprints. `name_of`
  // returns the name of a plan's function. Errors: ResourceExhausted when the log has dropped
  // closures that the checkpoint needs.
  absl::Status Describe(const std::function<std::string(PlanId)>& name_of,
                        checkpoint::Manifest* manifest) const;
  // Checkpoints name this data set from now on, even if none of its examples was used.
  void KnowDataset(DatasetId dataset) { progress_[dataset]; }
  // None names it from now on; none of its closures is open or logged.
  void ForgetDataset(DatasetId dataset) { progress_.erase(dataset); }
  // No checkpoint that counts needs closures below this one.
  void Trim(ClosureId first);
  const ClosureLog& log() const { return log_; }

  // Whether some closure may still run the plan.
  bool Uses(PlanId plan) const { return open_by_plan_.contains(plan) || log_.Has(plan); }
  // Plans whose last closure ended since the last call.
  std::vector<PlanId> TakeUnused();
  // The plan is gone.
  void Forget(PlanId plan) { deadlines_.Forget(plan); }

  bool empty() const { return closures_.empty(); }
  // Callbacks that wait until no closure is open; whoever takes them must call them.
  void AwaitEmpty(DoneFn done) { awaiting_.push_back(std::move(done)); }
  std::vector<DoneFn> TakeAwaiting() { return std::exchange(awaiting_, {}); }
  // The oldest closure that is not over, if it holds up all others.
  std::optional<ClosureId> held_back_by() const;
  ClosureId low_water() const { return dispatcher_.low_water(); }
  absl::Duration next_time() const { return dispatcher_.next_time(); }
  int64_t running() const { return dispatcher_.running(); }
  int64_t open() const { return dispatcher_.queued() + dispatcher_.running(); }
  int workers() const { return dispatcher_.workers(); }
  const DispatcherStats& stats() const { return dispatcher_.stats(); }
  int64_t steps() const { return steps_; }  // training steps of complete closures

 private:
  uint64_t OwnSeed(uint64_t seed, ClosureId id, bool updates) const;
  void Measure(Closure* closure, uint32_t steps_done, bool overdue, absl::Duration now);
  void CountExamples(const Closure& closure, bool cancelled);
  void Opened(PlanId plan) { ++open_by_plan_[plan]; }
  void Closed(PlanId plan);
  void EndStep(const std::vector<SyncTable::Done>& over, absl::Duration now);
  // The step comes after the last one.
  void Follow(PlanId plan, SyncStep* step);
  // Adds a closure that is open, for the first time or again, to the member tables.
  void Enter(ClosureId id, const Closure& closure);
  void AddResumed(checkpoint::Manifest* manifest) const;
  bool MayEndEarly(const SyncStep& step) const;
  // The step that the closure waits for at the PS; 0: none. The one before may have been cancelled
  // before it began, and the one before that may be open still.
  ClosureId Awaits(const Closure& closure) const {
    return sync_.NewestOpen(closure.spec.sync.after);
  }
  bool IsParked(const Closure& closure) const { return Awaits(closure) != 0; }

  const int most_timeouts_;
  Dispatcher dispatcher_;
  ClosureDeadlines deadlines_;
  SyncTable sync_;
  SyncStep last_step_;  // the newest that was numbered
  PlanId last_step_plan_ = 0;
  ClosureId last_step_start_ = 0;  // its closures start when all before this one are over
  int64_t position_ = 0;           // see ClosureSpec
  ClosureId last_free_ = 0;        // the newest free step
  ClosureLog log_;
  LostUpdates lost_updates_;  // covers the same closures as the log
  absl::flat_hash_map<ClosureId, Closure> closures_;
  absl::flat_hash_map<PlanId, int64_t> open_by_plan_;
  std::vector<PlanId> unused_;
  std::vector<DoneFn> awaiting_;
  std::set<std::pair<absl::Duration, ClosureId>> expiring_;  // by the time that is looked at them
  // Those of the checkpoint that was resumed from which the program has not scheduled yet.
  std::map<ClosureId, checkpoint::CheckpointClosure> resumed_;
  // The examples of closures with updates that are over, of all sessions. Examples of open closures
  // are counted separately, so the same examples may be in several closures of which some are
  // cancelled: for example when a ticket is scheduled again before its old closure has ended.
  std::map<DatasetId, checkpoint::DatasetProgress> progress_;
  int64_t rerun_open_ = 0;
  int64_t steps_ = 0;
  int64_t steps_scheduled_ = 0;
  int64_t steps_left_out_ = 0;  // of those, by closures that failed, or that were not needed
};

}  // namespace coxswain::core
