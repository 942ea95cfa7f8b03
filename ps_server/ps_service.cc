// Sessions and set-ups, control requests, plans, frames of workers, status. Requests about shards
// are in ps_shards.cc.
#include "ps_server/ps_service.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ps_server/ps_metrics.h"
#include "runtime/base/count_text.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/graph/serialize.h"

namespace coxswain::ps {
namespace {

void AddShardStatus(const ShardStats& s, proto::TaskStatus* status) {
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

void AddStaleness(const StalenessCounts& staleness, proto::ShardStatus* shard) {
  size_t buckets = staleness.counts.size();
  while (buckets > 0 && staleness.counts[buckets - 1] == 0) --buckets;
  for (size_t b = 0; b < buckets; ++b) {
    shard->add_staleness(static_cast<uint64_t>(staleness.counts[b]));
  }
  shard->set_staleness_sum(static_cast<uint64_t>(staleness.sum));
  shard->set_staleness_most(static_cast<uint64_t>(staleness.most));
  shard->set_gradient_rows(static_cast<uint64_t>(staleness.rows));
  shard->set_gradient_rows_changed(static_cast<uint64_t>(staleness.rows_changed));
}

}  // namespace

// The last published directory is read by the connection's thread, or by the loop while a message
// of the connection waits there.
struct PsService::PsPeer final : Peer {
  Published<PsDirectory>::Reader directory;
};

PsService::PsService(env::Env* env, net::Transport* transport, const graph::OpRegistry* registry,
                     cluster::DaemonOptions daemon_options, int lanes)
    : cluster::Daemon(env, transport, std::move(daemon_options)),
      registry_(registry),
      row_devices_(options().open_devices, options().task, registry, options().device_lost,
                   options().table_directory) {
  frames_.env = env;
  frames_.trace = trace();
  frames_.tasks = &tasks_;
  frames_.task = TaskName();
  frames_.in_process = transport->in_process();
  frames_.incarnation = incarnation();
  const int count = lanes > 0 ? lanes : std::max(1, env->pool()->threads());
  for (int i = 0; i < count; ++i) {
    frames_.lanes.push_back(std::make_unique<Lane>(i, env->NewComputeLoop()));
  }
  Publish();
}

PsService::~PsService() {
  tasks_.Close();
  Stop();
  // Tasks that still run in the lanes use neither the loop nor other lanes, which would need a
  // token.
  frames_.lanes.clear();
}

void PsService::InEveryLane(std::function<void(Lane*)> task, absl::AnyInvocable<void()> done,
                            bool is_long) {
  struct Round {
    std::function<void(Lane*)> task;
    absl::AnyInvocable<void()> done;
    std::atomic<size_t> left{0};
    cluster::PendingTasks::Token token;
  };
  auto round = std::make_shared<Round>();
  round->task = std::move(task);
  round->done = std::move(done);
  round->left = frames_.lanes.size();
  if (round->done != nullptr) {
    round->token = tasks_.Start();
    if (!round->token) return;  // the service ends
  }
  for (const auto& lane : frames_.lanes) {
    auto run = [this, round, lane = lane.get()] {
      round->task(lane);
      if (round->left.fetch_sub(1) > 1 || round->done == nullptr) return;
      loop()->Post([round] { round->done(); });
    };
    if (is_long) {
      lane->PostLong(std::move(run));
    } else {
      lane->Post(std::move(run));
    }
  }
}

void PsService::Publish() {
  const auto lane_of = [this](ShardId id) { return LaneOf(id); };
  auto directory = std::make_shared<PsDirectory>();
  directory->gate = gate();
  directory->session = session();
  directory->session_used = session_used();
  directory->generation = generation_;
  directory->setup = setup_;
  for (auto& [id, plan] : plans_) {
    if (!IsCutFor(*plan.cut, lane_of)) {
      auto cut = CutByLanes(plan.segments, lane_of);
      COX_CHECK(cut.ok(), cut.status().ToString());  // it was cut before
      plan.cut = *std::move(cut);
    }
    directory->plans.emplace(id, plan.cut);
  }
  directory_.Set(std::move(directory));
}

void PsService::OnSessionStart(Peer*) {
  loop()->AssertOnLoop();
  Publish();
}

void PsService::OnSessionEnd() {
  loop()->AssertOnLoop();
  EndSetup();
  generation_ = 0;
  shards_.clear();
  plans_.clear();
  InEveryLane(
      [setup = setup_](Lane* lane) {
        lane->setup = setup;
        lane->store()->Clear();
        lane->ForgetSteps();
      },
      nullptr, /*is_long=*/true);
  Publish();
}

absl::Status PsService::Overtaken() const {
  return WithDetail(absl::AbortedError("overtaken by a new session or by a recovery"),
                    {ErrorCause::kCancelled, true, TaskName(), incarnation()});
}

absl::Status PsService::CheckStamp(const Stamp& stamp) const {
  loop()->AssertOnLoop();
  RETURN_IF_ERROR(gate().Check(stamp.session));
  return stamp.setup == setup_ ? absl::OkStatus() : Overtaken();
}

void PsService::EndSetup() {
  ++setup_;
  if (save_ != nullptr) save_->Stop(Overtaken());
  if (auto waiting = std::exchange(waiting_save_, std::nullopt)) {
    ReplyStatus(waiting->reply, Overtaken());
  }
}

void PsService::SetupPs(const proto::SetupPs& request, Reply reply) {
  if (request.generation() < generation_) {
    ReplyStatus(reply, absl::FailedPreconditionError(absl::StrCat("set-up for generation ",
                                                                  request.generation(),
                                                                  "; the PS is at ", generation_)));
    return;
  }
  EndSetup();
  generation_ = request.generation();
  const std::set<ShardId> keep(request.keep().begin(), request.keep().end());
  for (auto it = shards_.begin(); it != shards_.end();) {
    it = keep.contains(it->first) ? std::next(it) : shards_.erase(it);
  }
  // A frame that was checked before may have run in some lanes and be too late in others.
  InEveryLane(
      [setup = setup_, keep](Lane* lane) {
        lane->setup = setup;
        lane->ForgetSteps();
        for (const ShardId id : lane->store()->Ids()) {
          if (!keep.contains(id)) lane->store()->Remove(id).IgnoreError();  // it is there
        }
      },
      [reply = std::move(reply)] { ReplyStatus(reply, absl::OkStatus()); }, /*is_long=*/true);
  Publish();
}

void PsService::OnControl(const proto::ControlRequest& request, net::Message message, Reply reply) {
  loop()->AssertOnLoop();
  switch (request.body_case()) {
    case proto::ControlRequest::kSetupPs:
      SetupPs(request.setup_ps(), std::move(reply));
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
    case proto::ControlRequest::kTryDirectory:
      TryDirectory(request.try_directory(), std::move(reply));
      return;
    case proto::ControlRequest::kRegisterPlan:
      ReplyStatus(reply, AddPlan(request.register_plan()));
      return;
    case proto::ControlRequest::kReleasePlan:
      plans_.erase(request.release_plan().plan());
      Publish();
      ReplyStatus(reply, absl::OkStatus());
      return;
    case proto::ControlRequest::kApplyStep:
      ApplyStep(request.apply_step(), std::move(reply));
      return;
    case proto::ControlRequest::kReadRows:
      ReadRows(request.read_rows(), reply);
      return;
    case proto::ControlRequest::kWriteRows:
      WriteRows(request.write_rows(), std::move(message), reply);
      return;
    default:
      ReplyStatus(reply, absl::UnimplementedError("a PS does not know this request"));
  }
}

void PsService::ApplyStep(const proto::ApplyStep& request, Reply reply) {
  if (request.generation() != generation_) {
    ReplyStatus(reply, WithDetail(absl::FailedPreconditionError(
                                      absl::StrCat("a step of generation ", request.generation(),
                                                   "; the PS is at ", generation_)),
                                  {ErrorCause::kCancelled, true, TaskName(), incarnation()}));
    return;
  }
  SyncStep step;
  step.first = ClosureId(request.first());
  step.count = request.count();
  step.backup = request.backup();
  step.mean = request.mean();
  step.each = request.each();
  auto chosen = std::make_shared<std::vector<ClosureId>>();
  for (const uint64_t closure : request.closures()) chosen->push_back(ClosureId(closure));
  auto errors = std::make_shared<std::vector<absl::Status>>(frames_.lanes.size());
  const double seconds = absl::ToDoubleSeconds(env()->Monotonic());
  InEveryLane(
      [this, setup = setup_, step, chosen, errors, seconds](Lane* lane) {
        if (lane->setup != setup) return;  // overtaken: nobody waits for the answer
        const absl::Duration began = env()->Monotonic();
        trace::TraceScope apply(trace(), trace::SpanKind::kHold, step.first);
        const auto applied = lane->store()->ApplyChosen(step, *chosen, seconds);
        (*errors)[static_cast<size_t>(lane->index())] = applied.status();
        if (applied.ok() && *applied) {
          apply.set_kind(trace::SpanKind::kApply);
          apply.set_staleness((*applied)->staleness);
        }
        apply.End();
        apply_pace_.Add(env()->Monotonic() - began);
        env()->FaultPoint("ps.segment.applied");
        lane->Unpark();
      },
      [this, errors, reply = std::move(reply)] {
        absl::Status status;
        for (const absl::Status& error : *errors) status.Update(error);
        if (!status.ok()) {
          status = WithDetail(status, {ErrorCause::kApplication, false, TaskName(), incarnation()});
        }
        ReplyStatus(reply, status);
      },
      apply_pace_.expected() > kBorrowedTime);
}

absl::Status PsService::AddPlan(const proto::RegisterPlan& request) {
  Plan plan;
  for (const proto::FunctionProto& proto : request.segments()) {
    ASSIGN_OR_RETURN(graph::Function function, graph::FromProto(proto, registry_));
    ASSIGN_OR_RETURN(auto compiled, function::CompiledFunction::Compile(std::move(function)));
    if (compiled->has_ps_calls()) {
      return absl::InvalidArgumentError("a segment of a PS cannot call a PS");
    }
    plan.segments.push_back(std::move(compiled));
  }
  ASSIGN_OR_RETURN(plan.cut, CutByLanes(plan.segments, [this](ShardId id) { return LaneOf(id); }));
  plans_[request.plan()] = std::move(plan);
  Publish();
  return absl::OkStatus();
}

std::shared_ptr<cluster::Daemon::Peer> PsService::NewPeer() { return std::make_shared<PsPeer>(); }

bool PsService::TakeData(Peer* peer, net::Message* message) {
  const bool frame = message->type == static_cast<uint16_t>(net::MessageType::kFrame) ||
                     message->type == static_cast<uint16_t>(net::MessageType::kFrames);
  if (!frame || peer->role != proto::WORKER) return false;
  auto* const worker = static_cast<PsPeer*>(peer);
  const PsDirectory& now = *worker->directory.Get(directory_);
  if (peer->session != now.session || !now.session_used) return false;
  RunFrame(worker, std::move(*message), /*counted=*/false);
  return true;
}

void PsService::OnData(Peer* peer, net::Message message) {
  loop()->AssertOnLoop();
  const bool frame = message.type == static_cast<uint16_t>(net::MessageType::kFrame) ||
                     message.type == static_cast<uint16_t>(net::MessageType::kFrames);
  if (!frame || peer->role != proto::WORKER) {
    peer->connection->Close(absl::InvalidArgumentError(
        absl::StrCat("a PS does not take messages of type ", message.type)));
    return;
  }
  RunFrame(static_cast<PsPeer*>(peer), std::move(message), /*counted=*/true);
}

void PsService::RunFrame(PsPeer* peer, net::Message message, bool counted) {
  PsFrame::Run(&frames_, peer->directory.Get(directory_),
               {peer->connection, peer->task, peer->generation}, std::move(message), counted);
}

void PsService::OnLowWater(ClosureId closure) {
  loop()->AssertOnLoop();
  InEveryLane([closure](Lane* lane) { lane->store()->SetLowWater(closure); });
}

void PsService::FillStatus(proto::TaskStatus* status) {
  loop()->AssertOnLoop();
  const std::string steps = status->running();  // see SendStatus
  status->clear_running();
  if (gate().held()) {
    status->set_running(absl::StrCat(
        CountText(shards_.size(), "shard"), ", ", CountText(status->segments_run(), "frame"),
        " of steps answered", steps, save_ != nullptr ? ", writes a checkpoint" : "",
        gate().Expired(env()->Monotonic())
            ? absl::StrCat("; kept for coordinator ", gate().holder(), ", which is silent")
            : ""));
  }
  status->set_compute_seconds(env()->pool()->busy_seconds());
  status->set_threads(env()->pool()->threads());
  for (const std::string& name : row_devices_.names()) status->add_gpus(name);
}

struct PsService::OfLane {
  std::vector<ShardStats> shards;
  WorkDone done;
  Lane::Traffic traffic;
  bool synchronous = false;
  size_t held = 0, parked = 0;  // steps; frames
};

// Lanes fill in what they know; the loop puts it together.
void PsService::AskLanes(bool staleness, proto::TaskStatus status,
                         std::function<void(proto::TaskStatus, WorkDone)> then) {
  auto lanes = std::make_shared<std::vector<OfLane>>(frames_.lanes.size());
  const auto ask = [lanes](Lane* lane) {
    const SyncSteps& sync = lane->store()->sync();
    (*lanes)[static_cast<size_t>(lane->index())] = {
        lane->store()->Stats(), lane->store()->Done(), lane->traffic, sync.used(), sync.open(),
        lane->parked()};
  };
  InEveryLane(ask, [lanes, staleness, status = std::move(status),
                    then = std::move(then)]() mutable {
    std::vector<ShardStats> shards;
    WorkDone done;
    bool synchronous = false;
    size_t held = 0, parked = 0;
    for (OfLane& lane : *lanes) {
      synchronous = synchronous || lane.synchronous;
      held = std::max(held, lane.held);
      parked += lane.parked;
      done.Add(lane.done);
      shards.insert(shards.end(), lane.shards.begin(), lane.shards.end());
      status.set_frames_received(status.frames_received() + lane.traffic.received);
      status.set_bytes_received(status.bytes_received() +
                                static_cast<uint64_t>(lane.traffic.bytes_received));
      status.set_bytes_sent(status.bytes_sent() + static_cast<uint64_t>(lane.traffic.bytes_sent));
      status.set_segments_run(status.segments_run() + lane.traffic.answered);
    }
    std::sort(shards.begin(), shards.end(),
              [](const ShardStats& a, const ShardStats& b) { return a.id < b.id; });
    for (const ShardStats& shard : shards) {
      AddShardStatus(shard, &status);
      if (!staleness) continue;
      AddStaleness(shard.staleness, status.mutable_shards(status.shards_size() - 1));
    }
    if (synchronous) {
      status.set_running(absl::StrCat("; synchronous steps: ", held, " not applied yet, ", parked,
                                      " frames wait for one"));
    }
    then(std::move(status), done);
  });
}

void PsService::SendStatus(const proto::StatusQuery& query, proto::TaskStatus status,
                           const Reply& reply) {
  AskLanes(query.staleness(), std::move(status),
           [this, query, reply](proto::TaskStatus filled, const WorkDone&) {
             cluster::Daemon::SendStatus(query, std::move(filled), reply);
           });
}

void PsService::SendMetrics(proto::TaskStatus status, const MetricsDone& done) {
  AskLanes(/*staleness=*/false, std::move(status),
           [this, done](proto::TaskStatus filled, const WorkDone& work) {
             FillStatus(&filled);
             done(PsFamilies(MetricsPrefix(), filled, work, save_ != nullptr));
           });
}

}  // namespace coxswain::ps
