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
// The delay doubles with each loss that follows, so often.
constexpr int kMostDoublings = 5;

}  // namespace

void Controller::OnWorkerUp(int worker) {
  refusals_.erase(workers_[worker]->name());
  if (recovery_.running() && AllPsUp()) SetUpWorker(worker);
}

std::vector<proto::ControlRequest> Controller::WorkerSetUpRequests(int worker) const {
  std::vector<proto::ControlRequest> requests(1);
  proto::SetupWorker* setup = requests[0].mutable_setup_worker();
  setup->set_generation(generation_);
  setup->set_new_streams(worker_states_[worker].new_streams);
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
  for (proto::ControlRequest& request : WorkerSetUpRequests(worker)) {
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
  state.new_streams = false;
  refusals_.erase(workers_[worker]->name());
  dispatcher_.AddWorker(worker);
  const absl::Duration now = env_->Monotonic();
  // All PS have greeted it again, and none was lost meanwhile: what ran here may be the reason.
  const std::vector<ClosureId> broken = std::exchange(state.broken, {});
  if (state.broken_generation == generation_) dispatcher_.Blame(broken, now);
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

// The worker is there, and said that it lost its way to a PS, or gave up what it had. It is set up
// again, which works once the way is there, and its closures run elsewhere.
void Controller::OnWayLost(int worker, const absl::Status& status) {
  WorkerState& state = worker_states_[worker];
  refusals_[workers_[worker]->name()] = Annotate(status, workers_[worker]->name());
  const auto detail = GetDetail(status);
  const bool by_way = detail && detail->cause == ErrorCause::kTaskLost;
  for (const auto& [id, runs_on] : dispatcher_.Running()) {
    if (runs_on != worker || !by_way) continue;
    state.broken.push_back(id);
    closures_.at(id).way_lost = status;
  }
  state.broken_generation = generation_;
  const int closures = TakeOut(worker, /*blame=*/false);
  const int before = state.ways_lost++;
  // Each time twice as rare as the loss itself.
  if ((before & (before + 1)) == 0) {
    LogWarning(workers_[worker]->name(), " is set up again and its ", closures,
               " closures run elsewhere, for the ", state.ways_lost,
               ". time without one that was completed: ", status.message());
  }
  RetrySetUp(worker, kFirstSetUpRetryDelay * (1 << std::min(before, kMostDoublings)));
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
    const absl::Status way_lost = pending->second.way_lost;
    const absl::Status status = WithDetail(
        absl::AbortedError(absl::StrCat(
            DescribeClosure(id, pending->second.spec), " ran ", options_.recovery.quarantine_after,
            " times on workers that were lost", way_lost.ok() ? "" : " or lost their way to a PS",
            ", the last time alone; it is not run again",
            way_lost.ok() ? "" : absl::StrCat(". The last time: ", way_lost.message()))),
        {ErrorCause::kQuarantined, false, worker, 0});
    Emit(ClusterEvent::Kind::kQuarantined, worker, std::string(status.message()));
    Resolve(id, status);
  }
}

void Controller::OnWorkerDown(int worker, const absl::Status& status) {
  WorkerState& state = worker_states_[worker];
  ++state.setup;
  state.broken.clear();
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
  if (reply->session != session_.id()) return;
  if (reply->steps_done > 0 && dispatcher_.IsCurrent(reply->closure, reply->attempt)) {
    PendingClosure& pending = closures_.at(reply->closure);
    MeasureStep(&pending, reply->steps_done, /*overdue=*/false);
    pending.first_step = std::min(reply->steps_done, pending.spec.steps - 1);
  }
  if (progress) return;
  if (!reply->status.ok()) {
    OnClosureFailed(worker, *std::move(reply));
    return;
  }
  worker_states_[worker].timeouts = 0;
  const bool overdue = !dispatcher_.IsCurrent(reply->closure, reply->attempt);
  if (dispatcher_.Complete(reply->closure, reply->attempt, true)) {
    worker_states_[worker].ways_lost = 0;
    if (overdue) MeasureStep(&closures_.at(reply->closure), reply->steps_done, overdue);
    // The worker gets its next closure before the program hears of this one.
    Dispatch();
    Resolve(reply->closure, std::move(reply->results));
  }
}

void Controller::ExpectIncarnation(std::string address, Incarnation incarnation) {
  loop_->Post([this, address = std::move(address), incarnation] {
    incarnations_[address] = incarnation;
    for (auto* tasks : {&ps_, &workers_}) {
      for (auto& session : *tasks) {
        if (session->address() == address) session->Expect(incarnation);
      }
    }
  });
}

void Controller::TaskEnded(std::string task, std::string message) {
  loop_->Post([this, task = std::move(task), message = std::move(message)] {
    if (!ending_) Emit(ClusterEvent::Kind::kTaskEnded, task, message);
  });
}

void Controller::GiveUp(absl::Status why) {
  loop_->Post([this, why = std::move(why)] {
    if (ending_) return;
    if (start_done_) {
      FinishStart(why);
    } else {
      FailAll(why);
    }
  });
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
      if (claimed_) workers_[w]->Claim(session_);
      workers_[w]->Start();
    }
    Dispatch();
  });
}

}  // namespace coxswain
