// A checkpoint on its way (Start, Save, WriteManifest, Finish), and what others ask of it or do to
// it meanwhile.
#include "coordinator/core/checkpointer.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "coordinator/core/gather.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/env/system_error.h"

namespace coxswain::core {

namespace {

// Numbers are not used twice, not even those of unfinished checkpoints.
absl::StatusOr<uint64_t> NextNumber(env::FileSystem* files, const std::string& directory) {
  uint64_t next = 1;
  const auto names = files->List(directory);
  if (absl::IsNotFound(names.status())) return next;
  RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    absl::string_view digits = name;
    uint64_t number = 0;
    if (!absl::ConsumePrefix(&digits, "checkpoint-")) continue;
    if (absl::SimpleAtoi(digits.substr(0, digits.find('.')), &number)) {
      next = std::max(next, number + 1);
    }
  }
  return next;
}

}  // namespace

absl::Status TakenOver(const std::string& directory) {
  return WithDetail(absl::FailedPreconditionError(absl::StrCat(
                        "another coordinator has had the cluster since, and the checkpoints in ",
                        directory, ": this one ends")),
                    {ErrorCause::kStaleEpoch, false, "", 0});
}

struct Checkpointer::Run {
  checkpoint::Manifest manifest;
  std::string path;       // where it will be
  std::string temporary;  // where it is written
  std::vector<DoneFn> done;
  absl::Duration start;
  int left = 0;
  bool again = false;                 // room was made for it
  bool asked = false;                 // the PS, to save
  std::set<std::string> saving;       // PS that have not answered
  std::vector<PsShards> last;         // still to be asked for
  bool manifest_begun = false;        // the pool writes it
  std::atomic<bool> given_up{false};  // it must not become visible
  std::atomic<bool> may_be_visible{false};
  absl::Status status;
  double stall_seconds = 0;
};

Checkpointer::Checkpointer(env::Env* env, std::shared_ptr<env::EventLoop> loop,
                           const Session& session, CheckpointOptions options, Source source)
    : env_(env),
      loop_(std::move(loop)),
      session_(session),
      options_(std::move(options)),
      source_(std::move(source)) {}

std::string Checkpointer::PathOf(uint64_t number) const {
  return absl::StrCat(options_.directory, "/", checkpoint::CheckpointName(number));
}

void Checkpointer::OnPool(std::function<absl::Status()> work,
                          std::function<void(absl::Status)> then) {
  env_->pool()->Schedule([self = weak_from_this(), loop = loop_, work = std::move(work),
                          then = std::move(then)]() mutable {
    absl::Status status = work();
    loop->Post([self = std::move(self), status = std::move(status), then = std::move(then)] {
      if (auto alive = self.lock()) then(status);
    });
  });
}

void Checkpointer::FindNumber(std::function<void(absl::StatusOr<uint64_t>)> then) {
  auto found = std::make_shared<uint64_t>(0);
  OnPool(
      [files = env_->files(), directory = options_.directory, found]() -> absl::Status {
        ASSIGN_OR_RETURN(*found, NextNumber(files, directory));
        return absl::OkStatus();
      },
      [found, then = std::move(then)](const absl::Status& listed) {
        if (listed.ok()) {
          then(*found);
        } else {
          then(listed);
        }
      });
}

void Checkpointer::LookForLock(std::function<void(absl::Status)> then) {
  if (options_.lock == nullptr) {
    then(absl::OkStatus());
    return;
  }
  OnPool(
      [lock = options_.lock, directory = options_.directory] {
        return lock->Held() ? absl::OkStatus() : TakenOver(directory);
      },
      std::move(then));
}

void Checkpointer::LookForFiles(const std::string& path, const checkpoint::Manifest& manifest,
                                std::function<void(absl::Status)> then) {
  OnPool([files = env_->files(), path,
          manifest] { return checkpoint::CheckSizes(files, path, manifest); },
         std::move(then));
}

void Checkpointer::Begin(DoneFn done) {
  if (run_ != nullptr) {
    waiting_.push_back(std::move(done));
    return;
  }
  Start({std::move(done)});
}

void Checkpointer::AwaitIdle(DoneFn done) {
  (waiting_.empty() ? run_->done : waiting_).push_back(std::move(done));
}

void Checkpointer::Start(std::vector<DoneFn> done, bool again) {
  auto run = std::make_shared<Run>();
  run->again = again;
  run->done = std::move(done);
  run->manifest.number = next_number_++;
  run->path = PathOf(run->manifest.number);
  // A PS that still writes for another session, or its coordinator, must not meet this one's files.
  run->temporary =
      absl::StrCat(run->path, ".", session_.epoch, "-", absl::Hex(session_.nonce), ".tmp");
  run->start = env_->Monotonic();
  run_ = run;
  OnPool([files = env_->files(), path = run->temporary] { return files->MakeDirs(path); },
         [this, run](absl::Status made) {
           if (run_ != run) return;
           if (made.ok()) {
             Save(run);
           } else {
             Finish(run, std::move(made));
           }
         });
}

void Checkpointer::Save(const std::shared_ptr<Run>& run) {
  // What is complete now is in every cut that follows.
  Cut cut = source_.cut();
  run->manifest.low_water = cut.low_water;
  run->asked = true;
  run->last = std::move(cut.last);
  AskToSave(run, cut.of_ps);
}

void Checkpointer::AskToSave(const std::shared_ptr<Run>& run, const std::vector<PsShards>& of_ps) {
  run->left = 1;
  for (const PsShards& one : of_ps) {
    if (one.shards.empty()) continue;
    ++run->left;
    proto::ControlRequest request;
    proto::SaveShards& save = *request.mutable_save_shards();
    save.set_directory(run->temporary);
    save.set_max_deltas(options_.max_deltas);
    save.set_max_delta_share(options_.max_delta_share);
    for (ShardId shard : one.shards) save.add_shards(shard);
    for (const proto::SavedShard& base : one.bases) *save.add_bases() = base;
    run->saving.insert(one.ps->name());
    one.ps->Request(
        std::move(request), {},
        [weak = weak_from_this(), run, ps = one.ps](absl::StatusOr<TaskSession::Response> r) {
          if (auto self = weak.lock()) self->OnSaved(run, *ps, std::move(r));
        });
  }
  OneSaved(run);
}

void Checkpointer::OneSaved(const std::shared_ptr<Run>& run) {
  if (--run->left > 0) return;
  if (!run->status.ok()) {
    Finish(run, run->status);
  } else if (!run->last.empty()) {
    AskToSave(run, std::exchange(run->last, {}));
  } else {
    WriteManifest(run);
  }
}

void Checkpointer::OnSaved(const std::shared_ptr<Run>& run, const TaskSession& ps,
                           absl::StatusOr<TaskSession::Response> response) {
  if (run_ != run) return;
  run->saving.erase(ps.name());
  if (!response.ok()) {
    // That one is lost names it already.
    absl::Status failed = response.status();
    if (!IsLost(failed)) failed = ps.Named(failed);
    if (run->status.ok()) run->status = std::move(failed);
  } else {
    const proto::ShardsSaved& saved = response->reply.shards_saved();
    for (const proto::SavedShard& shard : saved.shards()) run->manifest.shards.push_back(shard);
    run->stall_seconds = std::max(run->stall_seconds, saved.stall_seconds());
  }
  OneSaved(run);
}

void Checkpointer::WriteManifest(const std::shared_ptr<Run>& run) {
  checkpoint::Manifest& manifest = run->manifest;
  std::sort(manifest.shards.begin(), manifest.shards.end(),
            [](const auto& a, const auto& b) { return a.shard().id() < b.shard().id(); });
  manifest.job = options_.job;
  manifest.epoch = session_.epoch;
  manifest.written = env_->Now();
  if (absl::Status described = source_.describe(&manifest); !described.ok()) {
    Finish(run, std::move(described));
    return;
  }
  run->manifest_begun = true;
  OnPool(
      [files = env_->files(), lock = options_.lock, directory = options_.directory,
       run]() -> absl::Status {
        RETURN_IF_ERROR(files->WriteAtomically(absl::StrCat(run->temporary, "/manifest.json"),
                                               checkpoint::ToJson(run->manifest)));
        if (lock != nullptr && !lock->Held()) return TakenOver(directory);
        if (run->given_up.load()) return absl::CancelledError("given up");
        run->may_be_visible = true;  // also where an error follows, such as that of a sync
        return files->Rename(run->temporary, run->path);
      },
      [this, run](absl::Status status) {
        run->manifest_begun = false;
        if (run_ == run) {
          Finish(run, std::move(status));
        } else {
          RemoveFilesOf(*run, /*disk_full=*/false);
        }
      });
}

void Checkpointer::Finish(const std::shared_ptr<Run>& run, absl::Status status) {
  const bool written = run->manifest_begun || run->may_be_visible;
  if (env::SaysNoRoom(status) && !written && !run->again) {
    MakeRoom(run, std::move(status));
  } else {
    End(run, std::move(status));
  }
}

// A new checkpoint is worth more than an old one, of which there is none too many but for `keep`.
void Checkpointer::MakeRoom(const std::shared_ptr<Run>& run, absl::Status status) {
  auto removed = std::make_shared<bool>(false);
  OnPool(
      [files = env_->files(), directory = options_.directory, path = run->temporary,
       removed]() -> absl::Status {
        RETURN_IF_ERROR(files->RemoveAll(path));
        ASSIGN_OR_RETURN(*removed, checkpoint::RemoveOldest(files, directory));
        return absl::OkStatus();
      },
      [this, run, removed, status = std::move(status)](const absl::Status& made) {
        if (run_ != run) return;  // it was given up
        if (!made.ok() || !*removed) {
          End(run, status);
          return;
        }
        LogWarning("checkpoint ", run->manifest.number, " has no room, so the oldest one goes, ",
                   "whatever is to be kept: ", status.message());
        run_ = nullptr;
        std::vector<DoneFn> done = std::move(run->done);
        for (DoneFn& d : std::exchange(waiting_, {})) done.push_back(std::move(d));
        Start(std::move(done), /*again=*/true);
      });
}

void Checkpointer::End(const std::shared_ptr<Run>& run, absl::Status status) {
  run_ = nullptr;
  if (status.ok()) {
    ++stats_.written;
    stats_.bytes += run->manifest.written_bytes();
    last_ = {env_->Now(), absl::ToDoubleSeconds(env_->Monotonic() - run->start)};
    stats_.seconds += last_.seconds;
    stats_.stall_seconds += run->stall_seconds;
    OnPool(
        [files = env_->files(), directory = options_.directory, keep = options_.keep,
         number = run->manifest.number] {
          return checkpoint::PruneCheckpoints(files, directory, keep, number);
        },
        [](absl::Status s) {
          if (!s.ok()) LogWarning("old checkpoints stay: ", s.message());
        });
  } else {
    ++stats_.failed;
    run->given_up = true;
    // Not while the pool may be about to make it visible: it would be visible without its files.
    if (!run->manifest_begun) {
      RemoveFilesOf(*run, absl::IsResourceExhausted(status));
    }
    status = Annotate(status, absl::StrCat("checkpoint ", run->manifest.number));
  }
  const Outcome outcome = status.ok()
                              ? Outcome{status, run->manifest, run->path, false}
                              : Outcome{status, {}, "", run->manifest_begun || run->may_be_visible};
  const std::vector<DoneFn> done = std::move(run->done);
  for (const DoneFn& d : done) d(outcome);
  if (run_ == nullptr && !waiting_.empty()) Start(std::exchange(waiting_, {}));
}

void Checkpointer::RemoveFilesOf(const Run& run, bool disk_full) {
  OnPool(
      [files = env_->files(), directory = options_.directory, path = run.temporary,
       number = run.manifest.number, disk_full]() -> absl::Status {
        RETURN_IF_ERROR(files->RemoveAll(path));
        // Whoever was killed while writing one left it there, and may be what fills the disk.
        constexpr int kKeepAll = std::numeric_limits<int>::max();
        return disk_full ? checkpoint::PruneCheckpoints(files, directory, kKeepAll, number)
                         : absl::OkStatus();
      },
      [](absl::Status) {});
}

absl::Duration Checkpointer::age(absl::Duration now) const {
  return run_ == nullptr ? absl::ZeroDuration() : now - run_->start;
}

std::string Checkpointer::ToString(absl::Duration now) const {
  if (run_ == nullptr) return "";
  return absl::StrCat(
      "checkpoint ", run_->manifest.number, " is being written for ",
      absl::FormatDuration(absl::Trunc(age(now), absl::Seconds(1))), "; waiting for ",
      run_->saving.empty() ? "the directory's file system" : absl::StrJoin(run_->saving, ", "));
}

uint64_t Checkpointer::next_to_save() const {
  return run_ != nullptr && !run_->asked ? run_->manifest.number : next_number_;
}

bool Checkpointer::gathering() const {
  return run_ != nullptr && run_->asked && !run_->manifest_begun;
}

ClosureId Checkpointer::gathers_from() const {
  return gathering() ? run_->manifest.low_water : ClosureId(0);
}

void Checkpointer::BeginAnew() {
  if (!gathering()) return;
  const std::shared_ptr<Run> run = std::exchange(run_, nullptr);
  RemoveFilesOf(*run, /*disk_full=*/false);
  std::vector<DoneFn> done = std::move(run->done);
  for (DoneFn& d : std::exchange(waiting_, {})) done.push_back(std::move(d));
  Start(std::move(done));
}

void Checkpointer::Abort(const absl::Status& reason) {
  auto waiting = std::exchange(waiting_, {});
  if (run_ == nullptr) {
    if (waiting.empty()) return;
    ++stats_.failed;
    const Outcome outcome{
        Annotate(reason, absl::StrCat("checkpoint ", next_number_)), {}, "", false};
    for (const DoneFn& d : waiting) d(outcome);
    return;
  }
  for (DoneFn& d : waiting) run_->done.push_back(std::move(d));
  const std::shared_ptr<Run> run = run_;  // End lets go of it
  End(run, reason);                       // whatever the reason is, no other one is to begin
}

}  // namespace coxswain::core
