// The loop of a run (Run, Tick): what has ended is started again, what is due is done to its
// target, and progress is looked at from outside.
#include "coordinator/chaos/supervisor.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace coxswain::chaos {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(10);
// Between two looks at the job's progress; the shorter one where faults wait for updates.
constexpr absl::Duration kLook = absl::Milliseconds(150), kCloseLook = absl::Milliseconds(20);
// For a task that was asked to end. A coordinator lets closures end and writes a checkpoint. A
// parameter server waits 20 s for one (--end-seconds), and then up to 10 s for its connections.
constexpr absl::Duration kDaemonGrace = absl::Seconds(40);
constexpr absl::Duration kCoordinatorGrace = absl::Seconds(60);
constexpr absl::Duration kRetryDelay = absl::Milliseconds(500);
// Starts of one daemon in a row that fail, and of the coordinator without a newer checkpoint.
constexpr int kMostFailedStarts = 20;
constexpr int kMostStartsWithoutCheckpoint = 20;

// Exit codes of the programs.
constexpr int kDone = 0, kUnreachable = 4, kResumable = 75, kSignalled = 128;

std::string Seconds(absl::Duration d) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(d));
}

}  // namespace

Supervisor::Supervisor(ChaosCluster* cluster, SupervisorOptions options)
    : cluster_(cluster),
      options_(std::move(options)),
      faults_(options_.spec, static_cast<int>(cluster->ps().size()),
              static_cast<int>(cluster->workers().size())),
      next_(faults_.Next()),
      at_updates_(faults_.AtUpdates()) {
  slots_.emplace_back();
  slots_[0].kind = TaskKind::kCoordinator;
  slots_[0].name = "coordinator";
  const auto add = [this](TaskKind kind, std::vector<ManagedTask>& tasks) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      Slot& slot = slots_.emplace_back();
      slot.kind = kind;
      slot.index = static_cast<int>(i);
      slot.task = &tasks[i];
      slot.name = tasks[i].name();
    }
  };
  add(TaskKind::kPs, cluster->ps());
  add(TaskKind::kWorker, cluster->workers());
}

SupervisorResult Supervisor::Run() {
  started_ = last_progress_ = absl::Now();
  probe_ = std::make_unique<ProgressProbe>(cluster_->config().ps, cluster_->credentials(),
                                           at_updates_.empty() ? kLook : kCloseLook);
  newest_checkpoint_ = NewestCheckpoint();
  slots_[0].up = false;
  Start(&slots_[0]);
  while (!over_) {
    for (Slot& slot : slots_) Tick(&slot);
    if (over_) break;
    if (options_.interrupted != nullptr && options_.interrupted->load()) {
      result_.interrupted = true;
      break;
    }
    WatchProgress();
    InjectDue();
    absl::SleepFor(kTick);
  }
  EndCoordinator();
  probe_.reset();
  return result_;
}

Supervisor::Slot& Supervisor::Find(TaskKind kind, int index) {
  return *std::find_if(slots_.begin(), slots_.end(),
                       [&](const Slot& slot) { return slot.kind == kind && slot.index == index; });
}

bool Supervisor::Running(Slot* slot) {
  return slot->task == nullptr ? coordinator_.running() : slot->task->running();
}

void Supervisor::Signal(Slot* slot, int number) {
  if (slot->task == nullptr) {
    coordinator_.Signal(number);
  } else {
    slot->task->Signal(number);
  }
}

void Supervisor::Say(const std::string& what) {
  const absl::Duration at = first_step_ ? absl::Now() - *first_step_ : absl::ZeroDuration();
  if (options_.say) options_.say(absl::StrCat(Seconds(at), ": ", what));
}

void Supervisor::Trouble(const std::string& what) {
  Say(what);
  result_.troubles.push_back(what);
}

void Supervisor::Tick(Slot* slot) {
  const absl::Time now = absl::Now();
  if (slot->up && !Running(slot)) {
    slot->up = false;
    slot->continue_at = slot->kill_at = absl::InfiniteFuture();
    OnEnd(slot);
  }
  if (slot->up && now >= slot->continue_at) {
    slot->continue_at = absl::InfiniteFuture();
    Signal(slot, SIGCONT);
    Say(absl::StrCat(slot->name, " goes on"));
  }
  if (slot->up && now >= slot->kill_at) {
    slot->kill_at = absl::InfiniteFuture();
    Trouble(absl::StrCat(slot->name, " does not end on SIGTERM"));
    Signal(slot, SIGKILL);
  }
  if (!over_ && !slot->up && now >= slot->restart_at) Start(slot);
}

void Supervisor::OnEnd(Slot* slot) {
  const bool expected = std::exchange(slot->expected, false);
  const std::optional<int> code = slot->task == nullptr ? coordinator_.Poll() : slot->task->code();
  slot->restart_at = absl::Now() + (expected ? slot->restart_delay : kRetryDelay);
  if (slot->task == nullptr) {
    if (*code == kDone || (!expected && *code != kUnreachable && *code < kSignalled)) {
      result_.code = *code;
      over_ = true;
      return;
    }
    if (!expected && *code > kSignalled) {
      Trouble(absl::StrCat("the coordinator ", local::HowEnded(code), " by itself"));
    }
    OnCoordinatorEnd(slot, *code);
    return;
  }
  if (expected) {
    slot->failed_starts = 0;
    return;
  }
  // Its port may still be taken for a moment.
  if (code == kUnreachable && ++slot->failed_starts < kMostFailedStarts) return;
  Trouble(absl::StrCat(slot->name, " ", local::HowEnded(code), " by itself"));
  if (code == kUnreachable) slot->restart_at = absl::InfiniteFuture();
}

void Supervisor::OnCoordinatorEnd(Slot* slot, int code) {
  const std::string newest = NewestCheckpoint();
  const bool moved = newest != std::exchange(newest_checkpoint_, newest);
  starts_without_checkpoint_ = moved ? 0 : starts_without_checkpoint_ + 1;
  if (starts_without_checkpoint_ >= kMostStartsWithoutCheckpoint) {
    Trouble(absl::StrCat("given up: the coordinator was started ", kMostStartsWithoutCheckpoint,
                         " times without a newer checkpoint"));
    result_.code = code;
    over_ = true;
    return;
  }
  if (!lost_at_) {
    lost_at_ = absl::Now();
    lost_holder_ = probe_->Read().holder;
  }
  const bool by_order = code == kResumable;
  Say(absl::StrCat("the coordinator ", by_order ? "ended in order" : local::HowEnded(code),
                   "; it resumes in ", Seconds(slot->restart_at - absl::Now())));
}

void Supervisor::Start(Slot* slot) {
  slot->restart_at = absl::InfiniteFuture();
  absl::Status status;
  if (slot->task != nullptr) {
    status = slot->task->Restart();
    if (status.ok()) Say(absl::StrCat(slot->name, " is started again"));
  } else {
    local::ChildOptions options;
    options.command = options_.command(options_.resume || result_.coordinator_starts > 0);
    options.death_signal = SIGKILL;
    auto child = local::Child::Start(options);
    status = child.status();
    if (child.ok()) coordinator_ = *std::move(child);
    ++result_.coordinator_starts;
  }
  slot->up = status.ok();
  if (status.ok()) return;
  Trouble(absl::StrCat(slot->name, " cannot be started: ", status.message()));
  if (slot->task == nullptr || ++slot->failed_starts >= kMostFailedStarts) {
    result_.code = 1;
    over_ = true;
  } else {
    slot->restart_at = absl::Now() + kRetryDelay;
  }
}

void Supervisor::WatchProgress() {
  const ProgressProbe::Reading reading = probe_->Read();
  if (reading.seen > 0) {
    if (!first_step_) {
      first_step_ = reading.last;
      Say("the job takes its first steps; the faults begin");
    }
    last_progress_ = std::max(last_progress_, reading.last);
    if (lost_at_ && reading.holder != lost_holder_) {
      const absl::Duration took = reading.last - *lost_at_;
      lost_at_.reset();
      result_.coordinator_recovery.push_back(absl::ToDoubleSeconds(took));
      Say(absl::StrCat("the job goes on, ", Seconds(took), " after its coordinator was lost"));
    }
  }
  if (absl::Now() - last_progress_ < options_.spec.give_up_after) return;
  Trouble(absl::StrCat("given up: no step for ", Seconds(options_.spec.give_up_after)));
  result_.code = 1;
  over_ = true;
}

void Supervisor::InjectDue() {
  if (!first_step_) return;
  const absl::Duration now = absl::Now() - *first_step_;
  while (next_ && next_->at <= now) {
    due_.push_back(*next_);
    next_ = faults_.Next();
  }
  const int64_t updates = probe_->Read().updates;
  const auto later =
      std::find_if(at_updates_.begin(), at_updates_.end(),
                   [updates](const PlannedFault& fault) { return fault.at_update > updates; });
  due_.insert(due_.end(), at_updates_.begin(), later);
  at_updates_.erase(at_updates_.begin(), later);
  due_.erase(std::remove_if(due_.begin(), due_.end(),
                            [this](const PlannedFault& fault) { return Inject(fault); }),
             due_.end());
}

bool Supervisor::Inject(const PlannedFault& fault) {
  Slot& slot = Find(fault.task, fault.index);
  const bool stopped = slot.continue_at != absl::InfiniteFuture();
  if (!slot.up || slot.expected || stopped || !Running(&slot)) return false;
  const absl::Time now = absl::Now();
  std::string then;
  if (fault.action == FaultAction::kStop) {
    slot.continue_at = now + fault.stop_for;
    then = absl::StrCat(" for ", Seconds(fault.stop_for));
    Signal(&slot, SIGSTOP);
  } else {
    slot.expected = true;
    slot.restart_delay = fault.restart_delay;
    then = absl::StrCat(", back in ", Seconds(fault.restart_delay));
    if (fault.action == FaultAction::kTerminate) {
      slot.kill_at = now + (slot.task == nullptr ? kCoordinatorGrace : kDaemonGrace);
      Signal(&slot, SIGTERM);
    } else {
      Signal(&slot, SIGKILL);
    }
  }
  ++result_.injected[static_cast<size_t>(fault.task)][static_cast<size_t>(fault.action)];
  Say(absl::StrCat(FaultActionName(fault.action), " ", slot.name, then));
  return true;
}

void Supervisor::EndCoordinator() {
  if (!coordinator_.running()) {
    if (result_.interrupted) result_.code = kSignalled + SIGINT;
    return;
  }
  coordinator_.Signal(SIGCONT);
  coordinator_.Signal(SIGTERM);
  if (!coordinator_.WaitFor(kCoordinatorGrace)) {
    coordinator_.Signal(SIGKILL);
    coordinator_.WaitFor(kDaemonGrace);
  }
  if (result_.interrupted) result_.code = coordinator_.Poll().value_or(kSignalled + SIGINT);
}

std::string Supervisor::NewestCheckpoint() const {
  std::string newest;
  std::error_code error;
  for (std::filesystem::directory_iterator it(options_.checkpoint_directory, error), end;
       !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (absl::StartsWith(name, "checkpoint-") && !absl::EndsWith(name, ".tmp")) {
      newest = std::max(newest, name);
    }
  }
  return newest;
}

}  // namespace coxswain::chaos
