// The controller and workers: set-up, loss and return.

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"

namespace coxswain::core {
namespace {

// A worker that could not be set up is tried again after this time, because the cause may be
// temporary: its connection to a PS, or a file that does not exist yet.
constexpr absl::Duration kSetUpRetryDelay = absl::Seconds(1);

}  // namespace

void Controller::OnWorkerUp(int worker) {
  loop_.AssertOnLoop();
  tasks_.NotRefused(tasks_.workers()[worker]->name());
  if (recovery_.running() && AllPsUp()) SetUpWorker(worker);
}

std::vector<RequestToWorker> Controller::WorkerSetUpRequests(int worker) const {
  std::vector<RequestToWorker> requests(1);
  proto::SetupWorker* setup = requests[0].request.mutable_setup_worker();
  setup->set_generation(layout_.generation());
  setup->set_new_streams(worker_table_.new_streams(worker));
  for (const auto& p : tasks_.ps()) {
    setup->add_ps_addresses(p->address());
    setup->add_ps_incarnations(layout_.absent(p->task()) ? 0 : p->incarnation().number());
  }
  for (auto& request : datasets_.Requests()) requests.push_back({std::move(request), {}});
  for (auto& request : values_.Requests()) requests.push_back(std::move(request));
  for (auto& request : plans_.AllForWorker()) requests.push_back({std::move(request), {}});
  setup = requests[0].request.mutable_setup_worker();
  setup->set_only_these(true);
  for (const RequestToWorker& each : requests) {
    const proto::ControlRequest& request = each.request;
    if (request.has_register_dataset()) setup->add_datasets(request.register_dataset().dataset());
    if (request.has_register_values()) setup->add_values(request.register_values().values());
    if (request.has_register_plan()) setup->add_plans(request.register_plan().plan());
  }
  return requests;
}

// Sets up a new or returned worker like the others, with O(1) calls. State that it already has
// costs nothing.
void Controller::SetUpWorker(int worker) {
  loop_.AssertOnLoop();
  auto& session = tasks_.workers()[worker];
  const WorkerTable::SetUpId setup = worker_table_.SetUp(worker);
  auto gather = NewStatusGather([this, worker, setup](absl::Status status) {
    if (life_.ending() || !worker_table_.IsCurrent(worker, setup) ||
        !tasks_.workers()[worker]->up())
      return;
    if (status.ok()) {
      OnWorkerReady(worker);
      return;
    }
    // It is tried once a second, and told once.
    if (tasks_.Refused(tasks_.workers()[worker]->name(), status)) {
      LogWarning(tasks_.workers()[worker]->name(), " cannot be set up: ", status.message());
    }
    RetrySetUp(worker, kSetUpRetryDelay);
  });
  for (RequestToWorker& set_up : WorkerSetUpRequests(worker)) {
    const DatasetId dataset = set_up.request.register_dataset().dataset();
    session->Request(
        std::move(set_up.request), std::move(set_up.payload),
        [this, dataset, count = gather->Add<TaskSession::Response>()](
            absl::StatusOr<TaskSession::Response> response) {
          if (response.ok() && response->reply.has_dataset_ready() && !life_.ending()) {
            const absl::Status same = datasets_.Check(dataset, response->reply.dataset_ready());
            if (!same.ok()) response = same;
          }
          count(std::move(response));
        });
  }
  gather->Finish();
}

void Controller::RetrySetUp(int worker, absl::Duration delay) {
  loop_.PostAfter(delay, [this, worker, setup = worker_table_.SetUp(worker)] {
    if (!worker_table_.IsCurrent(worker, setup)) return;
    if (tasks_.workers()[worker]->up() && recovery_.running() && AllPsUp()) SetUpWorker(worker);
  });
}

void Controller::OnWorkerReady(int worker) {
  const absl::Duration now = env_->Monotonic();
  const WorkerTable::Arrival arrival = worker_table_.Ready(worker, layout_.generation(), now);
  tasks_.NotRefused(tasks_.workers()[worker]->name());
  // All PS have accepted it again, and none was lost meanwhile, so the closures that ran here may
  // be the cause.
  closures_.AddWorker(worker, arrival.broken, now);
  if (arrival.away) {
    failures_.TaskBack(*arrival.away);
    Emit(ClusterEvent::Kind::kWorkerJoined, tasks_.workers()[worker]->name(),
         absl::StrCat("is back after ",
                      absl::FormatDuration(absl::Floor(*arrival.away, absl::Milliseconds(1)))));
  } else if (arrival.joined) {
    Emit(ClusterEvent::Kind::kWorkerJoined, tasks_.workers()[worker]->name(),
         absl::StrCat("joins at ", tasks_.workers()[worker]->address()));
  }
  failures_.ClosuresRun(now);
  if (!recovery_.moving()) EndPause();
  CheckStarted(false);
  Dispatch();
}

// The worker is up, but has lost its connection to a PS, or has given up its closures. It is set up
// again, which succeeds once it can reach the PS, and its closures run elsewhere.
void Controller::OnWayLost(int worker, const absl::Status& status) {
  tasks_.Refused(tasks_.workers()[worker]->name(),
                 Annotate(status, tasks_.workers()[worker]->name()));
  const auto detail = GetDetail(status);
  const bool by_way = detail && detail->cause == ErrorCause::kTaskLost;
  std::vector<ClosureId> broken;
  if (by_way) broken = closures_.WayLost(worker, status);
  const WorkerTable::LostWay lost = worker_table_.WayLost(worker, broken, layout_.generation());
  const int closures = TakeOut(worker, /*blame=*/false);
  if (lost.say) {
    LogWarning(tasks_.workers()[worker]->name(), " is set up again and its ", closures,
               " closures run elsewhere, for the ", lost.times,
               ". time without one that was completed: ", status.message());
  }
  RetrySetUp(worker, lost.wait);
}

int Controller::TakeOut(int worker, bool blame) {
  const int requeued = closures_.RemoveWorker(worker, blame, env_->Monotonic());
  if (requeued > 0) DropCancelled();
  return requeued;
}

void Controller::GiveUpQuarantined(absl::Duration now) {
  for (ClosureId id : closures_.TakeQuarantined(now)) {
    const ClosureTable::Closure* closure = closures_.Find(id);
    if (closure == nullptr) continue;
    ++failures_.stats().quarantined;
    const size_t w = static_cast<size_t>(closure->worker);
    const std::string worker = w < tasks_.workers().size() ? tasks_.workers()[w]->name() : "";
    const absl::Status way_lost = closure->way_lost;
    const absl::Status status = WithDetail(
        absl::AbortedError(absl::StrCat(
            closures_.Describe(id), " ran ", options_.recovery.quarantine_after,
            " times on workers that were lost", way_lost.ok() ? "" : " or lost their way to a PS",
            ", the last time alone; it is not run again",
            way_lost.ok() ? "" : absl::StrCat(". The last time: ", way_lost.message()))),
        {ErrorCause::kQuarantined, false, worker, 0});
    Emit(ClusterEvent::Kind::kQuarantined, worker, std::string(status.message()));
    Resolve(id, status);
  }
}

void Controller::OnWorkerDown(int worker, const absl::Status& status) {
  loop_.AssertOnLoop();
  const auto detail = GetDetail(status);
  const bool asked_to_end = detail && detail->cause == ErrorCause::kTerminated;
  if (worker_table_.Lost(worker, env_->Monotonic())) ++failures_.stats().workers_lost;
  const int closures = TakeOut(worker, /*blame=*/!asked_to_end);
  if (life_.started()) {
    Emit(ClusterEvent::Kind::kWorkerLost, tasks_.workers()[worker]->name(),
         absl::StrCat("is lost, its ", closures, " closures run elsewhere: ", status.message()));
  }
  Dispatch();
}

void Controller::OnWorkerData(int worker, net::Message message) {
  loop_.AssertOnLoop();
  const bool progress = message.type == static_cast<uint16_t>(net::MessageType::kClosureProgress);
  auto reply = function::DecodeClosureReply(std::move(message));
  if (!reply.ok()) {
    LogWarning(tasks_.workers()[worker]->name(),
               " sent what is no reply: ", reply.status().message());
    return;
  }
  if (reply->session != hold_.id()) return;
  const absl::Duration now = env_->Monotonic();
  closures_.Progress(reply->closure, reply->attempt, reply->steps_done, now);
  if (progress) return;
  if (!reply->status.ok()) {
    OnClosureFailed(worker, *std::move(reply));
    return;
  }
  worker_table_.Answered(worker);
  OnClosureDone(worker, *std::move(reply), now);
}

void Controller::ExpectIncarnation(std::string address, Incarnation incarnation) {
  loop_.Post(
      [this, address = std::move(address), incarnation] { tasks_.Expect(address, incarnation); });
}

void Controller::TaskEnded(std::string task, std::string message) {
  loop_.Post([this, task = std::move(task), message = std::move(message)] {
    if (!life_.ending()) Emit(ClusterEvent::Kind::kTaskEnded, task, message);
  });
}

void Controller::GiveUp(absl::Status why) {
  loop_.Post([this, why = std::move(why)] {
    if (life_.ending()) return;
    if (life_.starting()) {
      FinishStart(why);
    } else {
      FailAll(why);
    }
  });
}

void Controller::UpdateWorkers(std::vector<std::string> addresses) {
  loop_.Post([this, addresses = std::move(addresses)] {
    const auto let_go = [this](int worker) {
      worker_table_.LetGo(worker);
      TakeOut(worker, /*blame=*/false);
      proto::ControlRequest goodbye;
      goodbye.mutable_end_session();
      tasks_.workers()[worker]->Request(std::move(goodbye), {}, [](auto) {});
      tasks_.workers()[worker]->Stop();
      tasks_.NotRefused(tasks_.workers()[worker]->name());
    };
    for (size_t w = 0; w < tasks_.workers().size(); ++w) {
      if (w < addresses.size() && tasks_.workers()[w]->address() == addresses[w]) continue;
      let_go(static_cast<int>(w));
      Emit(ClusterEvent::Kind::kWorkerLost, tasks_.workers()[w]->name(), "was let go");
    }
    const size_t before = tasks_.workers().size();
    tasks_.ResizeWorkers(addresses.size());
    worker_table_.Resize(static_cast<int>(addresses.size()));
    for (size_t w = 0; w < addresses.size(); ++w) {
      if (w < before && tasks_.workers()[w]->address() == addresses[w]) continue;
      worker_table_.Replace(static_cast<int>(w));
      TaskSession* const joins = tasks_.NewWorker(static_cast<int>(w), addresses[w]);
      if (hold_.taken()) joins->Claim(hold_.session());
      joins->Start();
    }
    Dispatch();
  });
}

}  // namespace coxswain::core
