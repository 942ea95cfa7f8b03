// The controller's dealings with workers: setting them up, losing them, taking them back.

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"

namespace coxswain {
namespace {

// A worker that could not be set up is tried again after this: what was wrong may pass, its way to
// a PS, a file that is not there yet.
constexpr absl::Duration kSetUpRetryDelay = absl::Seconds(1);
constexpr absl::Duration kFirstSetUpRetryDelay = absl::Milliseconds(50);

}  // namespace

void Controller::OnWorkerUp(int worker) {
  refusals_.erase(workers_[worker]->name());
  if (recovery_.running() && AllPsUp()) SetUpWorker(worker);
}

std::vector<proto::ControlRequest> Controller::WorkerSetUpRequests() const {
  std::vector<proto::ControlRequest> requests(1);
  proto::SetupWorker* setup = requests[0].mutable_setup_worker();
  setup->set_generation(generation_);
  for (const auto& p : ps_) {
    setup->add_ps_addresses(p->address());
    setup->add_ps_incarnations(absent_.count(p->task()) > 0 ? 0 : p->incarnation());
  }
  for (const auto& [id, data] : datasets_) {
    proto::ControlRequest& request = requests.emplace_back();
    request.mutable_register_dataset()->set_dataset(id);
    *request.mutable_register_dataset()->mutable_spec() = data.spec;
  }
  for (const auto& [id, plan] : plans_) {
    *requests.emplace_back().mutable_register_plan() = plan.for_worker;
  }
  return requests;
}

// Brings a worker, new or returned, to where the others are: O(1) calls. What it has already costs
// it nothing.
void Controller::SetUpWorker(int worker) {
  auto& session = workers_[worker];
  WorkerState& state = worker_states_[worker];
  const uint64_t setup = ++state.setup;
  auto gather = NewStatusGather([this, worker, setup](absl::Status status) {
    if (ending_ || worker >= static_cast<int>(workers_.size())) return;
    if (worker_states_[worker].setup != setup || !workers_[worker]->up()) return;
    if (status.ok()) {
      OnWorkerReady(worker);
      return;
    }
    LogWarning(workers_[worker]->name(), " cannot be set up: ", status.message());
    refusals_[workers_[worker]->name()] = status;
    RetrySetUp(worker, kSetUpRetryDelay);
  });
  for (proto::ControlRequest& request : WorkerSetUpRequests()) {
    const DatasetId dataset = request.register_dataset().dataset();
    session->Request(std::move(request), {},
                     [this, dataset, count = gather->Add<TaskSession::Response>()](
                         absl::StatusOr<TaskSession::Response> response) {
                       if (response.ok() && response->reply.has_dataset_ready() && !ending_) {
                         const absl::Status same =
                             CheckData(dataset, response->reply.dataset_ready());
                         if (!same.ok()) response = same;
                       }
                       count(std::move(response));
                     });
  }
  gather->Finish();
}

absl::Status Controller::CheckData(DatasetId dataset, const proto::DatasetReady& ready) {
  const auto it = datasets_.find(dataset);
  if (it == datasets_.end()) return absl::OkStatus();
  if (!it->second.fingerprint) it->second.fingerprint = ready.fingerprint();
  if (*it->second.fingerprint == ready.fingerprint()) return absl::OkStatus();
  return absl::DataLossError(
      "it read other data than the other workers; the files must be the same on all of them");
}

void Controller::RetrySetUp(int worker, absl::Duration delay) {
  const uint64_t setup = ++worker_states_[worker].setup;
  PostAfter(std::max(delay, kFirstSetUpRetryDelay), [this, worker, setup] {
    if (worker >= static_cast<int>(workers_.size()) || worker_states_[worker].setup != setup)
      return;
    if (workers_[worker]->up() && recovery_.running() && AllPsUp()) SetUpWorker(worker);
  });
}

void Controller::OnWorkerReady(int worker) {
  WorkerState& state = worker_states_[worker];
  state.ready = true;
  refusals_.erase(workers_[worker]->name());
  dispatcher_.AddWorker(worker);
  const absl::Duration now = env_->Monotonic();
  if (state.lost) {
    state.lost = false;
    ++failures_.recovered;
    failures_.recovery_seconds.push_back(absl::ToDoubleSeconds(now - state.lost_since));
    Emit(ClusterEvent::Kind::kWorkerJoined, workers_[worker]->name(),
         absl::StrCat("is back after ", absl::FormatDuration(absl::Floor(now - state.lost_since,
                                                                         absl::Milliseconds(1)))));
  } else if (std::exchange(state.is_new, false)) {
    Emit(ClusterEvent::Kind::kWorkerJoined, workers_[worker]->name(),
         absl::StrCat("joins at ", workers_[worker]->address()));
  }
  if (recovering_since_) {
    failures_.recovered += ps_recovering_;
    failures_.recovery_seconds.push_back(absl::ToDoubleSeconds(now - *recovering_since_));
    recovering_since_ = std::nullopt;
  }
  if (!Moving()) EndPause();
  CheckStarted(false);
  Dispatch();
}

int Controller::TakeOut(int worker, bool blame) {
  worker_states_[worker].ready = false;
  const int requeued = dispatcher_.RemoveWorker(worker, blame, env_->Monotonic());
  if (requeued > 0) DropCancelled();
  return requeued;
}

void Controller::GiveUpQuarantined(absl::Duration now) {
  for (ClosureId id : dispatcher_.TakeQuarantined(now)) {
    const auto pending = closures_.find(id);
    if (pending == closures_.end()) continue;
    ++failures_.quarantined;
    const size_t w = static_cast<size_t>(pending->second.worker);
    const std::string worker = w < workers_.size() ? workers_[w]->name() : "";
    const absl::Status status = WithDetail(
        absl::AbortedError(absl::StrCat(DescribeClosure(id, pending->second.spec), " ran on ",
                                        options_.recovery.quarantine_after,
                                        " workers that were lost, the last time alone; it is not "
                                        "run again")),
        {ErrorCause::kQuarantined, false, worker, 0});
    Emit(ClusterEvent::Kind::kQuarantined, worker, std::string(status.message()));
    Resolve(id, status);
  }
}

void Controller::OnWorkerDown(int worker, const absl::Status& status) {
  WorkerState& state = worker_states_[worker];
  ++state.setup;
  const auto detail = GetDetail(status);
  const bool asked_to_end = detail && detail->cause == ErrorCause::kTerminated;
  if (!state.lost) {
    state.lost = true;
    state.lost_since = env_->Monotonic();
    ++failures_.workers_lost;
  }
  const int closures = TakeOut(worker, /*blame=*/!asked_to_end);
  if (started_) {
    Emit(ClusterEvent::Kind::kWorkerLost, workers_[worker]->name(),
         absl::StrCat("is lost, its ", closures, " closures run elsewhere: ", status.message()));
  }
  Dispatch();
}

void Controller::OnWorkerData(int worker, Message message) {
  const bool progress = message.type == static_cast<uint16_t>(MessageType::kClosureProgress);
  auto reply = DecodeClosureReply(std::move(message));
  if (!reply.ok()) {
    LogWarning(workers_[worker]->name(), " sent what is no reply: ", reply.status().message());
    return;
  }
  if (reply->epoch != epoch_) return;
  if (reply->steps_done > 0 && dispatcher_.IsCurrent(reply->closure, reply->attempt)) {
    PendingClosure& pending = closures_.at(reply->closure);
    pending.first_step = std::min(reply->steps_done, pending.spec.steps - 1);
  }
  if (progress) return;
  if (!reply->status.ok()) {
    OnClosureFailed(worker, *std::move(reply));
    return;
  }
  if (dispatcher_.Complete(reply->closure, reply->attempt, true)) {
    // The worker gets its next closure before the program hears of this one.
    Dispatch();
    Resolve(reply->closure, std::move(reply->results));
  }
}

void Controller::UpdateWorkers(std::vector<std::string> addresses) {
  loop_->Post([this, addresses = std::move(addresses)] {
    const auto let_go = [this](int worker) {
      ++worker_states_[worker].setup;
      TakeOut(worker, /*blame=*/false);
      proto::ControlRequest goodbye;
      goodbye.mutable_end_session();
      workers_[worker]->Request(std::move(goodbye), {}, [](auto) {});
      workers_[worker]->Stop();
      refusals_.erase(workers_[worker]->name());
    };
    for (size_t w = 0; w < workers_.size(); ++w) {
      if (w < addresses.size() && workers_[w]->address() == addresses[w]) continue;
      let_go(static_cast<int>(w));
      Emit(ClusterEvent::Kind::kWorkerLost, workers_[w]->name(), "was let go");
    }
    const size_t before = workers_.size();
    workers_.resize(addresses.size());
    worker_states_.resize(addresses.size());
    for (size_t w = 0; w < addresses.size(); ++w) {
      if (w < before && workers_[w]->address() == addresses[w]) continue;
      const uint64_t setup = worker_states_[w].setup;
      worker_states_[w] = WorkerState{};
      worker_states_[w].setup = setup + 1;
      worker_states_[w].is_new = true;
      workers_[w] = NewSession("worker", static_cast<int>(w), addresses[w]);
      workers_[w]->Start();
    }
    Dispatch();
  });
}

}  // namespace coxswain
