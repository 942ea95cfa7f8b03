// How a worker runs and ends closures.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/tensor/within_memory.h"
#include "worker_server/worker_service.h"

namespace coxswain::worker {

void WorkerService::OnData(Peer* peer, net::Message message) {
  loop()->AssertOnLoop();
  if (message.type != static_cast<uint16_t>(net::MessageType::kRunClosure) ||
      peer->role != proto::COORDINATOR) {
    peer->connection->Close(absl::InvalidArgumentError(
        absl::StrCat("a worker does not take messages of type ", message.type)));
    return;
  }
  auto request = WithinMemory([&] { return function::DecodeClosureRequest(std::move(message)); });
  if (!request.ok()) {
    peer->connection->Close(request.status());
    return;
  }
  if (!gate().Check(request->session).ok())
    return;  // the older coordinator is gone: no reply is needed
  // Sent before a recovery, and late: the coordinator has assigned it to another worker, or will.
  if (request->generation != generation_) return;
  env()->FaultPoint("worker.closure.received");
  RunClosure(*std::move(request));
}

void WorkerService::Refuse(const function::ClosureRequest& request, absl::Status status) {
  if (!GetDetail(status)) {
    status = WithDetail(std::move(status), {ErrorCause::kApplication, false, TaskName(), 0});
  }
  function::ClosureReply reply;
  reply.session = request.session;
  reply.closure = request.closure;
  reply.attempt = request.attempt;
  reply.steps_done = request.first_step;
  reply.status = std::move(status);
  if (coordinator_ != nullptr) coordinator_->Send(function::Encode(std::move(reply)));
}

void WorkerService::RunClosure(function::ClosureRequest request) {
  loop()->AssertOnLoop();
  std::shared_ptr<const data::Dataset> data;
  if (request.dataset != 0) {
    const auto it = datasets_.find(request.dataset);
    if (it == datasets_.end()) {
      Refuse(request, absl::NotFoundError(absl::StrCat("no data set ", request.dataset)));
      return;
    }
    if (it->second.loading) {
      it->second.waiting.push_back(std::move(request));
      return;
    }
    if (!it->second.status.ok()) {
      Refuse(request, it->second.status);
      return;
    }
    data = it->second.data;
  }
  ValuesOfPlan values;
  if (!TakeValues(&request, &values)) return;
  Launch(std::move(request), std::move(data), std::move(values));
}

void WorkerService::Launch(function::ClosureRequest request,
                           std::shared_ptr<const data::Dataset> data, ValuesOfPlan values) {
  const auto plan = plans_.find(request.plan);
  if (plan == plans_.end()) {
    Refuse(request, absl::NotFoundError(absl::StrCat("no plan ", request.plan)));
    return;
  }
  if (request.first_step >= request.steps) {
    Refuse(request, absl::InvalidArgumentError(absl::StrCat("a closure of ", request.steps,
                                                            " steps cannot start at step ",
                                                            request.first_step)));
    return;
  }
  if (request.sync && request.steps != 1) {
    Refuse(request, absl::InvalidArgumentError(absl::StrCat(
                        "a closure of a synchronous step has 1 step, found ", request.steps)));
    return;
  }
  auto token = tasks_.Start();
  if (!token) return;  // this worker ends
  const std::pair<ClosureId, uint64_t> key{request.closure, ++last_launch_};
  Execution::Options options;
  options.plan = plan->second;
  options.data = std::move(data);
  options.values = std::move(values);
  options.channels = channels_;
  options.task = TaskName();
  options.trace = trace();
  options.device_lost = [this](const absl::Status& status) { OnDeviceLost(status); };
  options.ps_in_process = transport()->in_process();
  options.progress = [connection = coordinator_](function::ClosureReply reply) {
    if (connection != nullptr) connection->Send(function::EncodeProgress(std::move(reply)));
  };
  options.done = [this, connection = coordinator_, key, plan = plan->second,
                  first_step = request.first_step,
                  token = std::move(token)](function::ClosureReply reply) mutable {
    env()->FaultPoint("worker.closure.done");
    ++closures_run_;  // before anybody hears that it is done, and asks
    ended_.Count(reply.status, reply.steps_done - std::min(first_step, reply.steps_done));
    if (connection != nullptr) SendDone(connection.get(), *plan, std::move(reply));
    loop()->Post([this, key, token = std::move(token)] { running_.erase(key); });
  };
  auto execution = std::make_shared<Execution>(std::move(request), env(), std::move(options));
  running_[key] = execution;
  execution->Start();
}

void WorkerService::SendDone(net::Connection* connection, const WorkerPlan& plan,
                             function::ClosureReply reply) {
  function::ClosureReply refusal;
  refusal.session = reply.session;
  refusal.closure = reply.closure;
  refusal.attempt = reply.attempt;
  refusal.steps_done = reply.steps_done;
  net::Message message = function::Encode(std::move(reply));
  if (const size_t bytes = message.wire_bytes(); bytes > connection->max_message_bytes()) {
    refusal.status = function::TooLargeToSend(
        absl::StrCat("what function '", plan.any().function().name, "' returns"), bytes,
        connection->max_message_bytes(), TaskName(), incarnation());
    message = function::Encode(std::move(refusal));
  }
  connection->Send(std::move(message));
}

void WorkerService::ForEachWaiting(
    const std::function<void(std::vector<function::ClosureRequest>*)>& visit) {
  for (auto& [id, dataset] : datasets_) visit(&dataset.waiting);
  for (auto& [id, values] : values_) visit(&values.waiting);
}

void WorkerService::CancelRunning() {
  for (auto& [key, weak] : running_) {
    if (auto execution = weak.lock()) execution->Cancel();
  }
}

void WorkerService::CancelClosures(const proto::CancelClosures& cancel) {
  const std::set<ClosureId> closures(cancel.closures().begin(), cancel.closures().end());
  const auto wanted = [&](ClosureId id) { return closures.empty() || closures.contains(id); };
  for (auto& [key, weak] : running_) {
    if (!wanted(key.first)) continue;
    if (auto execution = weak.lock()) execution->Cancel();
  }
  std::vector<function::ClosureRequest> cancelled;
  ForEachWaiting([&](std::vector<function::ClosureRequest>* waiting) {
    std::vector<function::ClosureRequest> left;
    for (function::ClosureRequest& request : *waiting) {
      (wanted(request.closure) ? cancelled : left).push_back(std::move(request));
    }
    *waiting = std::move(left);
  });
  for (const function::ClosureRequest& request : cancelled) {
    Refuse(request, WithDetail(absl::CancelledError("cancelled"),
                               {ErrorCause::kCancelled, false, TaskName(), 0}));
  }
}

}  // namespace coxswain::worker
