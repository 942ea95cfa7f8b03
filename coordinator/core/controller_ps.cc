// The controller's dealings with parameter servers: shards, plans, losing a PS and recovering.

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "coordinator/core/controller.h"
#include "coordinator/core/directory_trial.h"
#include "runtime/base/logging.h"
#include "runtime/base/not_finite.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/graph/serialize.h"

namespace coxswain {
namespace {

// The saved shard as a PS is to have it: with today's optimizer settings, from an absolute path.
proto::SavedShard ToRestore(const proto::SavedShard& saved, const proto::ShardSpec& spec,
                            const std::string& path) {
  proto::SavedShard restore = WithPaths(saved, path);
  *restore.mutable_shard() = spec;
  return restore;
}

absl::Status CheckFits(const proto::ShardSpec& saved, const proto::ShardSpec& wanted) {
  const auto text = [](const proto::ShardSpec& s) {
    std::string shape;
    for (int64_t d : s.variable().shape().dims())
      absl::StrAppend(&shape, shape.empty() ? "" : "x", d);
    return absl::StrCat("variable '", s.variable().name(), "' ", shape, " of dtype ",
                        s.variable().dtype(), ", optimizer '", s.variable().optimizer().kind(),
                        "', shard ", s.index(), " of ", s.count(), " (", s.strategy(), ", ",
                        s.rows(), " rows)");
  };
  if (text(saved) == text(wanted)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the checkpoint does not fit: wanted ", text(wanted), ", it has ", text(saved)));
}

}  // namespace

const proto::SavedShard* Controller::FindSaved(const Manifest& manifest, ShardId shard) {
  const auto it =
      std::lower_bound(manifest.shards.begin(), manifest.shards.end(), shard,
                       [](const proto::SavedShard& s, ShardId id) { return s.shard().id() < id; });
  return it != manifest.shards.end() && it->shard().id() == shard ? &*it : nullptr;
}

bool Controller::AllPsUp() const {
  return std::all_of(ps_.begin(), ps_.end(),
                     [this](const auto& s) { return s->up() || absent_.count(s->task()) > 0; });
}

std::set<int> Controller::PsThere() const {
  std::set<int> there;
  for (const auto& p : ps_) {
    if (p->up()) there.insert(p->task());
  }
  return there;
}

void Controller::SendToPs(int ps, proto::ControlRequest request, std::vector<Buffer> payload,
                          TaskSession::ResponseFn done) {
  ps_[ps]->Request(std::move(request), std::move(payload),
                   [this, ps, done = std::move(done)](absl::StatusOr<TaskSession::Response> r) {
                     if (!r.ok() && IsLost(r.status())) missed_.insert(ps);
                     done(std::move(r));
                   });
}

void Controller::OnPsUp(int ps) {
  refusals_.erase(ps_[ps]->name());
  if (!started_) {
    if (!claimed_ && ps_[ps].get() == first_ps()) {
      claimed_ = true;
      for (auto* tasks : {&ps_, &workers_}) {
        for (auto& task : *tasks) {
          if (task->answered()) task->Claim(session_);
        }
      }
    }
    if (!AllPsUp()) return;
    for (auto& worker : workers_) {
      if (worker->up()) SetUpWorker(worker->task());
    }
    CheckStarted(false);
    return;
  }
  if (!recovery_.IsLost(ps)) {
    DropStale(ps);
    return;
  }
  if (!ps_[ps]->fresh() && !recovery_.begun() && missed_.count(ps) == 0) {
    LogInfo(ps_[ps]->name(), " is back, with all that it had");
    for (ShardId shard : shards_.On(ps)) lost_shards_.erase(shard);
    if (recovery_.Intact(ps)) ResumeDispatch();
    return;
  }
  recovery_.Back(ps);
  TryRecover();
}

// A PS that was given up before may serve again at the next recovery. What it still has is stale.
void Controller::DropStale(int ps) {
  proto::ControlRequest setup;
  setup.mutable_setup_ps()->set_generation(generation_);
  for (ShardId shard : shards_.On(ps)) setup.mutable_setup_ps()->add_keep(shard);
  ps_[ps]->Request(std::move(setup), {}, [](auto) {});
}

void Controller::OnPsDown(int ps, const absl::Status& status) {
  if (!started_) {
    LogWarning("lost ", ps_[ps]->name(), ": ", status.message());
    return;
  }
  if (shards_.On(ps).empty() && (absent_.count(ps) > 0 || !shards_.shards().empty())) {
    absent_.insert(ps);           // it held nothing, and nobody needs it
    if (recovery_.restoring()) {  // but it took part, so that one is not complete
      AbortMoves();
      recovery_.Again();
      TryRecover();
    }
    return;
  }
  AbortMoves();  // what was to move is recovered too
  const bool known = recovery_.IsLost(ps);
  recovery_.Lost(ps, env_->Monotonic());
  if (!known) ++failures_.ps_lost;
  for (ShardId shard : shards_.On(ps)) lost_shards_.insert(shard);
  if (checkpointer_ != nullptr) checkpointer_->Abort(status);
  Emit(ClusterEvent::Kind::kPsLost, ps_[ps]->name(),
       absl::StrCat("is lost, closures wait: ", status.message()));
  PostAfter(recovery_.Deadline() - env_->Monotonic(), [this] { TryRecover(); });
  TryRecover();
}

void Controller::TryRecover() {
  if (!failed_.ok()) return;
  if (const auto decision = recovery_.Decide(env_->Monotonic(), PsThere())) {
    BeginRecovery(*decision);
  }
}

// The newest checkpoint from which everything can be had again.
absl::StatusOr<const Controller::Base*> Controller::ChooseBase() const {
  const bool runs_again = options_.recovery.on_ps_loss != PsLossPolicy::kAcceptLoss;
  const bool all = options_.recovery.on_ps_loss == PsLossPolicy::kRollback;
  std::string why = "there is no checkpoint";
  const auto good = [&](const Base& base) {
    if (base.bad) {
      why = absl::StrCat("checkpoint ", base.manifest.number, " could not be read");
      return false;
    }
    if (runs_again && !closures_.log().Covers(base.manifest.low_water)) {
      why = absl::StrCat(base.manifest.number == 0
                             ? std::string("there is no checkpoint")
                             : absl::StrCat("checkpoint ", base.manifest.number, " is too old"),
                         ", and the closures since then are more than the log keeps");
      return false;
    }
    for (const auto& [shard, number] : written_) {
      const bool goes_back = all || lost_shards_.count(shard) > 0;
      if (goes_back && base.manifest.number < number) {
        why = absl::StrCat("shard ", shard, " of variable '",
                           shards_.shards().at(shard).variable().name(),
                           "' was assigned a value that is in no checkpoint");
        return false;
      }
    }
    return true;
  };
  std::vector<std::string> reasons;
  for (auto base = bases_.rbegin(); base != bases_.rend(); ++base) {
    if (good(*base)) return &*base;
    reasons.push_back(why);
  }
  if (!resumed_ && good(initial_)) return &initial_;
  // Why not the initial values is news only where there is no checkpoint.
  if (!reasons.empty()) why = absl::StrJoin(reasons, "; ");
  return WithDetail(
      absl::DataLossError(absl::StrCat(
          "the rows of ", recovery_.ToString(env_->Monotonic()), " cannot be had again: ", why,
          bases_.empty() ? "; checkpoints (--checkpoint-dir) bring them back" : "")),
      {ErrorCause::kUnknown, false, "", 0});
}

void Controller::BeginRecovery(const PsRecovery::Decision& decision) {
  recovery_.Begin();
  const auto base = ChooseBase();
  if (!base.ok()) {
    FailAll(base.status());
    return;
  }
  const std::set<int> there = PsThere();
  for (int ps : there) absent_.erase(ps);
  if (!decision.gone.empty()) {
    std::map<ShardId, ShardLoad> loads;
    for (const proto::SavedShard& saved : (*base)->manifest.shards) {
      loads[saved.shard().id()] = LoadOf(saved);
    }
    shards_.Spread(decision.gone, there, loads);
    absent_.insert(decision.gone.begin(), decision.gone.end());
  }
  if (options_.recovery.on_ps_loss == PsLossPolicy::kRollback) {
    for (const auto& [shard, spec] : shards_.shards()) lost_shards_.insert(shard);
  }
  // A PS gives up what it is making when it is set up anew.
  lost_shards_.insert(making_.begin(), making_.end());
  RestoreShards(**base);
}

void Controller::RestoreShards(const Base& base) {
  ++generation_;
  const uint64_t token = ++restore_token_;
  if (absl::Status placed = plans_.PlaceAgain(PsOf()); !placed.ok()) {
    FailAll(placed);
    return;
  }
  // What runs now was begun before; it is begun anew when all is restored.
  for (auto& worker : workers_) {
    worker_table_.LetGo(worker->task());
    TakeOut(worker->task(), /*blame=*/false);
  }
  if (checkpointer_ != nullptr) {
    checkpointer_->bases()->WentBack(lost_shards_, base.manifest.number);
  }
  closures_.ForgetOverdueAttempts();
  missed_.clear();
  auto gather = NewStatusGather([this, token, number = base.manifest.number](absl::Status status) {
    OnRestored(token, number, status);
  });
  for (int ps : PsThere()) RestorePs(ps, base, gather);
  gather->Finish();
}

void Controller::RestorePs(int ps, const Base& base, const std::shared_ptr<StatusGather>& gather) {
  proto::ControlRequest setup, restore, create;
  setup.mutable_setup_ps()->set_generation(generation_);
  for (ShardId shard : shards_.On(ps)) {
    if (lost_shards_.count(shard) == 0) {
      setup.mutable_setup_ps()->add_keep(shard);
      continue;
    }
    const proto::ShardSpec& spec = shards_.shards().at(shard);
    if (const proto::SavedShard* saved = FindSaved(base.manifest, shard)) {
      *restore.mutable_restore_shards()->add_shards() = ToRestore(*saved, spec, base.path);
    } else {
      *create.mutable_create_shards()->add_shards() = spec;
    }
  }
  SendToPs(ps, std::move(setup), {}, gather->Add<TaskSession::Response>());
  if (restore.has_restore_shards()) {
    SendToPs(ps, std::move(restore), {},
             [session = ps_[ps], count = gather->Add<TaskSession::Response>()](
                 absl::StatusOr<TaskSession::Response> r) {
               // That one is lost names it already.
               if (!r.ok() && !IsLost(r.status())) r = session->Named(r.status());
               count(std::move(r));
             });
  }
  if (create.has_create_shards()) {
    SendToPs(ps, std::move(create), {}, gather->Add<TaskSession::Response>());
  }
  for (proto::ControlRequest& request : plans_.AllForPs(ps)) {
    SendToPs(ps, std::move(request), {}, gather->Add<TaskSession::Response>());
  }
}

void Controller::OnRestored(uint64_t token, uint64_t base_number, absl::Status status) {
  if (token != restore_token_ || ending_ || !failed_.ok()) return;
  if (IsLost(status)) return;  // OnPsDown tells, and it is tried again
  if (!recovery_.restoring()) return;
  Base* base = &initial_;
  for (Base& b : bases_) {
    if (b.manifest.number == base_number) base = &b;
  }
  const bool moved = moves_.phase == MovePhase::kRestoring;
  if (status.ok()) {
    moved ? FinishMoves() : BeginAftermath(*base);
    return;
  }
  if (moved) UndoMoves(status);
  const bool damaged = absl::IsDataLoss(status) || absl::IsNotFound(status);
  if ((!damaged && !moved) || base_number == 0) {
    FailAll(Annotate(status, "shards cannot be restored"));
    return;
  }
  if (!damaged) {
    recovery_.Again();
    TryRecover();
    return;
  }
  base->bad = true;
  Emit(ClusterEvent::Kind::kCheckpointFailed, "",
       absl::StrCat("checkpoint ", base_number,
                    " is not used, the one before is: ", status.message()));
  recovery_.Again();
  TryRecover();
}

void Controller::ResumeDispatch() {
  for (auto& worker : workers_) {
    if (worker->up() && !worker_table_.ready(worker->task())) SetUpWorker(worker->task());
  }
  auto parked = std::exchange(parked_, {});
  for (auto& request : parked) request();
  Dispatch();
}

void Controller::CreateShards(std::vector<proto::ShardSpec> shards, DoneFn done) {
  loop_->Post([this, shards = std::move(shards), done = std::move(done)]() mutable {
    if (!failed_.ok()) {
      done(failed_);
      return;
    }
    if (!recovery_.running() || Moving()) {
      parked_.push_back([this, shards = std::move(shards), done = std::move(done)] {
        CreateShards(shards, done);
      });
      return;
    }
    // A failure below takes away what this call has added, so it must add nothing that was there.
    for (const proto::ShardSpec& shard : shards) {
      if (!shards_.Has(shard.id())) continue;
      done(absl::AlreadyExistsError(
          absl::StrCat("shard ", shard.id(), " of variable '", shard.variable().name(),
                       "' exists already, of variable '",
                       shards_.shards().at(shard.id()).variable().name(), "'")));
      return;
    }
    std::vector<proto::ControlRequest> create(ps_.size()), restore(ps_.size());
    std::vector<ShardId> ids;
    for (proto::ShardSpec& shard : shards) {
      // A PS that was given up takes no new shards, also when it is there again.
      for (int other : PsThere()) {
        if (absent_.count(shard.ps()) == 0) break;
        shard.set_ps(other);
      }
      const size_t ps = static_cast<size_t>(shard.ps());
      const proto::SavedShard* saved =
          resumed_ ? FindSaved(bases_.front().manifest, shard.id()) : nullptr;
      if (saved != nullptr) {
        if (absl::Status s = CheckFits(saved->shard(), shard); !s.ok()) {
          done(std::move(s));
          return;
        }
        *restore[ps].mutable_restore_shards()->add_shards() =
            ToRestore(*saved, shard, bases_.front().path);
      } else {
        *create[ps].mutable_create_shards()->add_shards() = shard;
      }
      ids.push_back(shard.id());
      if (checkpointer_ != nullptr) {
        const uint64_t from = saved == nullptr ? 0 : bases_.front().manifest.number;
        checkpointer_->bases()->WentBack({shard.id()}, from);
      }
    }
    for (const proto::ShardSpec& shard : shards) shards_.Add(shard);
    making_.insert(ids.begin(), ids.end());
    auto gather = NewStatusGather([this, ids, done = std::move(done)](absl::Status status) {
      for (ShardId id : ids) making_.erase(id);
      if (!status.ok()) {
        for (ShardId id : ids) shards_.Remove(id);
      }
      done(std::move(status));
    });
    for (size_t p = 0; p < ps_.size(); ++p) {
      for (auto* request : {&create[p], &restore[p]}) {
        if (request->body_case() == proto::ControlRequest::BODY_NOT_SET) continue;
        SendToPs(static_cast<int>(p), std::move(*request), {},
                 [count = gather->AddUnlessLost<TaskSession::Response>()](
                     absl::StatusOr<TaskSession::Response> response) {
                   // A recovery has overtaken the request, and made the shards.
                   const auto detail = GetDetail(response.status());
                   const bool overtaken = detail && detail->cause == ErrorCause::kCancelled;
                   count(overtaken ? TaskSession::Response() : std::move(response));
                 });
      }
    }
    gather->Finish();
  });
}

PlanTable::PsOf Controller::PsOf() const {
  return [this](ShardId shard) { return shards_.PsOf(shard); };
}

void Controller::RegisterPlan(PlanId id, std::shared_ptr<const Function> function,
                              std::vector<proto::ArgumentSource> sources, DatasetId dataset,
                              DoneFn done) {
  loop_->Post([this, id, function = std::move(function), sources = std::move(sources), dataset,
               done = std::move(done)]() mutable {
    if (!failed_.ok()) {
      done(failed_);
      return;
    }
    if (!recovery_.running() || Moving()) {
      parked_.push_back(
          [this, id, function = std::move(function), sources = std::move(sources), dataset,
           done = std::move(done)] { RegisterPlan(id, function, sources, dataset, done); });
      return;
    }
    if (absl::Status placed =
            plans_.Add(id, std::move(function), std::move(sources), dataset, PsOf());
        !placed.ok()) {
      done(std::move(placed));
      return;
    }
    // A task that goes away meanwhile is no error: it gets the plan when it returns.
    auto gather = NewStatusGather(std::move(done));
    for (const auto& ps : ps_) {
      if (auto request = plans_.ForPs(id, ps->task())) {
        SendToPs(ps->task(), *std::move(request), {},
                 gather->AddUnlessLost<TaskSession::Response>());
      }
    }
    for (auto& worker : workers_) {
      if (!worker->up()) continue;
      worker->Request(plans_.ForWorker(id), {}, gather->AddUnlessLost<TaskSession::Response>());
    }
    gather->Finish();
  });
}

void Controller::Resume(Manifest manifest, std::string path) {
  loop_->Post([this, manifest = std::move(manifest), path = std::move(path)]() mutable {
    resumed_ = true;
    closures_.Resume(manifest);
    steps_at_checkpoint_ = closures_.steps();
    bases_ = {Base{std::move(manifest), std::move(path)}};
  });
}

void Controller::TryCheckpointDirectory(std::string directory, DoneFn done) {
  loop_->Post([this, directory = std::move(directory), done = std::move(done)]() mutable {
    if (!failed_.ok()) {
      done(failed_);
      return;
    }
    std::make_shared<DirectoryTrial>(env_, loop_, std::move(directory), std::move(done))
        ->Start(ps_);
  });
}

void Controller::StartCheckpoints(CheckpointOptions options,
                                  std::function<std::string()> job_state) {
  loop_->Post([this, options = std::move(options), job_state = std::move(job_state)]() mutable {
    job_state_ = std::move(job_state);
    Checkpointer::Hooks hooks;
    hooks.low_water = [this] { return closures_.low_water(); };
    hooks.describe = [this](Manifest* manifest) { return DescribeState(manifest); };
    hooks.parts = [this] {
      std::vector<Checkpointer::Part> parts;
      for (auto& p : ps_) parts.push_back({p, shards_.On(p->task())});
      return parts;
    };
    // Numbers are not used twice, also not those of checkpoints that were never finished.
    uint64_t next = 1;
    if (auto names = env_->files()->List(options.directory); names.ok()) {
      for (const std::string& name : *names) {
        absl::string_view digits = name;
        uint64_t number = 0;
        if (!absl::ConsumePrefix(&digits, "checkpoint-")) continue;
        if (absl::SimpleAtoi(digits.substr(0, digits.find('.')), &number)) {
          next = std::max(next, number + 1);
        }
      }
    }
    checkpointer_ =
        std::make_shared<Checkpointer>(env_, loop_, session_, std::move(options), std::move(hooks));
    checkpointer_->set_next_number(next);
    // Once there are others it may be none that the shards come from any more.
    if (resumed_ && bases_.size() == 1) {
      checkpointer_->bases()->Add(bases_.front().manifest, bases_.front().path);
    }
    for (auto& [shard, number] : written_) {
      number = next;
      checkpointer_->bases()->Written(shard, next);
    }
    ++checkpoint_timer_;
    ScheduleCheckpoint();
  });
}

// What some shard may lack, and what the program says of itself.
absl::Status Controller::DescribeState(Manifest* manifest) const {
  RETURN_IF_ERROR(
      closures_.Describe([this](PlanId plan) { return plans_.FunctionName(plan); }, manifest));
  manifest->job_state = job_state_ ? job_state_() : "{}";
  for (DatasetProgress& data : manifest->data) {
    data.fingerprint = datasets_.fingerprint(data.dataset).value_or(data.fingerprint);
  }
  return absl::OkStatus();
}

void Controller::ScheduleCheckpoint() {
  const absl::Duration every = checkpointer_->options().every;
  if (every <= absl::ZeroDuration()) return;
  PostAfter(every, [this, timer = checkpoint_timer_] {
    if (timer != checkpoint_timer_ || checkpointer_ == nullptr) return;
    const bool worth = closures_.steps() != steps_at_checkpoint_ || written_uncovered_;
    if (worth && !checkpointer_->busy() && recovery_.running()) BeginCheckpoint();
    ScheduleCheckpoint();
  });
}

void Controller::CheckpointBySteps() {
  if (checkpointer_ == nullptr || checkpointer_->options().every_steps <= 0) return;
  if (closures_.steps() - steps_at_checkpoint_ < checkpointer_->options().every_steps) return;
  if (!checkpointer_->busy() && recovery_.running()) BeginCheckpoint();
}

void Controller::Checkpoint(std::function<void(absl::StatusOr<Manifest>)> done) {
  loop_->Post([this, done = std::move(done)] {
    if (checkpointer_ == nullptr || !failed_.ok() || !recovery_.running()) {
      if (!done) return;
      done(!failed_.ok() ? failed_
           : checkpointer_ == nullptr
               ? absl::FailedPreconditionError("no directory for checkpoints was set")
               : absl::UnavailableError(
                     absl::StrCat("a checkpoint needs all shards; waiting for ", WaitingFor())));
      return;
    }
    steps_at_checkpoint_ = closures_.steps();
    written_uncovered_ = false;
    const absl::Duration begin = trace_.Now();
    checkpointer_->Begin([this, done, begin](absl::StatusOr<Manifest> manifest) {
      trace_.Record(SpanKind::kCheckpoint, begin, trace_.Now());
      if (manifest.ok()) {
        OnCheckpointWritten(*manifest);
      } else if (!ending_) {
        written_uncovered_ = written_uncovered_ || !written_.empty();
        retry_written_ = false;
        Emit(ClusterEvent::Kind::kCheckpointFailed, "",
             absl::StrCat("not written, ",
                          bases_.empty() ? "there is none yet: " : "the last good one stays: ",
                          manifest.status().message()));
        FailIfNotFinite(manifest.status());
      }
      if (done) done(std::move(manifest));
      gathered_anew_ = false;
      ReleaseWrites();
    });
  });
}

// A shard that cannot be saved by its own fault has numbers that are none. They spread, and no
// later checkpoint would have what training makes of them.
void Controller::FailIfNotFinite(const absl::Status& status) {
  if (!failed_.ok()) return;  // the checkpoint was given up for that
  const auto detail = GetDetail(status);
  if (!detail || detail->cause != ErrorCause::kApplication) return;
  std::string last = "; there is no checkpoint";
  if (!bases_.empty()) {
    last = absl::StrCat("; checkpoint ", bases_.back().manifest.number, " (step ",
                        bases_.back().manifest.steps, ") is the last one before that");
  }
  FailAll(WithNotFinite(
      WithDetail(absl::Status(status.code(), absl::StrCat(status.message(), last)), *detail), {}));
}

void Controller::OnCheckpointWritten(const Manifest& manifest) {
  // Several may have asked for it.
  if (!bases_.empty() && bases_.back().manifest.number == manifest.number) return;
  Base base{manifest, checkpointer_->PathOf(manifest.number)};
  // A manifest for restoring does not need what is kept here anyway.
  base.manifest.closures.clear();
  bases_.push_back(std::move(base));
  // Two good ones, in case that the newest turns out to be damaged.
  if (bases_.size() > 2) bases_.erase(bases_.begin());
  if (bases_.size() == 2) {
    closures_.Trim(bases_.front().manifest.low_water);
  }
  for (auto it = written_.begin(); it != written_.end();) {
    it = it->second <= bases_.front().manifest.number ? written_.erase(it) : std::next(it);
  }
  Emit(ClusterEvent::Kind::kCheckpoint, "",
       absl::StrCat("checkpoint ", manifest.number, " written, ", manifest.bytes(), " bytes (",
                    manifest.written_bytes(), " new), step ", manifest.steps));
}

}  // namespace coxswain
