#include "ps_server/ps_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/graph/serialize.h"

namespace coxswain {

PsService::PsService(Env* env, Transport* transport, const OpRegistry* registry,
                     DaemonOptions options)
    : Daemon(env, transport, std::move(options)), registry_(registry) {}

PsService::~PsService() {
  {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](int* out) { return *out == 0; }, &tasks_out_));
  }
  Stop();
}

void PsService::OnSessionStart(Peer*) {}

void PsService::OnSessionEnd() {
  store_.Clear();
  plans_.clear();
}

void PsService::OnControl(const proto::ControlRequest& request, Message message, Reply reply) {
  switch (request.body_case()) {
    case proto::ControlRequest::kCreateShards:
      CreateShards(request.create_shards(), std::move(reply));
      return;
    case proto::ControlRequest::kRegisterPlan:
      ReplyStatus(reply, AddPlan(request.register_plan()));
      return;
    case proto::ControlRequest::kReleasePlan:
      plans_.erase(request.release_plan().plan());
      ReplyStatus(reply, absl::OkStatus());
      return;
    case proto::ControlRequest::kReadRows:
      ReadRows(request.read_rows(), reply);
      return;
    case proto::ControlRequest::kWriteRows:
      ReplyStatus(reply, WriteRows(request.write_rows(), message));
      return;
    default:
      ReplyStatus(reply, absl::UnimplementedError("a PS does not know this request"));
  }
}

absl::StatusOr<bool> PsService::HasShard(const proto::ShardSpec& spec) const {
  const auto shard = store_.Get(spec.id());
  if (!shard.ok()) return false;
  if ((*shard)->spec().SerializeAsString() == spec.SerializeAsString()) return true;
  return absl::AlreadyExistsError(absl::StrCat("shard ", spec.id(), " of variable '",
                                               spec.variable().name(),
                                               "' is there with another specification"));
}

void PsService::CreateShards(const proto::CreateShards& request, Reply reply) {
  std::vector<proto::ShardSpec> specs;
  for (const proto::ShardSpec& spec : request.shards()) {
    const auto has = HasShard(spec);
    if (!has.ok()) {
      ReplyStatus(reply, has.status());
      return;
    }
    if (!*has) specs.push_back(spec);
  }
  {
    absl::MutexLock lock(&mu_);
    ++tasks_out_;
  }
  env()->pool()->Schedule(
      [this, epoch = gate().epoch(), specs = std::move(specs), reply = std::move(reply)]() mutable {
        absl::StatusOr<std::vector<std::unique_ptr<Shard>>> shards =
            std::vector<std::unique_ptr<Shard>>();
        for (const proto::ShardSpec& spec : specs) {
          auto shard = Shard::Create(spec);
          if (!shard.ok()) {
            shards = shard.status();
            break;
          }
          shards->push_back(*std::move(shard));
        }
        loop()->Post([this, epoch, shards = std::move(shards), reply = std::move(reply)]() mutable {
          OnShardsMade(epoch, std::move(shards), reply);
          absl::MutexLock lock(&mu_);
          --tasks_out_;
        });
      });
}

void PsService::OnShardsMade(Epoch epoch,
                             absl::StatusOr<std::vector<std::unique_ptr<Shard>>> shards,
                             const Reply& reply) {
  absl::Status status = gate().Check(epoch);
  if (status.ok()) status = shards.status();
  if (status.ok()) {
    for (std::unique_ptr<Shard>& shard : *shards) {
      const auto has = HasShard(shard->spec());
      status = has.status();
      if (has.ok() && !*has) status = store_.Add(std::move(shard));
      if (!status.ok()) break;
    }
  }
  ReplyStatus(reply, status);
}

absl::Status PsService::AddPlan(const proto::RegisterPlan& request) {
  Segments segments;
  for (const proto::FunctionProto& proto : request.segments()) {
    ASSIGN_OR_RETURN(Function function, FromProto(proto, registry_));
    ASSIGN_OR_RETURN(auto compiled,
                     CompiledFunction::Compile(std::move(function), DeviceType::kCpu));
    if (compiled->has_ps_calls()) {
      return absl::InvalidArgumentError("a segment of a PS cannot call a PS");
    }
    segments.push_back(std::move(compiled));
  }
  plans_[request.plan()] = std::move(segments);
  return absl::OkStatus();
}

void PsService::ReadRows(const proto::ReadRows& request, const Reply& reply) {
  auto shard = store_.Get(request.shard());
  if (!shard.ok()) {
    ReplyStatus(reply, shard.status());
    return;
  }
  auto rows = (*shard)->ReadRows(request.begin(), request.count(), request.slot());
  if (!rows.ok()) {
    ReplyStatus(reply, rows.status());
    return;
  }
  proto::ControlReply message;
  message.mutable_rows_read()->set_dtype(static_cast<int>(rows->dtype()));
  *message.mutable_rows_read()->mutable_shape() = ToProto(rows->shape());
  reply(std::move(message), {rows->buffer().Slice(0, rows->bytes())});
}

absl::Status PsService::WriteRows(const proto::WriteRows& request, const Message& message) {
  ASSIGN_OR_RETURN(Shard * shard, store_.Get(request.shard()));
  ASSIGN_OR_RETURN(Tensor rows, PayloadTensor(message, request.dtype(), request.shape()));
  return shard->WriteRows(request.begin(), rows, request.slot());
}

void PsService::OnData(Peer* peer, Message message) {
  if (message.type != static_cast<uint16_t>(MessageType::kFrame) || peer->role != proto::WORKER) {
    peer->connection->Close(absl::InvalidArgumentError(
        absl::StrCat("a PS does not take messages of type ", message.type)));
    return;
  }
  auto request = DecodeSegmentRequest(std::move(message));
  if (!request.ok()) {
    peer->connection->Close(request.status());
    return;
  }
  SegmentReply reply;
  reply.call = request->call;
  if (absl::Status s = gate().Check(request->epoch); !s.ok()) {
    reply.status = std::move(s);
  } else {
    auto results = RunSegment(*std::move(request));
    if (results.ok()) {
      reply.tensors = *std::move(results);
    } else {
      reply.status = Annotate(results.status(), TaskName());
      if (!GetDetail(reply.status)) {
        reply.status =
            WithDetail(reply.status, {ErrorCause::kApplication, false, TaskName(), incarnation()});
      }
    }
  }
  for (const Tensor& t : reply.tensors) bytes_sent_ += t.bytes();
  peer->connection->Send(Encode(std::move(reply)));
}

absl::StatusOr<std::vector<Tensor>> PsService::RunSegment(SegmentRequest request) {
  const auto plan = plans_.find(request.plan);
  if (plan == plans_.end() || request.segment >= plan->second.size()) {
    return absl::NotFoundError(
        absl::StrCat("no segment ", request.segment, " of plan ", request.plan));
  }
  ++segments_run_;
  SegmentTransaction transaction(&store_);
  RunOptions options;
  options.step = {request.epoch, request.closure, request.step, request.seed};
  options.pool = env()->pool();
  options.variables = &transaction;
  ASSIGN_OR_RETURN(auto results,
                   plan->second[request.segment]->Run(std::move(request.tensors), options));
  const CommitResult commit = transaction.Commit(request.closure, request.step, request.segment);
  if (commit.gone > 0) {
    return WithDetail(absl::UnavailableError("a shard went away during the step"),
                      {ErrorCause::kTaskLost, true, TaskName(), incarnation()});
  }
  return results;
}

void PsService::FillStatus(proto::TaskStatus* status) {
  for (const ShardStats& s : store_.Stats()) {
    proto::ShardStatus* shard = status->add_shards();
    shard->set_shard(s.id);
    shard->set_variable(s.variable);
    shard->set_rows(s.rows);
    shard->set_bytes(s.bytes);
    shard->set_updates_applied(static_cast<uint64_t>(s.applied));
    shard->set_duplicates_dropped(static_cast<uint64_t>(s.duplicates));
    status->set_rows(status->rows() + s.rows);
    status->set_bytes(status->bytes() + s.bytes);
  }
  if (gate().held()) {
    status->set_running(absl::StrCat(store_.size(), " shards, ", segments_run_, " segments run"));
  }
  status->set_segments_run(segments_run_);
  status->set_compute_seconds(env()->pool()->busy_seconds());
  status->set_threads(env()->pool()->threads());
}

}  // namespace coxswain
