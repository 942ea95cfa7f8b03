#include "coordinator/api/cluster_coordinator.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/api/wait.h"
#include "coordinator/core/controller.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

// A wait that takes longer than this says what it waits for, and goes on.
constexpr absl::Duration kSilence = absl::Seconds(30);

}  // namespace

struct RemoteValue::State {
  absl::Mutex mu;
  bool ready ABSL_GUARDED_BY(mu) = false;
  absl::StatusOr<std::vector<Tensor>> results ABSL_GUARDED_BY(mu) = absl::UnknownError("not ready");
};

bool RemoteValue::Ready() const {
  if (state_ == nullptr) return false;
  absl::MutexLock lock(&state_->mu);
  return state_->ready;
}

absl::StatusOr<std::vector<Tensor>> RemoteValue::Get() const {
  if (state_ == nullptr) return absl::FailedPreconditionError("no closure was scheduled");
  absl::MutexLock lock(&state_->mu);
  state_->mu.Await(absl::Condition(&state_->ready));
  return state_->results;
}

// What closures under way report to; outlives the coordinator if need be.
struct ClusterCoordinator::Shared {
  absl::Mutex mu;
  int64_t pending ABSL_GUARDED_BY(mu) = 0;
  absl::Status error ABSL_GUARDED_BY(mu);
  Observer observer;  // set before the first closure

  struct Room {
    Shared* shared;
    int64_t size;
    static bool Free(Room* r) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return r->shared->pending < r->size;
    }
  };
  static bool Idle(Shared* s) ABSL_NO_THREAD_SAFETY_ANALYSIS { return s->pending == 0; }
};

ClusterCoordinator::ClusterCoordinator(const ParameterServerStrategy& strategy,
                                       CoordinatorOptions options)
    : cluster_(strategy.cluster()), options_(options), shared_(std::make_shared<Shared>()) {}

ClusterCoordinator::~ClusterCoordinator() {
  Cancel();
  Join().IgnoreError();
}

void ClusterCoordinator::set_observer(Observer observer) {
  shared_->observer = std::move(observer);
}

RemoteValue ClusterCoordinator::Schedule(const RemoteFunction& function,
                                         std::vector<Tensor> arguments) {
  return Schedule(function, Ticket{}, 1, std::move(arguments));
}

RemoteValue ClusterCoordinator::Schedule(const RemoteFunction& function, const Ticket& ticket,
                                         uint32_t steps, std::vector<Tensor> arguments) {
  RemoteValue value;
  value.state_ = std::make_shared<RemoteValue::State>();
  {
    absl::MutexLock lock(&shared_->mu);
    Shared::Room room{shared_.get(), std::max<int64_t>(1, options_.queue_size)};
    shared_->mu.Await(absl::Condition(&Shared::Room::Free, &room));
    if (!shared_->error.ok()) {
      absl::MutexLock value_lock(&value.state_->mu);
      value.state_->ready = true;
      value.state_->results =
          WithDetail(absl::CancelledError("an earlier closure failed and Join has not been called"),
                     {ErrorCause::kCancelled, false, "", 0});
      return value;
    }
    ++shared_->pending;
  }
  ClosureSpec spec;
  spec.plan = function.plan();
  spec.arguments = std::move(arguments);
  if (ticket.size() > 0) spec.dataset = function.dataset();
  spec.ticket = ticket;
  spec.steps = steps;
  spec.seed = options_.seed;
  auto done = [shared = shared_, state = value.state_, ticket,
               controller = cluster_.controller()](absl::StatusOr<std::vector<Tensor>> results) {
    if (shared->observer) shared->observer(ticket, results);
    const absl::Status status = results.status();
    {
      absl::MutexLock lock(&state->mu);
      state->results = std::move(results);
      state->ready = true;
    }
    bool first_error = false;
    if (!status.ok()) {
      absl::MutexLock lock(&shared->mu);
      first_error = shared->error.ok();
      if (first_error) shared->error = status;
    }
    // While this closure still counts as pending, so that what is scheduled after Join stays.
    if (first_error) controller->CancelQueued();
    absl::MutexLock lock(&shared->mu);
    --shared->pending;
  };
  cluster_.controller()->Schedule(std::move(spec), std::move(done));
  return value;
}

absl::Status ClusterCoordinator::Join() {
  while (true) {
    int64_t pending;
    {
      absl::MutexLock lock(&shared_->mu);
      if (shared_->mu.AwaitWithTimeout(absl::Condition(&Shared::Idle, shared_.get()), kSilence)) {
        return std::exchange(shared_->error, absl::OkStatus());
      }
      pending = shared_->pending;
    }
    const auto workers = WaitForValue<int>([&](auto done) {
      cluster_.controller()->GetDispatcherStats(
          [done = std::move(done)](DispatcherStats, int count) { done(count); });
    });
    LogWarning("waiting for ", pending, " closures; ", workers.ok() ? *workers : 0, " of ",
               cluster_.num_workers(), " workers are there");
  }
}

bool ClusterCoordinator::Done() const {
  absl::MutexLock lock(&shared_->mu);
  return shared_->pending == 0;
}

void ClusterCoordinator::Cancel() { cluster_.controller()->CancelQueued(); }

absl::Status ClusterCoordinator::CheckFetch(const std::vector<Tensor>& results, size_t index,
                                            DType dtype) {
  if (index >= results.size()) {
    return absl::OutOfRangeError(
        absl::StrCat("the function has ", results.size(), " results, wanted number ", index));
  }
  if (results[index].dtype() != dtype || results[index].num_elements() < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "result ", index, " is ", results[index].ToString(), ", wanted one ", DTypeName(dtype)));
  }
  return absl::OkStatus();
}

DispatcherStats ClusterCoordinator::stats() const {
  auto stats = WaitForValue<DispatcherStats>([&](auto done) {
    cluster_.controller()->GetDispatcherStats(
        [done = std::move(done)](DispatcherStats s, int) { done(s); });
  });
  return stats.ok() ? *stats : DispatcherStats{};
}

}  // namespace coxswain
