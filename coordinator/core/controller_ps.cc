// The controller and parameter servers: their loss, and restoring shards.

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "runtime/base/logging.h"
#include "runtime/base/not_finite.h"
#include "runtime/base/status.h"

namespace coxswain::core {
namespace {

constexpr absl::Duration kSaveAgain = absl::Seconds(1);

// Of a PS that may be the only one for which the files are not there.
bool IsUnreadable(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsPermissionDenied(status);
}

}  // namespace

bool Controller::AllPsUp() const {
  return std::all_of(tasks_.ps().begin(), tasks_.ps().end(),
                     [this](const auto& s) { return s->up() || layout_.absent(s->task()); });
}

PlanTable::PsOf Controller::PsOf() const {
  return [this](ShardId shard) { return layout_.PsOf(shard); };
}

void Controller::SendToPs(int ps, proto::ControlRequest request, std::vector<Buffer> payload,
                          TaskSession::ResponseFn done) {
  loop_.AssertOnLoop();
  tasks_.ps()[ps]->Request(
      std::move(request), std::move(payload),
      [this, ps, done = std::move(done)](absl::StatusOr<TaskSession::Response> r) {
        if (!r.ok() && IsLost(r.status())) layout_.Missed(ps);
        done(std::move(r));
      });
}

void Controller::OnPsUp(int ps) {
  loop_.AssertOnLoop();
  tasks_.NotRefused(tasks_.ps()[ps]->name());
  if (!life_.started()) {
    if (tasks_.ps()[ps].get() == tasks_.first_ps() && hold_.Take()) tasks_.Claim(hold_.session());
    if (!AllPsUp()) return;
    for (auto& worker : tasks_.workers()) {
      if (worker->up()) SetUpWorker(worker->task());
    }
    CheckStarted(false);
    return;
  }
  const absl::Duration now = env_->Monotonic();
  if (recovery_.OneThere(now)) {
    loop_.PostAfter(recovery_.Deadline() - now, [this] { TryRecover(); });
  }
  if (!recovery_.IsLost(ps)) {
    DropStale(ps);
    TryRecover();  // what others lost may have waited for a place
    return;
  }
  if (!tasks_.ps()[ps]->fresh() && !recovery_.begun() && !layout_.missed(ps)) {
    const absl::Duration away = now - recovery_.LostAt(ps);
    failures_.TaskBack(away);
    Emit(ClusterEvent::Kind::kPsBack, tasks_.ps()[ps]->name(),
         absl::StrCat("is back after ",
                      absl::FormatDuration(absl::Floor(away, absl::Milliseconds(1))),
                      ", with all that it had"));
    layout_.Intact(ps);
    if (recovery_.Intact(ps)) {
      ResumeDispatch();
    } else {
      TryRecover();  // others may have waited for this one alone
    }
    return;
  }
  recovery_.Back(ps);
  TryRecover();
}

// A PS that was given up before may serve again at the next recovery. Its state is stale.
void Controller::DropStale(int ps) {
  tasks_.ps()[ps]->Request(layout_.KeepRequest(ps), {}, [](auto) {});
}

void Controller::OnTaskEnding(bool is_ps, int task) {
  TaskSession* const session =
      (is_ps ? tasks_.ps() : tasks_.workers())[static_cast<size_t>(task)].get();
  const bool has_rows = is_ps && life_.started() && !layout_.shards().On(task).empty();
  if (!has_rows || checkpoints_.writer() == nullptr) {
    session->LetGo();
    return;
  }
  LogInfo(session->where(), " is asked to end: a checkpoint is written before");
  if (recovery_.Ending(task)) SaveBeforeEnd();
}

// With rollback, those that ask meanwhile go with the same checkpoint: it is what remains when the
// first one goes. Otherwise what they took since would be lost.
void Controller::SaveBeforeEnd() {
  Checkpoint([this, asked = recovery_.ending()](const auto& saved) {
    // A PS was lost: they wait until its shards are back, see ResumeDispatch.
    const bool again = absl::IsUnavailable(saved.status()) && !recovery_.running();
    if (again && life_.failed().ok()) return;
    // A disk that is full may have room soon. They end by themselves when they have waited long.
    if (!saved.ok() && life_.failed().ok() && !life_.ending() && !GetNotFinite(saved.status())) {
      loop_.PostAfter(kSaveAgain, [this] {
        if (!recovery_.ending().empty()) SaveBeforeEnd();
      });
      return;
    }
    const bool all = options_.recovery.on_ps_loss == PsLossPolicy::kRollback;
    const std::set<int> go = all ? recovery_.ending() : asked;  // a copy: it changes in the loop
    for (int ps : go) {
      recovery_.Ended(ps);
      tasks_.ps()[static_cast<size_t>(ps)]->LetGo();
    }
    if (!recovery_.ending().empty()) SaveBeforeEnd();
  });
}

void Controller::OnPsDown(int ps, const absl::Status& status) {
  loop_.AssertOnLoop();
  if (!life_.started()) {
    LogWarning("lost ", tasks_.ps()[ps]->name(), ": ", status.message());
    return;
  }
  // One without shards may be the last to go.
  if (tasks_.PsThere().empty()) recovery_.AllAway(env_->Monotonic());
  if (!layout_.Lost(ps)) {
    if (recovery_.restoring()) {  // it took part, so the restore is incomplete
      moves_.Abort();
      recovery_.Again();
      TryRecover();
    }
    return;
  }
  if (recovery_.restoring() && layout_.takes(ps)) recovery_.LostWhileTaking();
  moves_.Abort();  // moving shards are recovered too
  EndStepPause(status);
  if (!recovery_.IsLost(ps)) ++failures_.stats().ps_lost;
  recovery_.Lost(ps, env_->Monotonic());
  checkpoints_.Abort(status);
  Emit(ClusterEvent::Kind::kPsLost, tasks_.ps()[ps]->name(),
       absl::StrCat("is lost, closures wait: ", status.message()));
  loop_.PostAfter(recovery_.Deadline() - env_->Monotonic(), [this] { TryRecover(); });
  TryRecover();
}

void Controller::TryRecover() {
  if (looks_before_recovery_ || !life_.failed().ok()) return;
  if (!recovery_.Decide(env_->Monotonic(), tasks_.PsThere())) {
    FailIfNothingComesBack();
    return;
  }
  looks_before_recovery_ = true;
  UnlessTakenOver([this] {
    looks_before_recovery_ = false;
    // Another PS may have been lost, or come back, since.
    if (const auto decision = recovery_.Decide(env_->Monotonic(), tasks_.PsThere())) {
      BeginRecovery(*decision);
    }
  });
}

// Without any PS there is nothing to restore shards on. Where nothing could be restored either,
// only those that are lost can bring the values back, if it was the network that failed. A job that
// has trained waits for them longer than one that only asks a model, which is cheap to begin again.
void Controller::FailIfNothingComesBack() {
  if (!tasks_.PsThere().empty() || !recovery_.TimeIsOver(env_->Monotonic())) return;
  if (HasUpdatesToLose()) return;
  if (const auto point = ChooseRestorePoint(); !point.ok()) FailAll(point.status());
}

// Of those that no checkpoint has.
bool Controller::HasUpdatesToLose() const { return !closures_.log().entries().empty(); }

// With replay, too, where there is FetchAdd: closures that run again may get other numbers than
// they had, and shards that stayed have what came of those.
bool Controller::AllGoBack() const {
  const PsLossPolicy policy = options_.recovery.on_ps_loss;
  return policy == PsLossPolicy::kRollback ||
         (policy == PsLossPolicy::kReplay && plans_.AnyFetch());
}

absl::StatusOr<const RestorePoint*> Controller::ChooseRestorePoint() const {
  RestorePoints::Need need;
  need.runs_again = options_.recovery.on_ps_loss != PsLossPolicy::kAcceptLoss;
  need.covers = [this](ClosureId first) { return closures_.log().Covers(first); };
  need.goes_back = layout_.going_back();
  if (AllGoBack()) {
    for (const auto& [shard, spec] : layout_.shards().shards()) need.goes_back.insert(shard);
  }
  need.safe_from = checkpoints_.safe_from();
  need.variable = [this](ShardId shard) { return layout_.VariableOf(shard); };
  auto point = checkpoints_.points().Choose(need);
  if (point.ok()) return point;
  return WithDetail(absl::DataLossError(absl::StrCat(
                        "the rows of ", recovery_.ToString(env_->Monotonic()),
                        " cannot be had again: ", point.status().message(),
                        !HasUpdatesToLose()             ? "; start what is missing, and begin again"
                        : checkpoints_.points().empty() ? "; checkpoints bring them back"
                                                        : "")),
                    {ErrorCause::kTaskLost, false, tasks_.ps()[recovery_.first_lost()]->name(), 0});
}

void Controller::BeginRecovery(const PsRecovery::Decision& decision) {
  recovery_.Begin();
  const auto point = ChooseRestorePoint();
  if (!point.ok()) {
    FailAll(point.status());
    return;
  }
  layout_.BeginRecovery(decision.there, decision.gone, AllGoBack(), **point, decision.full);
  RestoreShards(**point);
}

void Controller::RestoreShards(const RestorePoint& point) {
  loop_.AssertOnLoop();
  const uint64_t restore = layout_.BeginRestore();
  if (absl::Status placed = plans_.PlaceAgain(PsOf()); !placed.ok()) {
    FailAll(placed);
    return;
  }
  // Running closures were begun before the loss; they begin again when all shards are restored.
  for (auto& worker : tasks_.workers()) {
    worker_table_.LetGo(worker->task());
    TakeOut(worker->task(), /*blame=*/false);
  }
  const uint64_t checkpoint = point.manifest.number;
  checkpoints_.WentBack(layout_.going_back(), checkpoint);
  closures_.ForgetOverdueAttempts();
  const auto refusals = std::make_shared<Refusals>();
  auto gather = NewStatusGather([this, restore, checkpoint, refusals](absl::Status status) {
    OnRestored(restore, checkpoint, *refusals, status);
  });
  for (int ps : tasks_.PsThere()) {
    for (proto::ControlRequest& request : layout_.RestoreRequests(ps, point)) {
      const bool names_ps = !request.has_restore_shards();  // in its message
      SendToPs(
          ps, std::move(request), {},
          [ps, session = tasks_.ps()[ps], names_ps, refusals,
           count = gather->Add<TaskSession::Response>()](absl::StatusOr<TaskSession::Response> r) {
            if (IsUnreadable(r.status())) refusals->cannot_read.insert(ps);
            if (absl::IsResourceExhausted(r.status())) refusals->no_room.insert(ps);
            // The error of a lost task names it already.
            if (!names_ps && !r.ok() && !IsLost(r.status())) r = session->Named(r.status());
            count(std::move(r));
          });
    }
    for (proto::ControlRequest& request : plans_.AllForPs(ps)) {
      SendToPs(ps, std::move(request), {}, gather->Add<TaskSession::Response>());
    }
  }
  gather->Finish();
}

void Controller::OnRestored(uint64_t restore, uint64_t checkpoint, const Refusals& refusals,
                            absl::Status status) {
  if (!layout_.IsCurrent(restore) || life_.ending() || !life_.failed().ok()) return;
  if (IsLost(status)) return;  // OnPsDown reports it, and the restore is tried again
  if (!recovery_.restoring()) return;
  const bool moved = recovery_.phase() == Phase::kMoving;
  if (status.ok()) {
    moved ? FinishMoves() : BeginAftermath(restore, checkpoints_.points().Find(checkpoint));
    return;
  }
  if (moved) UndoMoves(status);
  if (!refusals.cannot_read.empty() && IsUnreadable(status) && checkpoint != 0 &&
      checkpoints_.writer() != nullptr) {
    AskWhoCannotRead(restore, checkpoint, refusals.cannot_read, status);
    return;
  }
  if (!refusals.no_room.empty() && absl::IsResourceExhausted(status) && !moved) {
    WaitForRoom(refusals.no_room, status);
    return;
  }
  const bool damaged = absl::IsDataLoss(status) || absl::IsNotFound(status);
  if ((!damaged && !moved) || checkpoint == 0) {
    FailAll(Annotate(status, "shards cannot be restored"));
    return;
  }
  if (damaged) DoWithout(checkpoint, status);
  recovery_.Again();
  TryRecover();
}

void Controller::DoWithout(uint64_t checkpoint, const absl::Status& why) {
  checkpoints_.MarkBad(checkpoint);
  Emit(ClusterEvent::Kind::kCheckpointFailed, "",
       absl::StrCat("checkpoint ", checkpoint, " is not used, the one before is: ", why.message()));
}

// Files that a PS does not find may be there: its machine may have no such directory yet.
void Controller::AskWhoCannotRead(uint64_t restore, uint64_t checkpoint,
                                  const std::set<int>& cannot_read, const absl::Status& status) {
  const RestorePoint& point = checkpoints_.points().Find(checkpoint);
  checkpoints_.writer()->LookForFiles(
      point.path, point.manifest,
      [this, restore, checkpoint, cannot_read, status](const absl::Status& files) {
        if (!layout_.IsCurrent(restore) || life_.ending() || !life_.failed().ok()) return;
        if (!recovery_.restoring()) return;  // another PS was lost, and it is tried again
        if (files.ok()) {
          WaitForReaders(checkpoint, cannot_read, status);
          return;
        }
        DoWithout(checkpoint, status);
        recovery_.Again();
        TryRecover();
      });
}

void Controller::WaitForReaders(uint64_t checkpoint, const std::set<int>& cannot_read,
                                const absl::Status& status) {
  constexpr absl::Duration kBetweenTries = absl::Seconds(1);
  const absl::Duration now = env_->Monotonic();
  const bool first = recovery_.CannotReadFor(now) == absl::ZeroDuration();
  for (int ps : cannot_read) recovery_.CannotRead(ps, now);
  if (recovery_.CannotReadFor(now) >= options_.recovery.cluster_timeout) {
    FailAll(WithDetail(
        absl::UnavailableError(absl::StrCat("shards cannot be restored: ", status.message())),
        {ErrorCause::kUnreachable, true, "", 0}));
    return;
  }
  if (first) {
    Emit(ClusterEvent::Kind::kCheckpointFailed, "",
         absl::StrCat("checkpoint ", checkpoint,
                      " is there, but not for all parameter servers (is its directory on their "
                      "machines, too?); they try again: ",
                      status.message()));
  }
  recovery_.Again();
  loop_.PostAfter(kBetweenTries, [this] { TryRecover(); });
}

// Others may have room, those that are lost may come back to theirs, and what else needs the memory
// may end. Watch limits how long that takes.
void Controller::WaitForRoom(const std::set<int>& no_room, const absl::Status& status) {
  const std::string why(status.message());
  if (!recovery_.lacks_room()) {
    Emit(ClusterEvent::Kind::kWaiting, "",
         absl::StrCat("shards cannot be restored yet, and lost servers are waited for: ", why));
  }
  const absl::Duration now = env_->Monotonic();
  const absl::Duration pause = recovery_.NoRoom(no_room, tasks_.PsThere(), why, now);
  recovery_.Again();
  loop_.PostAfter(std::max(pause, recovery_.Deadline() - now), [this] { TryRecover(); });
  loop_.PostAfter(pause, [this] { TryRecover(); });  // where others have room
}

void Controller::ResumeDispatch() {
  for (auto& worker : tasks_.workers()) {
    if (worker->up() && !worker_table_.ready(worker->task())) SetUpWorker(worker->task());
  }
  Unpark();
  Dispatch();
  TellChosen();
  if (!recovery_.ending().empty()) SaveBeforeEnd();
}

// Each parks again if it still has to wait.
void Controller::Unpark() {
  auto parked = std::exchange(parked_, {});
  for (auto& request : parked) request();
}

}  // namespace coxswain::core
