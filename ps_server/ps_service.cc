#include "ps_server/ps_service.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/graph/serialize.h"

namespace coxswain {
namespace {

double ToSeconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

}  // namespace

PsService::PsService(Env* env, Transport* transport, const OpRegistry* registry,
                     DaemonOptions options)
    : Daemon(env, transport, std::move(options)), registry_(registry) {}

// What came of the files of one request.
struct PsService::Restore {
  Ticket ticket;
  Reply reply;
  std::vector<absl::StatusOr<LoadedShard>> shards;  // as in the request
  size_t left = 0;                                  // not read yet
};

PsService::~PsService() {
  tasks_.Close();
  Stop();
}

void PsService::OnSessionStart(Peer*) {}

void PsService::OnSessionEnd() {
  EndSetup();
  generation_ = 0;
  store_.Clear();
  plans_.clear();
}

absl::Status PsService::Overtaken() const {
  return WithDetail(absl::AbortedError("overtaken by a new session or by a recovery"),
                    {ErrorCause::kCancelled, true, TaskName(), incarnation()});
}

absl::Status PsService::CheckTicket(const Ticket& ticket) const {
  RETURN_IF_ERROR(gate().Check(ticket.epoch));
  return ticket.setup == setup_ ? absl::OkStatus() : Overtaken();
}

void PsService::EndSetup() {
  ++setup_;
  if (saver_ != nullptr) saver_->Stop(Overtaken());
  if (auto waiting = std::exchange(waiting_save_, std::nullopt)) {
    ReplyStatus(waiting->reply, Overtaken());
  }
}

absl::Status PsService::SetupPs(const proto::SetupPs& request) {
  if (request.generation() < generation_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "set-up for generation ", request.generation(), "; the PS is at ", generation_));
  }
  EndSetup();
  generation_ = request.generation();
  const std::set<ShardId> keep(request.keep().begin(), request.keep().end());
  for (const ShardId id : store_.Ids()) {
    if (!keep.contains(id)) RETURN_IF_ERROR(store_.Remove(id));
  }
  return absl::OkStatus();
}

void PsService::OnControl(const proto::ControlRequest& request, Message message, Reply reply) {
  switch (request.body_case()) {
    case proto::ControlRequest::kSetupPs:
      ReplyStatus(reply, SetupPs(request.setup_ps()));
      return;
    case proto::ControlRequest::kCreateShards:
      CreateShards(request.create_shards(), std::move(reply));
      return;
    case proto::ControlRequest::kRestoreShards:
      RestoreShards(request.restore_shards(), std::move(reply));
      return;
    case proto::ControlRequest::kSaveShards:
      SaveShards(request.save_shards(), std::move(reply));
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
  env()->pool()->Schedule([this, token = tasks_.Start(), ticket = MakeTicket(),
                           specs = std::move(specs), reply = std::move(reply)]() mutable {
    if (!token) return;  // the service ends
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
    loop()->Post(
        [this, token = std::move(token), ticket, shards = std::move(shards),
         reply = std::move(reply)]() mutable { OnShardsMade(ticket, std::move(shards), reply); });
  });
}

void PsService::OnShardsMade(const Ticket& ticket,
                             absl::StatusOr<std::vector<std::unique_ptr<Shard>>> shards,
                             const Reply& reply) {
  absl::Status status = CheckTicket(ticket);
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

void PsService::RestoreShards(const proto::RestoreShards& request, Reply reply) {
  auto restore = std::make_shared<Restore>();
  restore->ticket = MakeTicket();
  restore->reply = std::move(reply);
  const int count = request.shards_size();
  restore->left = static_cast<size_t>(count);
  restore->shards.resize(restore->left);
  if (count == 0) OnShardsRead(restore.get());
  const PendingTasks::Token token = tasks_.Start();
  if (!token) return;  // the service ends
  for (int i = 0; i < count; ++i) {
    env()->pool()->Schedule([this, token, restore, i, saved = request.shards(i)] {
      auto shard = LoadShard(env()->files(), saved);
      loop()->Post([this, token, restore, i, shard = std::move(shard)]() mutable {
        restore->shards[static_cast<size_t>(i)] = std::move(shard);
        if (--restore->left == 0) OnShardsRead(restore.get());
      });
    });
  }
}

void PsService::OnShardsRead(Restore* restore) {
  absl::Status status = CheckTicket(restore->ticket);
  for (const auto& shard : restore->shards) {
    if (status.ok()) status = shard.status();
  }
  if (status.ok()) {
    for (auto& shard : restore->shards) {
      store_.Put(std::move(shard->shard), std::move(shard->ledger), shard->pulled, shard->pushed);
    }
    env()->FaultPoint("ps.restore.done");
  }
  ReplyStatus(restore->reply, status);
}

void PsService::SaveShards(const proto::SaveShards& request, Reply reply) {
  if (saver_ == nullptr) {
    StartSave(request, reply);
  } else if (saver_->stopped() && !waiting_save_) {
    // The chunk that is still being written may be of the same file.
    waiting_save_ = WaitingSave{request, std::move(reply)};
  } else {
    ReplyStatus(reply, absl::FailedPreconditionError(absl::StrCat(
                           "shards are being saved into ",
                           waiting_save_ ? waiting_save_->request.directory() : saver_->directory(),
                           ": one save at a time")));
  }
}

void PsService::StartSave(const proto::SaveShards& request, const Reply& reply) {
  TraceScope cut(trace(), SpanKind::kCheckpointCut);
  auto saver = ShardSaver::Create(env(), loop(), &tasks_, store_, request);
  cut.End();
  if (!saver.ok()) {
    ReplyStatus(reply, saver.status());
    return;
  }
  saver_ = *saver;
  env()->FaultPoint("ps.save.cut");
  (*saver)->Start([this, reply, start = trace()->Now()](absl::StatusOr<proto::ShardsSaved> saved) {
    trace()->Record(SpanKind::kCheckpointSave, start, trace()->Now());
    OnSaved(std::move(saved), reply);
  });
}

void PsService::OnSaved(absl::StatusOr<proto::ShardsSaved> saved, const Reply& reply) {
  saver_ = nullptr;
  if (saved.ok()) {
    proto::ControlReply message;
    *message.mutable_shards_saved() = *std::move(saved);
    reply(std::move(message), {});
  } else if (absl::IsNotFound(saved.status())) {
    // The coordinator has made it before it asked.
    ReplyStatus(reply, Annotate(saved.status(),
                                "the directory for checkpoints is not there; it must be one that "
                                "the coordinator and all parameter servers share"));
  } else {
    ReplyStatus(reply, saved.status());
  }
  if (auto waiting = std::exchange(waiting_save_, std::nullopt)) {
    StartSave(waiting->request, waiting->reply);
  }
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
  if ((*shard)->hash() != nullptr) {
    ReadIds(**shard, request, reply);
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

// As many as there are from `begin` on: how many places there are is known here alone.
void PsService::ReadIds(const Shard& shard, const proto::ReadRows& request, const Reply& reply) {
  const int64_t begin = std::clamp<int64_t>(request.begin(), 0, shard.rows());
  const int64_t count = std::clamp<int64_t>(request.count(), 0, shard.rows() - begin);
  auto read = shard.ReadIds(begin, count, request.slot());
  if (!read.ok()) {
    ReplyStatus(reply, read.status());
    return;
  }
  proto::ControlReply message;
  proto::RowsRead* rows = message.mutable_rows_read();
  rows->set_dtype(static_cast<int>(read->rows.dtype()));
  *rows->mutable_shape() = ToProto(read->rows.shape());
  rows->set_next(begin + count < shard.rows() ? begin + count : 0);
  reply(std::move(message), {read->rows.buffer().Slice(0, read->rows.bytes()),
                             read->ids.buffer().Slice(0, read->ids.bytes())});
}

absl::Status PsService::WriteRows(const proto::WriteRows& request, const Message& message) {
  ASSIGN_OR_RETURN(Shard * shard, store_.Get(request.shard()));
  if (shard->hash() != nullptr) {
    ASSIGN_OR_RETURN(IdsAndRows written,
                     PayloadIdsAndRows(message, request.dtype(), request.shape()));
    return shard->WriteIds(written.ids, written.rows, /*replace=*/request.begin() == -1);
  }
  ASSIGN_OR_RETURN(Tensor rows, PayloadTensor(message, request.dtype(), request.shape()));
  return shard->WriteRows(request.begin(), rows, request.slot());
}

void PsService::OnData(Peer* peer, Message message) {
  const bool one = message.type == static_cast<uint16_t>(MessageType::kFrame);
  if ((!one && message.type != static_cast<uint16_t>(MessageType::kFrames)) ||
      peer->role != proto::WORKER) {
    peer->connection->Close(absl::InvalidArgumentError(
        absl::StrCat("a PS does not take messages of type ", message.type)));
    return;
  }
  ++frames_answered_;
  if (one) {
    if (auto reply = AnswerFrame(peer, std::move(message))) {
      peer->connection->Send(Encode(*std::move(reply)));
    }
    return;
  }
  auto parts = SplitMessages(std::move(message));
  if (!parts.ok()) {
    peer->connection->Close(parts.status());
    return;
  }
  std::vector<Message> replies;
  for (Message& part : *parts) {
    auto reply = AnswerFrame(peer, std::move(part));
    if (!reply.has_value()) return;
    replies.push_back(Encode(*std::move(reply)));
  }
  peer->connection->Send(JoinMessages(MessageType::kFrameReplies, std::move(replies)));
}

std::optional<SegmentReply> PsService::AnswerFrame(Peer* peer, Message message) {
  auto request = DecodeSegmentRequest(std::move(message));
  if (!request.ok()) {
    peer->connection->Close(request.status());
    return std::nullopt;
  }
  SegmentReply reply;
  reply.call = request->call;
  if (absl::Status s = gate().Check(request->epoch); !s.ok()) {
    reply.status = std::move(s);
  } else if (absl::Status g = CheckGeneration(*peer); !g.ok()) {
    peer->connection->Close(std::move(g));
    return std::nullopt;
  } else {
    env()->FaultPoint("ps.segment.received");
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
  return reply;
}

absl::Status PsService::CheckGeneration(const Peer& worker) const {
  if (worker.generation == generation_) return absl::OkStatus();
  return WithDetail(absl::UnavailableError(absl::StrCat(
                        "/job:worker/task:", worker.task, " was set up for generation ",
                        worker.generation, "; ", TaskName(), " is at ", generation_)),
                    {ErrorCause::kTaskLost, true, TaskName(), incarnation()});
}

absl::StatusOr<std::vector<Tensor>> PsService::RunSegment(SegmentRequest request) {
  const auto plan = plans_.find(request.plan);
  if (plan == plans_.end() || request.segment >= plan->second.size()) {
    return absl::NotFoundError(
        absl::StrCat("no segment ", request.segment, " of plan ", request.plan));
  }
  const TraceScope segment(trace(), SpanKind::kSegment, request.closure, request.step);
  SegmentTransaction transaction(&store_);
  RunOptions options;
  options.step = {request.epoch, request.closure, request.step, request.seed};
  options.pool = env()->pool();
  options.variables = &transaction;
  TraceScope run(trace(), SpanKind::kGather, request.closure, request.step);
  ASSIGN_OR_RETURN(auto results,
                   plan->second[request.segment]->Run(std::move(request.tensors), options));
  if (results.empty()) run.set_kind(SpanKind::kStage);
  run.End();
  TraceScope apply(results.empty() ? trace() : nullptr, SpanKind::kApply, request.closure,
                   request.step);
  const CommitResult commit =
      transaction.Commit(request.closure, request.step, ToSeconds(env()->Now()));
  apply.End();
  env()->FaultPoint("ps.segment.applied");
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
    shard->set_rows_pulled(static_cast<uint64_t>(s.pulled));
    shard->set_rows_pushed(static_cast<uint64_t>(s.pushed));
    shard->set_rows_evicted(static_cast<uint64_t>(s.evicted));
    shard->set_ids_waiting(static_cast<uint64_t>(s.waiting));
    status->set_rows(status->rows() + s.rows);
    status->set_bytes(status->bytes() + s.bytes);
  }
  if (gate().held()) {
    status->set_running(absl::StrCat(store_.size(), " shards, ", frames_answered_,
                                     " frames of steps answered",
                                     saver_ != nullptr ? ", writes a checkpoint" : ""));
  }
  status->set_segments_run(frames_answered_);
  status->set_compute_seconds(env()->pool()->busy_seconds());
  status->set_threads(env()->pool()->threads());
}

}  // namespace coxswain
