#include "tests/sim/job.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "protos/control.pb.h"
#include "ps_server/ps_service.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/checkpoint_lock.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/function/frame.h"
#include "runtime/net/message_type.h"
#include "tests/sim/rival.h"
#include "worker_server/worker_service.h"

namespace coxswain::sim {
namespace {

// The state that a checkpoint keeps of the program: how many rows it has written beside closures.
constexpr char kWritten[] = "{\"written\":";

class DaemonProcess final : public Process {
 public:
  DaemonProcess(const Place& place, std::unique_ptr<cluster::Daemon> daemon)
      : place_(place), daemon_(std::move(daemon)) {}
  void Start() override {
    if (absl::Status s = daemon_->Start(); !s.ok()) {
      place_.world->Violation(absl::StrCat(place_.life->name, " cannot listen: ", s.ToString()));
    }
  }
  void Terminate(std::function<void()> done) override { daemon_->Terminate(std::move(done)); }

 private:
  const Place place_;
  std::unique_ptr<cluster::Daemon> daemon_;
};

// The function with each node that a GPU may compute pinned to one of `gpus`, so that values go
// from one to the other at every turn.
std::shared_ptr<const graph::Function> PinnedToGpus(graph::Function function, int gpus) {
  for (int id = 0; id < function.graph.size(); ++id) {
    graph::Node* const node = function.graph.mutable_node(id);
    const graph::OpSchema& op = *function.graph.registry()->Find(node->op);
    const bool floats = std::any_of(node->outputs.begin(), node->outputs.end(),
                                    [](const TensorType& type) { return IsFloating(type.dtype); });
    if (!floats || node->inputs.empty() || op.on_parameter_server || op.on_host ||
        node->device.has_device || !function.graph.registry()->HasKernel(node->op)) {
      continue;
    }
    const auto index = static_cast<int16_t>(id % gpus);
    node->device.device = Device{DeviceType::kGpu, index};
    node->device.has_device = true;
  }
  return std::make_shared<const graph::Function>(std::move(function));
}

}  // namespace

cluster::DaemonOptions Job::OptionsOf(const std::string& job, int task,
                                      const std::string& address) {
  cluster::DaemonOptions options;
  options.job = job;
  options.task = task;
  options.address = address;
  return options;
}

Job::Job(Site* site, JobOptions options, std::unique_ptr<Workload> workload)
    : site_(site), options_(std::move(options)), workload_(std::move(workload)) {
  coordinator_node_ = site->AddNode("coordinator", [this](const Place& place) {
    return std::make_unique<CoordinatorProcess>(this, place);
  });
  for (int p = 0; p < options_.ps; ++p) {
    ps_nodes_.push_back(site->AddNode(absl::StrCat("ps:", p), [this, p](const Place& place) {
      const int lanes = 1 + static_cast<int>(place.world->random().Below(3));
      cluster::DaemonOptions daemon = OptionsOf("ps", p, place.address);
      AddGpuForTables(place, p, &daemon);
      return std::make_unique<DaemonProcess>(
          place, std::make_unique<ps::PsService>(place.env, place.transport, SimRegistry(), daemon,
                                                 lanes));
    }));
  }
  for (int w = 0; w < options_.workers; ++w) {
    worker_addresses_.push_back(site->name(AddWorkerNode()));
  }
  ps_used_ = options_.ps;
  if (options_.poison >= 0) {
    options_.poison_hangs ? Hang(options_.poison) : Poison(options_.poison);
  }
  if (options_.tearing >= 0) Tear(options_.tearing);
  if (options_.max_staleness >= 0) WatchStaleness();
}

void Job::Hang(int64_t closure) {
  site_->network()->set_swallows([this, closure](int, const net::Message& message) {
    if (message.type != static_cast<uint16_t>(net::MessageType::kRunClosure)) return false;
    const auto request = function::DecodeClosureRequest(message);
    if (!request.ok() || request->closure != static_cast<ClosureId>(closure) + 1) return false;
    ++totals.poisoned;
    return true;
  });
}

// When it is given to a worker; later the oldest is less far behind. An older coordinator that goes
// on after it stood still has closures of its own.
void Job::WatchStaleness() {
  site_->network()->set_on_message([this](const LifePtr& from, int, const net::Message& message) {
    if (from != site_->life(coordinator_node_)) return true;
    if (message.type != static_cast<uint16_t>(net::MessageType::kRunClosure)) return true;
    const auto request = function::DecodeClosureRequest(message);
    const CoordinatorProcess* const now = coordinator();
    if (!request.ok() || now == nullptr || now->oldest_open() == 0) return true;
    const ClosureId most = now->oldest_open() + static_cast<ClosureId>(options_.max_staleness);
    if (request->closure > most) {
      site_->world()->Violation(absl::StrCat("closure ", request->closure, " runs, and ",
                                             now->oldest_open(), " is not over"));
    }
    return true;
  });
}

void Job::Poison(int64_t closure) {
  site_->network()->set_on_message(
      [this, closure](const LifePtr&, int node, const net::Message& message) {
        if (message.type != static_cast<uint16_t>(net::MessageType::kRunClosure)) return true;
        const auto request = function::DecodeClosureRequest(message);
        if (!request.ok() || request->closure != static_cast<ClosureId>(closure) + 1) return true;
        ++totals.poisoned;
        Random& random = site_->world()->random();
        site_->Kill(node, random.Chance(0.7) ? Death::kProcess : Death::kMachine,
                    random.Between(absl::Milliseconds(1), absl::Seconds(1)));
        return true;
      });
}

void Job::Tear(int64_t closure) {
  const auto tears = [id = static_cast<ClosureId>(closure) + 1](const net::Message& frame) {
    const auto request = function::DecodeSegmentRequest(frame);
    return request.ok() && request->closure == id;
  };
  site_->network()->set_on_message([this, tears](const LifePtr&, int, const net::Message& message) {
    bool torn = false;
    if (message.type == static_cast<uint16_t>(net::MessageType::kFrames)) {
      const auto parts = function::SplitMessages(message);
      torn = parts.ok() && std::any_of(parts->begin(), parts->end(), tears);
    } else if (message.type == static_cast<uint16_t>(net::MessageType::kFrame)) {
      torn = tears(message);
    }
    if (torn) ++totals.torn;
    return !torn;
  });
}

int Job::AddWorkerNode() {
  const int w = static_cast<int>(worker_nodes_.size());
  SimEnv::Options env = site_->options().env;
  env.task_time = options_.worker_task_time.value_or(env.task_time);
  const auto make = [this, w](const Place& place) {
    // Its number is its place in the cluster's list.
    int task = w;
    for (size_t i = 0; i < worker_addresses_.size(); ++i) {
      if (worker_addresses_[i] == place.address) task = static_cast<int>(i);
    }
    cluster::DaemonOptions daemon = OptionsOf("worker", task, place.address);
    AddGpus(place, w, &daemon);
    return std::make_unique<DaemonProcess>(
        place,
        std::make_unique<worker::WorkerService>(place.env, place.transport, SimRegistry(), daemon));
  };
  const int node = site_->AddNode(absl::StrCat("worker:", w), make, env);
  worker_nodes_.push_back(node);
  return node;
}

int Job::AddRivalNode() {
  int* const node = &rival_node_;
  *node = site_->AddNode("rival", [this, node](const Place& place) {
    core::ControllerOptions options;
    for (const int ps : ps_nodes_) options.ps.push_back(site_->name(ps));
    options.workers = worker_addresses_;
    options.name = place.life->name;
    options.lease = options_.lease;
    options.connect_timeout = options_.connect_timeout;
    options.straggler_timeout = absl::Seconds(1);
    options.recovery = options_.recovery;
    return std::make_unique<RivalProcess>(
        place, std::move(options), workload_->Shards(1), &totals,
        [this, node] { site_->Kill(*node, Death::kProcess, absl::Seconds(-1)); });
  });
  return *node;
}

void Job::StartAll() {
  for (int node = 0; node < site_->nodes(); ++node) site_->Start(node);
}

CoordinatorProcess* Job::coordinator() const {
  if (site_->life(coordinator_node_) == nullptr) return nullptr;
  return static_cast<CoordinatorProcess*>(site_->process(coordinator_node_));
}

CoordinatorProcess::CoordinatorProcess(Job* job, const Place& place) : job_(job), place_(place) {}

CoordinatorProcess::~CoordinatorProcess() {
  if (controller_ != nullptr) controller_->Abandon();
}

void CoordinatorProcess::Start() {
  ++job_->totals.coordinators;
  const JobOptions& o = job_->options_;
  core::ControllerOptions options;
  for (int p = 0; p < job_->ps_used_; ++p) {
    options.ps.push_back(job_->site_->name(job_->ps_nodes_[static_cast<size_t>(p)]));
  }
  options.workers = job_->worker_addresses_;
  options.name = place_.life->name;
  options.in_flight = o.in_flight;
  options.lease = o.lease;
  options.connect_timeout = o.connect_timeout;
  options.straggler_timeout = std::min(absl::Seconds(5), o.connect_timeout);
  options.recovery = o.recovery;
  options.on_event = Guard([this](const ClusterEvent& event) {
    place_.world->Note(kNoteJob, 1, static_cast<uint64_t>(event.kind), [&] {
      return absl::StrCat(place_.life->name, ": ", event.task, " ", event.message);
    });
    if (event.kind == ClusterEvent::Kind::kRecovered) {
      ++job_->totals.ps_recoveries;
      // Where messages are bounded there are no checkpoints, and all shards go back.
      undone_ = failed_;
    }
    if (event.kind == ClusterEvent::Kind::kCheckpoint) {
      ++job_->totals.checkpoints;
      ++checkpoints_since_write_;
    }
    if (event.kind == ClusterEvent::Kind::kShardsMoved) ++job_->totals.moves;
    if (absl::StrContains(event.message, "cannot be restored yet")) ++job_->totals.without_room;
    if (event.kind == ClusterEvent::Kind::kWorkerLost) ++job_->totals.workers_lost;
  });
  shards_ = job_->workload_->Shards(job_->ps_used_);
  job_->PutOnGpus(&shards_);
  if (!FindCheckpoint()) return;
  if (resumed_) options.min_epoch = manifest_.epoch + 1;
  const auto holder = checkpoint::ReadCheckpointHolder(place_.env->files(), o.checkpoint.directory);
  options.min_epoch = std::max(options.min_epoch, NextEpoch(holder.epoch));
  controller_ =
      std::make_unique<core::Controller>(place_.env, place_.transport, std::move(options));
  controller_->Start(Guard([this](absl::Status status) { OnStarted(status); }));
}

void CoordinatorProcess::Exit(const std::string& why, const absl::Status& status) {
  place_.world->Note(kNoteJob, 2, static_cast<uint64_t>(status.code()), [&] {
    return absl::StrCat(place_.life->name, " ends: ", why, ": ", status.ToString());
  });
  ++job_->totals.exits;
  const auto detail = GetDetail(status);
  const bool cluster = detail && (detail->cause == ErrorCause::kUnreachable ||
                                  detail->cause == ErrorCause::kClusterHeld ||
                                  detail->cause == ErrorCause::kStaleEpoch);
  const bool replaced = job_->site_->life(job_->coordinator_node_) != place_.life;
  const bool damage = job_->checkpoint_damaged && absl::IsDataLoss(status);
  // What was written is lost with its PS until the next checkpoint is there; the one that was under
  // way just then need not have it.
  const bool unsaved = checkpoints_since_write_ < 2 && absl::IsDataLoss(status);
  // As when a PS is started again on a smaller machine before the coordinator is.
  const bool room = job_->options_.small_gpus > 0 && absl::IsResourceExhausted(status);
  if (!cluster && !replaced && !damage && !unsaved && !room) {
    place_.world->Violation(absl::StrCat(place_.life->name, ": ", why, ": ", status.ToString()));
    return;
  }
  if (replaced) return;
  job_->restarted = true;
  job_->site_->Kill(job_->coordinator_node_, Death::kProcess, absl::Milliseconds(500));
}

// One that stood still may hear only now that it had the cluster, and another one has followed. It
// may also get it only now, after some that were started later: the session tells.
bool CoordinatorProcess::GotItLast() const {
  const Job::InCharge& last = job_->in_charge_;
  if (controller_->epoch() > last.epoch) return true;
  // A dead one follows nobody; where it had followed this one, the next one has a later epoch.
  if (last.coordinator == nullptr || !last.coordinator->alive) return true;
  // Epochs begin anew only where all PS have forgotten that session.
  return std::none_of(last.ps.begin(), last.ps.end(),
                      [](const LifePtr& ps) { return ps != nullptr && ps->alive; });
}

void CoordinatorProcess::OnStarted(const absl::Status& status) {
  if (!status.ok()) {
    Exit("cannot start", status);
    return;
  }
  // The one that held the cluster until now may have written more.
  if (!FindCheckpoint()) return;
  if (GotItLast()) {
    job_->in_charge_ = {place_.life, controller_->epoch(), {}};
    for (int p = 0; p < job_->ps_used_; ++p) {
      job_->in_charge_.ps.push_back(job_->site_->life(job_->ps_nodes_[static_cast<size_t>(p)]));
    }
    // What was said of them was so before all went back to a checkpoint.
    for (auto& [closure, effect] : job_->ended_early_) effect = Effect::kUnknown;
  }
  place_.world->Note(kNoteJob, 3, resumed_, [&] {
    return absl::StrCat(place_.life->name, " has its cluster",
                        resumed_ ? absl::StrCat(", resumes from ", manifest_path_) : "");
  });
  if (resumed_) {
    ++job_->totals.resumes;
    next_ = static_cast<int64_t>(manifest_.next_closure) - 1;
    controller_->Resume(manifest_, manifest_path_);
  }
  if (job_->options_.checkpoints) {
    TryDirectory();
  } else {
    CreateNext();
  }
}

// One variable after the other, as programs do.
void CoordinatorProcess::CreateNext() {
  std::vector<proto::ShardSpec> shards;
  while (created_ < shards_.size() &&
         (shards.empty() || shards_[created_].variable().name() == shards[0].variable().name())) {
    shards.push_back(shards_[created_++]);
  }
  if (shards.empty()) {
    RegisterNext();
    return;
  }
  controller_->CreateShards(std::move(shards), Guard([this](absl::Status s) {
                              if (!s.ok()) {
                                Exit("shards", s);
                              } else {
                                CreateNext();
                              }
                            }));
}

void CoordinatorProcess::RegisterNext() {
  const Workload& workload = *job_->workload_;
  const auto values = workload.Values();
  const auto functions = workload.Functions();
  if (registered_ == values.size() + functions.size()) {
    // Released at once: they stay as long as a plan takes them.
    for (size_t v = 0; v < values.size(); ++v) {
      controller_->ValuesReleaser(static_cast<ValuesId>(v + 1))();
    }
    Train();
    return;
  }
  const size_t next = registered_++;
  const auto done = Guard([this](absl::Status s) {
    if (!s.ok()) {
      Exit("plan", s);
    } else {
      RegisterNext();
    }
  });
  if (next < values.size()) {
    controller_->RegisterValues(static_cast<ValuesId>(next + 1), values[next].function,
                                values[next].arguments, done);
    return;
  }
  const size_t plan = next - values.size();
  const auto function =
      job_->options_.pins ? PinnedToGpus(*functions[plan], job_->options_.gpus) : functions[plan];
  std::vector<proto::ArgumentSource> sources;
  for (size_t i = 0; i < function->arguments.size(); ++i) {
    sources.push_back(workload.Source(plan, i));
  }
  controller_->RegisterPlan(static_cast<PlanId>(plan + 1), function, std::move(sources), 0, done);
}

void CoordinatorProcess::Train() {
  controller_->UpdateWorkers(job_->worker_addresses_);  // they may have changed meanwhile
  beside_.all = job_->workload_->WritesBeside();
  if (resumed_) {
    absl::string_view state = manifest_.job_state;
    uint64_t written = 0;
    if (absl::ConsumePrefix(&state, kWritten) && absl::ConsumeSuffix(&state, "}") &&
        absl::SimpleAtoi(state, &written)) {
      beside_.written = written;
    }
    Resume();
    return;
  }
  // A warm start: the first rows come before the first checkpoint.
  written_before_ = 0;
  WriteNext(job_->workload_->WritesBefore(0), 0, [this] { Resume(); });
}

void CoordinatorProcess::Resume() {
  if (job_->options_.checkpoints) {
    CheckpointOptions options = job_->options_.checkpoint;
    options.rebalance = job_->options_.moves;
    options.balance.pause_share = 1;  // as often as the choice says
    options.choose_moves = [this](const std::set<int>& there,
                                  const std::vector<core::PlacedShard>& shards) {
      std::map<uint32_t, int> moves;
      Random& random = place_.world->random();
      if (random.Chance(0.2)) return moves;
      for (const core::PlacedShard& shard : shards) {
        if (!random.Chance(0.5)) continue;
        const auto to =
            static_cast<size_t>(random.Between(0, static_cast<int64_t>(there.size()) - 1));
        moves[shard.id] = *std::next(there.begin(), static_cast<std::ptrdiff_t>(to));
      }
      return moves;
    };
    if (lock_ == nullptr && !LockDirectory(options.directory)) return;
    options.lock = lock_;
    // A controller that was abandoned asks once more when the job may be gone.
    const auto state = [this, by_tickets = tickets()] {
      return by_tickets ? TicketState() : absl::StrCat(kWritten, beside_.written, "}");
    };
    controller_->StartCheckpoints(std::move(options), state, Guard([this](const absl::Status& s) {
                                    if (!s.ok()) {
                                      Exit("checkpoints", s);
                                      return;
                                    }
                                    if (job_->options_.starts_twice) StartTwice();
                                    BeginClosures();
                                  }));
    return;
  }
  BeginClosures();
}

void CoordinatorProcess::BeginClosures() {
  if (tickets()) ReadTickets();
  ScheduleResumed(0);
}

void CoordinatorProcess::ScheduleResumed(size_t from) {
  const auto functions = job_->workload_->Functions();
  for (size_t i = from; i < manifest_.closures.size(); ++i) {
    if (i > from && place_.world->random().Chance(0.1)) {
      // The program's thread is held up.
      place_.world->Schedule(absl::Milliseconds(place_.world->random().Between(0, 200)),
                             place_.life, [this, i] { ScheduleResumed(i); });
      return;
    }
    const checkpoint::CheckpointClosure& closure = manifest_.closures[i];
    core::ClosureSpec spec = job_->workload_->Closure(static_cast<int64_t>(closure.id) - 1);
    // As the manifest has it: what it says must do.
    spec.plan = 0;
    for (size_t f = 0; f < functions.size(); ++f) {
      if (functions[f]->name == closure.function) spec.plan = static_cast<PlanId>(f + 1);
    }
    spec.arguments = closure.arguments;
    spec.steps = closure.steps;
    spec.seed = closure.seed;
    spec.resumed = closure.id;
    spec.sync = closure.sync;
    if (tickets()) {
      ScheduleResumedTicket(std::move(spec));
    } else {
      Schedule(std::move(spec));
    }
  }
  all_resumed_ = true;
  WriteBeside();
  ScheduleMore();
}

void CoordinatorProcess::Write(const RowWrite& write, std::function<void()> then) {
  auto done = Guard([this, then = std::move(then)](const absl::Status& status) {
    if (!status.ok()) {
      Exit("rows", status);
      return;
    }
    checkpoints_since_write_ = 0;
    then();
  });
  ++job_->totals.writes;
  if (write.ids.has_value()) {
    controller_->WriteIds(write.shard, write.ids, write.rows, /*replace=*/false, std::move(done));
  } else {
    controller_->WriteRows(write.shard, write.begin, 0, write.rows, std::move(done));
  }
}

void CoordinatorProcess::WriteNext(std::vector<RowWrite> writes, size_t at,
                                   std::function<void()> then) {
  if (at == writes.size()) {
    then();
    return;
  }
  const RowWrite& write = writes[at];
  Write(write, [this, writes, at, then = std::move(then)] { WriteNext(writes, at + 1, then); });
}

void CoordinatorProcess::WriteBeside() {
  if (beside_.written >= beside_.all.size()) {
    ScheduleMore();
    return;
  }
  const absl::Duration pause = place_.world->random().Exponential(absl::Milliseconds(20));
  place_.world->Schedule(pause, place_.life, [this] {
    Write(beside_.all[beside_.written], [this] {
      ++beside_.written;
      WriteBeside();
    });
  });
}

bool CoordinatorProcess::WrittenBefore() {
  if (writing_) return false;
  if (written_before_ == next_) return true;
  std::vector<RowWrite> writes = job_->workload_->WritesBefore(next_);
  if (writes.empty()) return true;
  if (!open_.empty()) return false;
  writing_ = true;
  WriteNext(std::move(writes), 0, [this] {
    writing_ = false;
    written_before_ = next_;
    ScheduleMore();
  });
  return false;
}

void CoordinatorProcess::ScheduleMore() {
  if (!all_resumed_) return;
  if (tickets()) {
    ScheduleTickets();
    return;
  }
  const size_t window =
      job_->workload_->synchronous() ? 1 : static_cast<size_t>(job_->options_.window);
  while (open_.size() < window && next_ < job_->workload_->closures() && WrittenBefore()) {
    if (const int64_t closures = job_->workload_->StepSize(next_); closures > 0) {
      ScheduleStep(closures);
    } else {
      Schedule(job_->workload_->Closure(next_++));
    }
  }
  const bool written = !writing_ && beside_.written >= beside_.all.size();
  if (open_.empty() && next_ >= job_->workload_->closures() && written && saving_ == 0) {
    trained_ = true;
    place_.world->Note(kNoteJob, 4, 0,
                       [&] { return absl::StrCat(place_.life->name, " has trained"); });
  }
}

void CoordinatorProcess::ScheduleStep(int64_t closures) {
  std::vector<core::ClosureSpec> step;
  std::vector<core::Controller::ResultFn> done;
  std::vector<core::Controller::ClosureNumber> numbers;
  for (int64_t i = 0; i < closures; ++i) {
    step.push_back(job_->workload_->Closure(next_++));
    const ClosureId id = static_cast<ClosureId>(next_);
    open_.insert(id);
    if (in_charge())
      job_->ended_early_.erase(static_cast<int64_t>(id) - 1);  // before all went back
    numbers.push_back(MayEndEarly(&step.back()));
    if (numbers.back() == nullptr) numbers.back() = std::make_shared<std::atomic<ClosureId>>(0);
    done.push_back(Guard([this, id](absl::StatusOr<std::vector<Tensor>> results) {
      OnClosureDone(id, results.status());
    }));
  }
  SyncStep kind;
  kind.mean = job_->workload_->StepsAreAveraged();
  kind.each = job_->workload_->StepsAreOfSingles();
  controller_->ScheduleStep(std::move(step), kind, std::move(done), std::move(numbers));
}

core::Controller::ClosureNumber CoordinatorProcess::MayEndEarly(core::ClosureSpec* spec) {
  Random& random = place_.world->random();
  const JobOptions& o = job_->options_;
  if (o.deadlines > 0 && random.Chance(o.deadlines)) {
    spec->deadline = place_.env->Monotonic() + random.Exponential(absl::Milliseconds(200));
  }
  if (o.cancels <= 0 || !random.Chance(o.cancels)) return nullptr;
  auto number = std::make_shared<std::atomic<ClosureId>>(ClosureId(0));
  place_.world->Schedule(random.Exponential(absl::Milliseconds(100)), place_.life,
                         [this, number] { controller_->CancelClosure(number); });
  return number;
}

void CoordinatorProcess::Schedule(core::ClosureSpec spec) {
  if (job_->options_.max_staleness >= 0) spec.max_staleness = job_->options_.max_staleness;
  const ClosureId id = spec.resumed != 0 ? spec.resumed : static_cast<ClosureId>(next_);
  open_.insert(id);
  // One of a checkpoint's steps, which is applied now, or ends early now.
  if (spec.sync && in_charge()) job_->ended_early_.erase(static_cast<int64_t>(id) - 1);
  core::Controller::ClosureNumber number = MayEndEarly(&spec);
  controller_->Schedule(std::move(spec),
                        Guard([this, id](absl::StatusOr<std::vector<Tensor>> results) {
                          OnClosureDone(id, results.status());
                        }),
                        std::move(number));
}

bool CoordinatorProcess::OnEndedEarly(ClosureId id, const absl::Status& status) {
  const std::optional<Effect> effect = GetEffect(status);
  const bool asked = absl::IsCancelled(status)          ? job_->options_.cancels > 0
                     : absl::IsDeadlineExceeded(status) ? job_->options_.deadlines > 0
                                                        : false;
  if (!asked || !effect) return false;
  ++job_->totals.ended_early;
  job_->totals.ended_unknown += *effect == Effect::kUnknown;
  if (in_charge()) job_->ended_early_[static_cast<int64_t>(id) - 1] = *effect;
  return true;
}

void CoordinatorProcess::OnClosureDone(ClosureId id, const absl::Status& status) {
  if (open_.erase(id) == 0) {
    place_.world->Violation(absl::StrCat("closure ", id, " is reported twice"));
    return;
  }
  const auto detail = GetDetail(status);
  if (detail && detail->cause == ErrorCause::kQuarantined) {
    if (job_->options_.poison_hangs != absl::IsDeadlineExceeded(status)) {
      place_.world->Violation(absl::StrCat("given up for another reason: ", status.ToString()));
    }
    OnQuarantined(id);
  } else if (absl::IsResourceExhausted(status) &&
             job_->options_.too_large.count(static_cast<int64_t>(id) - 1) > 0) {
    ++job_->totals.too_large;
    failed_.insert(static_cast<int64_t>(id) - 1);
  } else if (!status.ok() && !OnEndedEarly(id, status)) {
    Exit(absl::StrCat("closure ", id), status);
    return;
  }
  ScheduleMore();
}

void CoordinatorProcess::OnQuarantined(ClosureId id) {
  ++job_->totals.quarantined;
  if (static_cast<int64_t>(id) == job_->options_.tearing + 1) return;
  if (static_cast<int64_t>(id) != job_->options_.poison + 1) {
    place_.world->Violation(absl::StrCat("closure ", id, " is given up and killed nobody"));
  }
  if (job_->options_.poison_hangs) {
    if (job_->totals.poisoned < job_->options_.recovery.most_timeouts) {
      place_.world->Violation(
          absl::StrCat("closure ", id, " is given up after ", job_->totals.poisoned, " attempts"));
    }
    return;
  }
  // Waves take workers before it gets there. When others are lost beside it, three times at most,
  // its last one does not count.
  const int64_t after = job_->options_.recovery.quarantine_after, killed = job_->totals.poisoned;
  if (killed < 1 || killed > after + 3) {
    place_.world->Violation(
        absl::StrCat("closure ", id, " is given up after ", killed, " workers"));
  }
}

void CoordinatorProcess::UpdateWorkers(std::vector<std::string> addresses) {
  if (controller_ != nullptr && registered_ > 0) controller_->UpdateWorkers(std::move(addresses));
}

void CoordinatorProcess::Verify() {
  if (job_->options_.reads_at_once && read_at_once_.empty()) {
    ReadAtOnce();
    return;
  }
  final_.shards.clear();
  controller_->AwaitSettled(Guard([this](const absl::Status& status) {
    if (status.ok()) {
      CheckSettled();
    } else {
      Exit("the state does not settle", status);
    }
  }));
}

std::string CoordinatorProcess::Describe() const {
  auto text = std::make_shared<std::string>(
      absl::StrCat(place_.life->name, place_.life->paused ? " (stopped)" : "", ": ", registered_,
                   " functions, ", next_, " closures scheduled, ", open_.size(), " open"));
  if (controller_ != nullptr) {
    controller_->GetStats(
        [text](const core::Controller::Stats& stats) {  // at once, if the loop is idle
          absl::StrAppend(text.get(), ", ", stats.workers_ready, " of ", stats.workers,
                          " workers, waiting for '", stats.waiting_for, "'");
        });
  }
  return *text;
}

// A PS may be lost at any time, also now, and then closures run again. Only what was read while
// nothing of this happened is the state at the end.
void CoordinatorProcess::CheckSettled() {
  controller_->GetStats(Guard([this](const core::Controller::Stats& stats) {
    const bool settled = stats.open == 0 && stats.waiting_for.empty();
    const bool begins = final_.shards.empty();
    if (!settled || (!begins && stats.failures.ps_lost != ps_lost_before_)) {
      place_.world->Schedule(absl::Milliseconds(20), place_.life, [this] { Verify(); });
      return;
    }
    if (begins) {
      ps_lost_before_ = stats.failures.ps_lost;
      ReadNext();
      return;
    }
    job_->totals.reruns += stats.failures.closures_rerun;
    job_->totals.updates_lost += stats.failures.updates_lost;
    job_->totals.retried += static_cast<int64_t>(stats.closures.retried);
    job_->totals.timeouts += stats.failures.timeouts;
    final_.updates_may_be_lost = job_->options_.recovery.on_ps_loss == PsLossPolicy::kAcceptLoss;
    final_.updates_lost = job_->restarted ? -1 : stats.failures.updates_lost;
    final_.undone = undone_;
    final_.ended_early = job_->ended_early_;
    for (const std::string& wrong : {job_->workload_->Check(final_), WrongReads()}) {
      if (!wrong.empty()) place_.world->Violation(wrong);
    }
    if (job_->options_.poison >= 0 && job_->totals.quarantined != 1) {
      place_.world->Violation("the closure that kills its workers, or hangs, was not given up");
    }
    if (job_->options_.tearing >= 0 && job_->totals.quarantined != 1) {
      place_.world->Violation("the closure that breaks its connections was not given up");
    }
    if (job_->totals.too_large != static_cast<int64_t>(job_->options_.too_large.size())) {
      place_.world->Violation(absl::StrCat(job_->totals.too_large, " closures of ",
                                           job_->options_.too_large.size(),
                                           " failed as too large"));
    }
    job_->finished_ = true;
  }));
}

void CoordinatorProcess::CannotRead(const absl::Status& status) {
  Exit("the final rows cannot be read", status);
}

void CoordinatorProcess::ReadNext() {
  if (final_.shards.size() < shards_.size()) {
    const proto::ShardSpec& spec = shards_[final_.shards.size()];
    if (spec.variable().has_hash()) {
      controller_->ReadIds(spec.id(), 0, int64_t{1} << 40, 0,
                           Guard([this, spec](absl::StatusOr<core::Controller::IdsRead> read) {
                             if (!read.ok()) {
                               CannotRead(read.status());
                               return;
                             }
                             final_.shards.push_back({spec, read->rows, read->ids, -1});
                             ReadNext();
                           }));
      return;
    }
    controller_->ReadRows(spec.id(), 0, spec.rows(), 0,
                          Guard([this, spec](absl::StatusOr<Tensor> rows) {
                            if (!rows.ok()) {
                              CannotRead(rows.status());
                              return;
                            }
                            final_.shards.push_back({spec, *std::move(rows), {}, -1});
                            ReadNext();
                          }));
    return;
  }
  controller_->QueryStatus(Guard([this](const std::vector<proto::TaskStatus>& tasks) {
    for (const proto::TaskStatus& task : tasks) {
      for (const proto::ShardStatus& shard : task.shards()) {
        job_->totals.duplicates += static_cast<int64_t>(shard.duplicates_dropped());
        for (FinalShard& f : final_.shards) {
          if (f.spec.id() == shard.shard())
            f.applied = static_cast<int64_t>(shard.updates_applied());
        }
      }
    }
    CheckSettled();
  }));
}

}  // namespace coxswain::sim
