// What a coordinator shares with its closures under way, and those that wait for their arguments.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "coordinator/api/remote_value.h"
#include "coordinator/api/wait_reporter.h"
#include "coordinator/core/closure.h"
#include "coxswain/cluster_coordinator.h"
#include "runtime/env/event_loop.h"

namespace coxswain {

// The payload of an error that a closure has from one of its arguments.
constexpr char kArgumentUrl[] = "coxswain.dev/argument";

// What closures under way report to; outlives the coordinator if need be.
struct ClusterCoordinator::Shared {
  Shared(const Cluster& cluster, ErrorPolicy on_error) : policy(on_error), waits(cluster) {}

  // Whether the closure itself is at fault. Otherwise the cluster cannot go on.
  static bool OwnFault(const absl::Status& status);
  // Of a closure that comes after such an error.
  static absl::Status NotQueued();

  const ErrorPolicy policy;
  const WaitReporter waits;
  absl::Mutex mu;
  int64_t pending ABSL_GUARDED_BY(mu) = 0;
  int64_t failed ABSL_GUARDED_BY(mu) = 0;
  absl::Status error ABSL_GUARDED_BY(mu);    // what Join will return
  bool stopped ABSL_GUARDED_BY(mu) = false;  // by that error: new closures are cancelled
  std::vector<absl::Status> errors ABSL_GUARDED_BY(mu);
  bool joined ABSL_GUARDED_BY(mu) = false;  // `errors` were summed up
  std::atomic<uint64_t> accumulations{0};
  Observer observer;  // set before the first closure
  // Closures that wait for arguments, by deadline.
  std::set<std::pair<absl::Duration, std::shared_ptr<Waiting>>> waiting ABSL_GUARDED_BY(mu);
  // One for all, which rings at the first deadline or before: a timer for each would stay until
  // then, with what it holds, however early its closure is over.
  struct Alarm {
    absl::Duration rings = absl::InfiniteDuration();
    env::EventLoop::TimerId timer = 0;
  };
  Alarm alarm ABSL_GUARDED_BY(mu);

  struct Room {
    Shared* shared;
    int64_t size;
    static bool Free(Room* r) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return r->shared->pending < r->size;
    }
  };
  static bool Idle(Shared* s) ABSL_NO_THREAD_SAFETY_ANALYSIS { return s->pending == 0; }

  // Something is scheduled: errors that a Join has summed up are over.
  void Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    if (joined) errors.clear();
    joined = false;
  }
  // A number of closures is pending from now on. False: an earlier one has failed.
  bool Enter(int64_t closures) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    Begin();
    if (stopped) return false;
    pending += closures;
    return true;
  }
  // A closure of a checkpoint does not wait for room: those of its step start only when all of the
  // step's are scheduled.
  bool EnterAtOnce() ABSL_LOCKS_EXCLUDED(mu) {
    absl::MutexLock lock(&mu);
    return Enter(1);
  }
  // Takes note of an error. True: everything else is to be cancelled.
  bool Failed(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu);
  // It waits from now on; it no longer does.
  void Remember(const std::shared_ptr<Waiting>& one) ABSL_LOCKS_EXCLUDED(mu);
  void Forget(const std::shared_ptr<Waiting>& one) ABSL_LOCKS_EXCLUDED(mu);
  static void SetAlarm(const std::shared_ptr<Shared>& shared, core::Controller* controller);
  void DropAlarm(core::Controller* controller) ABSL_LOCKS_EXCLUDED(mu);
  // Ends those whose deadlines are over, and sets the alarm for the others.
  static void Ring(const std::shared_ptr<Shared>& shared, core::Controller* controller,
                   absl::Duration rings);
  // Tells it so, on the cluster's loop, unless it is done.
  void Fail(const std::shared_ptr<Waiting>& one, absl::Status status) ABSL_LOCKS_EXCLUDED(mu);
  // All of the owner's closures.
  void CancelAll(core::Controller* controller, uint64_t owner) ABSL_LOCKS_EXCLUDED(mu);
};

// A closure some of whose arguments are results of closures that are not over. It is launched when
// the last of these is there, unless its deadline or somebody who cancels it ends it before. Until
// it is done the coordinator is there, which counts it as pending.
//
// Thread model: thread-safe.
struct ClusterCoordinator::Waiting {
  explicit Waiting(absl::Duration end) : deadline(end) {}
  // Another one of its arguments is there.
  static void OnArgument(const std::shared_ptr<Waiting>& one);
  // Arguments are asked no more to say when they are there.
  void LetGo() ABSL_LOCKS_EXCLUDED(mu);

  const absl::Duration deadline;  // on the cluster's clock
  ClusterCoordinator* coordinator = nullptr;
  RemoteFunction function;
  std::vector<ClosureArgument> arguments;
  core::ClosureSpec spec;  // but for the arguments
  RemoteValue value;
  Tell tell;
  absl::Mutex mu;
  size_t missing ABSL_GUARDED_BY(mu) = 0;      // arguments
  bool launching ABSL_GUARDED_BY(mu) = false;  // all are there
  absl::Status unwanted ABSL_GUARDED_BY(mu);   // since then
  bool done ABSL_GUARDED_BY(mu) = false;       // launched or told
  // What its arguments call, see WhenReady.
  std::vector<std::pair<std::shared_ptr<RemoteValue::State>, uint64_t>> calls ABSL_GUARDED_BY(mu);
};

}  // namespace coxswain
