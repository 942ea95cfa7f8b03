// Sessions, set-up, plans, data sets, status. Per-worker values are in worker_values.cc, closures
// in worker_closures.cc.
#include "worker_server/worker_service.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "runtime/base/count_text.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/data/hash.h"
#include "runtime/device/device_runtime.h"
#include "runtime/graph/serialize.h"
#include "runtime/tensor/within_memory.h"
#include "worker_server/data_paths.h"

namespace coxswain::worker {
namespace {

// The same text for the same content, which SerializeAsString does not promise.
template <typename Proto>
std::string Content(const Proto& proto) {
  std::string text;
  google::protobuf::io::StringOutputStream stream(&text);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.SetSerializationDeterministic(true);
  proto.SerializeToCodedStream(&out);
  out.Trim();
  return text;
}

absl::Status SetUpAnew() {
  return WithDetail(absl::UnavailableError("the cluster was set up anew"),
                    {ErrorCause::kTaskLost, true, "", 0});
}

// Whether a channel with these options leads to the same PS as one with `wanted`.
bool SameEnd(const PsChannel::Options& have, const PsChannel::Options& wanted) {
  return have.address == wanted.address && have.incarnation == wanted.incarnation &&
         have.session == wanted.session && have.generation == wanted.generation;
}

// Counts the answers of parameter servers; the last one makes the reply.
class Greetings {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;

  Greetings(int count, Done done) : left_(count), done_(std::move(done)) {}
  void Add(absl::Status status) {
    Done done;
    {
      absl::MutexLock lock(&mu_);
      status_.Update(std::move(status));
      if (--left_ > 0) return;
      done = std::move(done_);
      status = status_;
    }
    done(std::move(status));
  }

 private:
  absl::Mutex mu_;
  int left_ ABSL_GUARDED_BY(mu_);
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  Done done_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

WorkerService::WorkerService(env::Env* env, net::Transport* transport,
                             const graph::OpRegistry* registry, cluster::DaemonOptions options)
    : cluster::Daemon(env, transport, std::move(options)),
      registry_(registry),
      index_parts_(env, loop(), &tasks_, &this->options()) {}

WorkerService::~WorkerService() {
  // On the loop, so that nothing runs beside it.
  loop()->Post([this, token = tasks_.Start()] { OnSessionEnd(); });
  tasks_.Close();
  Stop();
}

void WorkerService::OnSessionStart(Peer* coordinator) {
  loop()->AssertOnLoop();
  // One that comes back has given up what it sent over its old connection.
  CancelRunning();
  index_parts_.Clear();
  ForEachWaiting([](auto* waiting) { waiting->clear(); });
  coordinator_ = coordinator->connection;
}

void WorkerService::OnSessionEnd() {
  loop()->AssertOnLoop();
  CancelRunning();
  const absl::Status reason = WithDetail(absl::CancelledError("the session is over"),
                                         {ErrorCause::kCancelled, false, "", 0});
  for (auto& channel : channels_) {
    if (channel != nullptr) channel->Close(reason);
  }
  channels_.clear();
  generation_ = 0;
  plans_.clear();
  datasets_.clear();
  index_parts_.Clear();
  values_.clear();
  coordinator_ = nullptr;
}

void WorkerService::OnControl(const proto::ControlRequest& request, net::Message message,
                              Reply reply) {
  loop()->AssertOnLoop();
  switch (request.body_case()) {
    case proto::ControlRequest::kSetupWorker:
      SetUp(request.setup_worker(), std::move(reply));
      return;
    case proto::ControlRequest::kRegisterPlan:
      ReplyStatus(reply, PlanReply(AddPlan(request.register_plan())));
      return;
    case proto::ControlRequest::kReleasePlan:
      plans_.erase(request.release_plan().plan());
      ReplyStatus(reply, absl::OkStatus());
      return;
    case proto::ControlRequest::kRegisterDataset:
      AddDataset(request.register_dataset(), std::move(reply));
      return;
    case proto::ControlRequest::kReleaseDataset:
      ReleaseDataset(request.release_dataset().dataset());
      ReplyStatus(reply, absl::OkStatus());
      return;
    case proto::ControlRequest::kIndexPart:
      index_parts_.Handle(request.index_part(), std::move(reply));
      return;
    case proto::ControlRequest::kRegisterValues:
      AddValues(request.register_values(), message, std::move(reply));
      return;
    case proto::ControlRequest::kReleaseValues:
      ReleaseValues(request.release_values().values());
      ReplyStatus(reply, absl::OkStatus());
      return;
    case proto::ControlRequest::kCancelClosures:
      CancelClosures(request.cancel_closures());
      ReplyStatus(reply, absl::OkStatus());
      return;
    default:
      ReplyStatus(reply, absl::UnimplementedError("a worker does not know this request"));
  }
}

// What was released while this worker was cut off.
void WorkerService::DropOthers(const proto::SetupWorker& setup) {
  const auto others = [](const auto& held, const auto& listed) {
    const std::set<uint64_t> keep(listed.begin(), listed.end());
    std::vector<uint64_t> drop;
    for (const auto& [id, entry] : held) {
      if (keep.count(id) == 0) drop.push_back(id);
    }
    return drop;
  };
  for (const uint64_t plan : others(plans_, setup.plans())) plans_.erase(plan);
  for (const uint64_t dataset : others(datasets_, setup.datasets())) ReleaseDataset(dataset);
  for (const uint64_t values : others(values_, setup.values())) ReleaseValues(values);
}

// Answers when every PS has accepted or refused this worker.
void WorkerService::SetUp(const proto::SetupWorker& setup, Reply reply) {
  if (setup.ps_addresses_size() != setup.ps_incarnations_size()) {
    ReplyStatus(reply, absl::InvalidArgumentError("as many addresses as incarnations are wanted"));
    return;
  }
  if (setup.only_these()) DropOthers(setup);
  std::vector<std::shared_ptr<PsChannel>> old = std::move(channels_);
  channels_.clear();
  generation_ = setup.generation();
  int present = 0;
  for (int p = 0; p < setup.ps_addresses_size(); ++p) {
    channels_.emplace_back();
    if (setup.ps_incarnations(p) == 0) continue;
    ++present;
    PsChannel::Options options;
    options.address = setup.ps_addresses(p);
    options.ps = p;
    options.incarnation = setup.ps_incarnations(p);
    options.session = gate().session();
    options.generation = setup.generation();
    options.worker = this->options().task;
    options.worker_incarnation = incarnation();
    options.compute_threads = env()->pool()->threads();
    std::shared_ptr<PsTraffic>& traffic = traffic_[p];
    if (traffic == nullptr) traffic = std::make_shared<PsTraffic>();
    options.traffic = traffic;
    const size_t at = static_cast<size_t>(p);
    if (!setup.new_streams() && at < old.size() && old[at] != nullptr &&
        SameEnd(old[at]->options(), options)) {
      channels_.back() = std::move(old[at]);
    } else {
      channels_.back() =
          std::make_shared<PsChannel>(env(), loop(), transport(), std::move(options));
    }
  }
  // Calls of executions that began before the recovery end now, not when the PS would refuse them.
  for (auto& channel : old) {
    if (channel != nullptr) channel->Close(SetUpAnew());
  }
  if (present == 0) {
    ReplyStatus(reply, absl::OkStatus());
    return;
  }
  auto greetings = std::make_shared<Greetings>(
      present, [reply = std::move(reply)](absl::Status status) { ReplyStatus(reply, status); });
  for (const auto& channel : channels_) {
    if (channel == nullptr) continue;
    channel->Open([greetings](absl::Status status) { greetings->Add(std::move(status)); });
  }
}

absl::Status WorkerService::AddPlan(const proto::RegisterPlan& request) {
  std::string content = Content(request);
  if (const auto known = plans_.find(request.plan());
      known != plans_.end() && known->second->content == content) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(graph::Function function, graph::FromProto(request.worker(), registry_));
  auto plan = std::make_shared<WorkerPlan>();
  plan->id = request.plan();
  plan->content = std::move(content);
  plan->dataset = request.dataset();
  plan->sources.assign(request.sources().begin(), request.sources().end());
  if (plan->sources.size() != function.arguments.size()) {
    return absl::InvalidArgumentError(absl::StrCat("plan ", plan->id, ": ", plan->sources.size(),
                                                   " sources for ", function.arguments.size(),
                                                   " arguments"));
  }
  for (const proto::ArgumentSource& source : plan->sources) {
    if (source.column().empty() && (source.argument() < 0 || source.result() < 0)) {
      return absl::InvalidArgumentError("a plan's argument has a negative number");
    }
    const ValuesId values = source.values();
    if (values != 0 && std::count(plan->values.begin(), plan->values.end(), values) == 0) {
      plan->values.push_back(values);
    }
  }
  for (const graph::Node& node : function.graph.nodes()) {
    if (node.op != function::kPsCallOp) continue;
    const function::PsCallTarget target = function::GetPsCallTarget(node);
    if (target.ps < 0 || target.segment < 0) {
      return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' calls segment ",
                                                     target.segment, " of ps:", target.ps));
    }
    const size_t ps = static_cast<size_t>(target.ps);
    if (plan->ps_calls.size() <= ps) plan->ps_calls.resize(ps + 1);
    plan->ps_calls[ps] = std::max(plan->ps_calls[ps], target.segment + 1);
  }
  RETURN_IF_ERROR(CompilePlan(std::move(function), plan.get()));
  plans_[plan->id] = std::move(plan);
  return absl::OkStatus();
}

// A plan's constants are copied to the GPU, which may be found to be lost then.
absl::Status WorkerService::PlanReply(const absl::Status& status) {
  if (!device::IsDeviceLost(status)) return status;
  OnDeviceLost(status);
  return WithDetail(status, {ErrorCause::kTaskLost, true, TaskName(), incarnation()});
}

// One component for each GPU that a step may begin on, or one for the CPU. A step's GPU:1 is the
// one after its GPU:0, and after the worker's last one comes the first.
absl::Status WorkerService::CompilePlan(graph::Function function, WorkerPlan* plan) {
  const device::DeviceSet* const devices = options().devices.get();
  const bool any = devices != nullptr && !devices->empty();
  if (function.device == DeviceChoice::kGpu && !any) {
    return WithDetail(absl::FailedPreconditionError(absl::StrCat(
                          "function '", function.name, "' is to run on GPUs (train.device: gpu), ",
                          "but ", TaskName(), " has none")),
                      {ErrorCause::kConfiguration, false, TaskName(), incarnation()});
  }
  if (function.device == DeviceChoice::kCpu || !any) {
    ASSIGN_OR_RETURN(auto component, function::CompiledFunction::Compile(std::move(function)));
    plan->components.push_back(std::move(component));
    return absl::OkStatus();
  }
  for (int i = 0; i < devices->size(); ++i) {
    function::CompiledFunction::Devices from_here;
    for (int j = 0; j < devices->size(); ++j) {
      from_here.push_back(devices->device((i + j) % devices->size()));
    }
    ASSIGN_OR_RETURN(auto component,
                     function::CompiledFunction::Compile(function, std::move(from_here)));
    plan->components.push_back(std::move(component));
    // Nothing of it is worth a GPU: then all of them are the same.
    if (plan->components.back()->devices().empty()) break;
  }
  return absl::OkStatus();
}

void WorkerService::OnDeviceLost(const absl::Status& status) {
  if (device_lost_.exchange(true)) return;
  LogError(TaskName(), ": ", status.message());
  if (options().device_lost) options().device_lost(status);
}

void WorkerService::AddDataset(const proto::RegisterDataset& request, Reply reply) {
  proto::DatasetSpec resolved = request.spec();
  if (absl::Status s = ResolvePaths(options().roots, &resolved); !s.ok()) {
    ReplyStatus(reply, Annotate(s, TaskName()));
    return;
  }
  const DatasetId id = request.dataset();
  LoadedDataset& dataset = datasets_[id];
  std::shared_ptr<const proto::DatasetIndex> index;
  if (request.has_index()) index = std::make_shared<const proto::DatasetIndex>(request.index());
  std::string content = Content(request.spec());
  if (index != nullptr) absl::StrAppend(&content, data::HashText(Content(*index)));
  const bool same = dataset.load != 0 && dataset.content == content;
  if (same && (dataset.data != nullptr || dataset.loading)) {
    if (dataset.loading) {
      dataset.replies.push_back(std::move(reply));
    } else {
      ReplyDataset(dataset, reply);
    }
    return;
  }
  // What comes is read from now on; `dataset.memory` is for one after the other. Followed files
  // come while those before are trained on, and each has half of it.
  for (const auto& [other, loaded] : datasets_) {
    const bool beside = request.spec().followed() && request.spec().paths_size() > 0;
    if (other != id && !beside && loaded.data != nullptr) loaded.data->DropBlocks();
  }
  // New, or another one, or it could not be loaded. Closures that wait for this id go on waiting.
  auto token = tasks_.Start();
  if (!token) return;  // this worker ends
  const std::vector<Reply> replaced = std::exchange(dataset.replies, {});
  dataset.content = std::move(content);
  dataset.load = ++last_load_;
  dataset.loading = true;
  dataset.status = absl::OkStatus();
  dataset.data = nullptr;
  dataset.replies.push_back(std::move(reply));
  for (const Reply& r : replaced) {
    ReplyStatus(r, absl::AbortedError(absl::StrCat("data set ", id, " was replaced")));
  }
  env()->pool()->Schedule([this, id, session = gate().session(), load = last_load_,
                           spec = std::move(resolved), index = std::move(index),
                           token = std::move(token)]() mutable {
    const uint64_t reader = static_cast<uint64_t>(options().task) + 1;
    const auto background = [pool = env()->pool()](absl::AnyInvocable<void()> task) {
      pool->Schedule(std::move(task));
    };
    // What is streamed was the coordinator's choice.
    absl::StatusOr<std::shared_ptr<const data::Dataset>> loaded = WithinMemory([&] {
      return index == nullptr
                 ? data::Dataset::LoadInMemory(spec, reader)
                 : data::Dataset::OpenStreamed(spec, std::move(index), reader, background);
    });
    loop()->Post(
        [this, id, session, load, loaded = std::move(loaded), token = std::move(token)]() mutable {
          OnDatasetLoaded(session, id, load, std::move(loaded));
        });
  });
}

void WorkerService::OnDatasetLoaded(SessionId session, DatasetId id, uint64_t load,
                                    absl::StatusOr<std::shared_ptr<const data::Dataset>> data) {
  loop()->AssertOnLoop();
  const auto it = datasets_.find(id);
  if (!gate().Check(session).ok() || it == datasets_.end()) return;  // of a session that is over
  LoadedDataset& dataset = it->second;
  if (dataset.load != load) return;  // it was replaced meanwhile
  dataset.loading = false;
  if (data.ok()) {
    dataset.data = *std::move(data);
  } else {
    dataset.status = Annotate(data.status(), TaskName());
  }
  const std::vector<Reply> replies = std::exchange(dataset.replies, {});
  std::vector<function::ClosureRequest> waiting = std::exchange(dataset.waiting, {});
  for (const Reply& reply : replies) ReplyDataset(dataset, reply);
  for (function::ClosureRequest& request : waiting) RunClosure(std::move(request));
}

void WorkerService::ReleaseDataset(DatasetId id) {
  const auto it = datasets_.find(id);
  if (it == datasets_.end()) return;
  // A coordinator that releases it waits for neither; whoever does hears why.
  const std::vector<Reply> replies = std::exchange(it->second.replies, {});
  const std::vector<function::ClosureRequest> waiting = std::exchange(it->second.waiting, {});
  datasets_.erase(it);
  const absl::Status released =
      WithDetail(absl::CancelledError(absl::StrCat("data set ", id, " was released")),
                 {ErrorCause::kCancelled, false, TaskName(), 0});
  for (const Reply& reply : replies) ReplyStatus(reply, released);
  for (const function::ClosureRequest& request : waiting) Refuse(request, released);
}

void WorkerService::ReplyDataset(const LoadedDataset& dataset, const Reply& reply) {
  if (dataset.data == nullptr) {
    ReplyStatus(reply, dataset.status);
    return;
  }
  proto::ControlReply message;
  message.mutable_dataset_ready()->set_fingerprint(dataset.data->fingerprint());
  for (Part part : {Part::kTraining, Part::kValidation, Part::kTest}) {
    message.mutable_dataset_ready()->add_examples(dataset.data->num_examples(part));
  }
  reply(std::move(message), {});
}

void WorkerService::FillStatus(proto::TaskStatus* status) {
  loop()->AssertOnLoop();
  if (gate().held()) {
    status->set_running(absl::StrCat(CountText(running_.size(), "closure"), " running, ",
                                     CountText(plans_.size(), "plan"), ", ",
                                     CountText(datasets_.size(), "data set")));
  }
  for (const auto& channel : channels_) {
    if (channel == nullptr) continue;
    status->set_bytes_sent(status->bytes_sent() + channel->bytes_sent());
  }
  status->set_closures_run(closures_run_);
  status->set_compute_seconds(env()->pool()->busy_seconds());
  status->set_threads(env()->pool()->threads());
  if (const device::DeviceSet* const devices = options().devices.get(); devices != nullptr) {
    for (int i = 0; i < devices->size(); ++i) status->add_gpus(devices->device(i)->name());
  }
}

void WorkerService::SendMetrics(proto::TaskStatus status, const MetricsDone& done) {
  FillStatus(&status);
  WorkerReading reading;
  reading.ended = &ended_;
  reading.running = running_.size();
  for (const auto& [ps, traffic] : traffic_) {
    reading.traffic[ps] = {traffic->bytes_sent.load(), traffic->bytes_received.load()};
  }
  if (const device::DeviceSet* const devices = options().devices.get(); devices != nullptr) {
    for (int i = 0; i < devices->size(); ++i) {
      reading.gpus.push_back({devices->device(i)->name(), devices->device(i)->memory_bytes()});
    }
  }
  done(WorkerFamilies(MetricsPrefix(), status, reading));
}

}  // namespace coxswain::worker
