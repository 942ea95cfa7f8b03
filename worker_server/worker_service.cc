#include "worker_server/worker_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/graph/serialize.h"

namespace coxswain {

WorkerService::WorkerService(Env* env, Transport* transport, const OpRegistry* registry,
                             DaemonOptions options)
    : Daemon(env, transport, std::move(options)), registry_(registry) {}

WorkerService::~WorkerService() {
  // On the loop, so that nothing runs beside it.
  loop()->Post([this] { OnSessionEnd(); });
  {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](int* out) { return *out == 0; }, &tasks_out_));
  }
  Stop();
}

void WorkerService::OnSessionStart(Peer* coordinator) { coordinator_ = coordinator->connection; }

void WorkerService::OnSessionEnd() {
  for (auto& [id, weak] : running_) {
    if (auto execution = weak.lock()) execution->Cancel();
  }
  running_.clear();
  const absl::Status reason = WithDetail(absl::CancelledError("the session is over"),
                                         {ErrorCause::kCancelled, false, "", 0});
  for (auto& channel : channels_) channel->Close(reason);
  channels_.clear();
  plans_.clear();
  datasets_.clear();
  coordinator_ = nullptr;
}

void WorkerService::OnControl(const proto::ControlRequest& request, Message, Reply reply) {
  switch (request.body_case()) {
    case proto::ControlRequest::kSetupWorker:
      SetUp(request.setup_worker(), std::move(reply));
      return;
    case proto::ControlRequest::kRegisterPlan:
      ReplyStatus(reply, AddPlan(request.register_plan()));
      return;
    case proto::ControlRequest::kReleasePlan:
      plans_.erase(request.release_plan().plan());
      ReplyStatus(reply, absl::OkStatus());
      return;
    case proto::ControlRequest::kRegisterDataset:
      AddDataset(request.register_dataset(), std::move(reply));
      return;
    case proto::ControlRequest::kCancelClosures:
      CancelClosures(request.cancel_closures());
      ReplyStatus(reply, absl::OkStatus());
      return;
    default:
      ReplyStatus(reply, absl::UnimplementedError("a worker does not know this request"));
  }
}

// Answers when every PS has accepted this worker, or the first has not.
void WorkerService::SetUp(const proto::SetupWorker& setup, Reply reply) {
  if (setup.ps_addresses_size() != setup.ps_incarnations_size()) {
    ReplyStatus(reply, absl::InvalidArgumentError("as many addresses as incarnations are wanted"));
    return;
  }
  for (auto& channel : channels_) {
    channel->Close(WithDetail(absl::UnavailableError("the cluster was set up anew"),
                              {ErrorCause::kTaskLost, true, "", 0}));
  }
  channels_.clear();
  struct Pending {
    absl::Mutex mu;
    int left ABSL_GUARDED_BY(mu);
    absl::Status status ABSL_GUARDED_BY(mu);
  };
  auto pending = std::make_shared<Pending>();
  {
    absl::MutexLock lock(&pending->mu);
    pending->left = setup.ps_addresses_size();
  }
  if (setup.ps_addresses_size() == 0) ReplyStatus(reply, absl::OkStatus());
  for (int p = 0; p < setup.ps_addresses_size(); ++p) {
    PsChannel::Options options;
    options.address = setup.ps_addresses(p);
    options.ps = p;
    options.incarnation = setup.ps_incarnations(p);
    options.epoch = gate().epoch();
    options.worker = this->options().task;
    options.worker_incarnation = incarnation();
    auto channel = std::make_shared<PsChannel>(env(), transport(), std::move(options));
    channels_.push_back(channel);
    channel->Open([pending, reply](absl::Status status) {
      absl::Status result;
      {
        absl::MutexLock lock(&pending->mu);
        if (pending->status.ok()) pending->status = status;
        if (--pending->left > 0) return;
        result = pending->status;
      }
      ReplyStatus(reply, result);
    });
  }
}

absl::Status WorkerService::AddPlan(const proto::RegisterPlan& request) {
  ASSIGN_OR_RETURN(Function function, FromProto(request.worker(), registry_));
  auto plan = std::make_shared<WorkerPlan>();
  plan->id = request.plan();
  plan->dataset = request.dataset();
  plan->sources.assign(request.sources().begin(), request.sources().end());
  if (plan->sources.size() != function.arguments.size()) {
    return absl::InvalidArgumentError(absl::StrCat("plan ", plan->id, ": ", plan->sources.size(),
                                                   " sources for ", function.arguments.size(),
                                                   " arguments"));
  }
  for (const proto::ArgumentSource& source : plan->sources) {
    if (source.column().empty() && source.argument() < 0) {
      return absl::InvalidArgumentError("a plan's argument has a negative number");
    }
  }
  ASSIGN_OR_RETURN(plan->component,
                   CompiledFunction::Compile(std::move(function), DeviceType::kCpu));
  plans_[plan->id] = std::move(plan);
  return absl::OkStatus();
}

void WorkerService::AddDataset(const proto::RegisterDataset& request, Reply reply) {
  const DatasetId id = request.dataset();
  datasets_[id] = LoadedDataset{};
  {
    absl::MutexLock lock(&mu_);
    ++tasks_out_;
  }
  env()->pool()->Schedule([this, id, epoch = gate().epoch(), spec = request.spec(),
                           reply = std::move(reply)]() mutable {
    absl::StatusOr<std::shared_ptr<const Dataset>> loaded = Dataset::Load(spec);
    loop()->Post([this, id, epoch, loaded = std::move(loaded), reply = std::move(reply)]() mutable {
      OnDatasetLoaded(epoch, id, std::move(loaded), reply);
      absl::MutexLock lock(&mu_);
      --tasks_out_;
    });
  });
}

void WorkerService::OnDatasetLoaded(Epoch epoch, DatasetId id,
                                    absl::StatusOr<std::shared_ptr<const Dataset>> data,
                                    const Reply& reply) {
  const auto it = datasets_.find(id);
  if (!gate().Check(epoch).ok() || it == datasets_.end()) return;  // of a session that is over
  it->second.loading = false;
  std::vector<ClosureRequest> waiting = std::move(it->second.waiting);
  if (data.ok()) {
    it->second.data = *std::move(data);
    proto::ControlReply message;
    message.mutable_dataset_ready()->set_fingerprint(it->second.data->fingerprint());
    for (Part part : {Part::kTraining, Part::kValidation, Part::kTest}) {
      message.mutable_dataset_ready()->add_examples(it->second.data->num_examples(part));
    }
    reply(std::move(message), {});
  } else {
    it->second.status = Annotate(data.status(), TaskName());
    ReplyStatus(reply, it->second.status);
  }
  for (ClosureRequest& request : waiting) RunClosure(std::move(request));
}

void WorkerService::OnData(Peer* peer, Message message) {
  if (message.type != static_cast<uint16_t>(MessageType::kRunClosure) ||
      peer->role != proto::COORDINATOR) {
    peer->connection->Close(absl::InvalidArgumentError(
        absl::StrCat("a worker does not take messages of type ", message.type)));
    return;
  }
  auto request = DecodeClosureRequest(std::move(message));
  if (!request.ok()) {
    peer->connection->Close(request.status());
    return;
  }
  if (!gate().Check(request->epoch).ok()) return;  // the older coordinator is gone: nobody to tell
  RunClosure(*std::move(request));
}

void WorkerService::Refuse(const ClosureRequest& request, absl::Status status) {
  ClosureReply reply;
  reply.epoch = request.epoch;
  reply.closure = request.closure;
  reply.attempt = request.attempt;
  reply.status = WithDetail(std::move(status), {ErrorCause::kApplication, false, TaskName(), 0});
  if (coordinator_ != nullptr) coordinator_->Send(Encode(std::move(reply)));
}

void WorkerService::RunClosure(ClosureRequest request) {
  std::shared_ptr<const Dataset> data;
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
  Launch(std::move(request), std::move(data));
}

void WorkerService::Launch(ClosureRequest request, std::shared_ptr<const Dataset> data) {
  const auto plan = plans_.find(request.plan);
  if (plan == plans_.end()) {
    Refuse(request, absl::NotFoundError(absl::StrCat("no plan ", request.plan)));
    return;
  }
  if (request.steps == 0) {
    Refuse(request, absl::InvalidArgumentError("a closure of no steps"));
    return;
  }
  const ClosureId id = request.closure;
  {
    absl::MutexLock lock(&mu_);
    ++tasks_out_;
  }
  auto execution = std::make_shared<Execution>(
      std::move(request), plan->second, std::move(data), channels_, TaskName(), env()->pool(),
      [this, connection = coordinator_, id](ClosureReply reply) {
        if (connection != nullptr) connection->Send(Encode(std::move(reply)));
        loop()->Post([this, id] {
          running_.erase(id);
          ++closures_run_;
          absl::MutexLock lock(&mu_);
          --tasks_out_;
        });
      });
  running_[id] = execution;
  execution->Start();
}

void WorkerService::CancelClosures(const proto::CancelClosures& cancel) {
  if (cancel.closures().empty()) {
    for (auto& [id, weak] : running_) {
      if (auto execution = weak.lock()) execution->Cancel();
    }
  }
  for (ClosureId id : cancel.closures()) {
    const auto it = running_.find(id);
    if (it == running_.end()) continue;
    if (auto execution = it->second.lock()) execution->Cancel();
  }
}

void WorkerService::FillStatus(proto::TaskStatus* status) {
  if (gate().held()) {
    status->set_running(absl::StrCat(running_.size(), " closures running, ", plans_.size(),
                                     " plans, ", datasets_.size(), " data sets"));
  }
  for (const auto& channel : channels_) {
    status->set_bytes_sent(status->bytes_sent() + channel->bytes_sent());
  }
  status->set_closures_run(closures_run_);
  status->set_compute_seconds(env()->pool()->busy_seconds());
  status->set_threads(env()->pool()->threads());
}

}  // namespace coxswain
