#include "coordinator/core/directory_trial.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/gather.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"

namespace coxswain::core {
namespace {

constexpr size_t kMostNamed = 5;

}  // namespace

// Its name is that of an unfinished checkpoint: what a coordinator that is killed leaves goes with
// these.
DirectoryTrial::DirectoryTrial(env::Env* env, std::shared_ptr<env::EventLoop> loop,
                               std::string directory, DoneFn done)
    : env_(env),
      loop_(std::move(loop)),
      directory_(std::move(directory)),
      trial_(absl::StrCat(directory_, "/", checkpoint::CheckpointName(0), ".try-",
                          absl::Hex(env->Random64()), ".tmp")),
      done_(std::move(done)) {}

void DirectoryTrial::OnPool(std::function<absl::Status()> work,
                            std::function<void(absl::Status)> then) {
  env_->pool()->Schedule(
      [self = shared_from_this(), work = std::move(work), then = std::move(then)]() mutable {
        absl::Status status = work();
        const std::shared_ptr<env::EventLoop> loop = self->loop_;
        loop->Post([self = std::move(self), status = std::move(status), then = std::move(then)] {
          then(status);
        });
      });
}

void DirectoryTrial::Start(std::vector<std::shared_ptr<TaskSession>> ps) {
  loop_->PostAfter(kPatience, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->OnTimeout();
  });
  ps_ = std::move(ps);
  Make();
}

void DirectoryTrial::Make() {
  asked_.insert("the coordinator");
  OnPool([files = env_->files(), path = trial_] { return files->MakeDirs(path); },
         [this](const absl::Status& made) {
           asked_.clear();
           made_ = made.ok();
           if (made_) {
             Ask();
             return;
           }
           if (absl::IsResourceExhausted(made)) {
             LogWarning("not tried whether parameter servers can write checkpoints: ",
                        made.message());
           } else {
             refusals_.push_back(absl::StrCat("the coordinator: ", made.message()));
           }
           Finish();
         });
}

void DirectoryTrial::Ask() {
  if (done_ == nullptr) {  // too late
    Finish();
    return;
  }
  for (const auto& p : ps_) asked_.insert(p->where());
  if (asked_.empty()) Finish();
  for (const auto& p : ps_) {
    proto::ControlRequest request;
    request.mutable_try_directory()->set_directory(trial_);
    p->Request(std::move(request), {},
               [self = shared_from_this(), p](const absl::StatusOr<TaskSession::Response>& r) {
                 self->OnAnswer(*p, r.status());
               });
  }
}

void DirectoryTrial::OnAnswer(const TaskSession& ps, const absl::Status& status) {
  if (asked_.erase(ps.where()) == 0) return;
  if (!status.ok() && !IsLost(status) && !absl::IsResourceExhausted(status)) {
    const char* const hint = absl::IsNotFound(status)
                                 ? "it does not see what the coordinator has made there, so it is "
                                   "not the same directory: "
                                 : "";
    refusals_.push_back(absl::StrCat(ps.where(), ": ", hint, status.message()));
    unseen_ |= absl::IsNotFound(status);
  }
  if (!asked_.empty()) return;
  if (unseen_ && !again_) {
    MakeAgain();
  } else {
    Finish();
  }
}

void DirectoryTrial::MakeAgain() {
  again_ = true;
  OnPool([files = env_->files(), path = trial_] { return files->List(path).status(); },
         [this](const absl::Status& there) {
           if (done_ == nullptr || !absl::IsNotFound(there)) {
             Finish();
             return;
           }
           refusals_.clear();
           Make();
         });
}

void DirectoryTrial::OnTimeout() {
  if (done_ == nullptr) return;
  for (const std::string& task : std::exchange(asked_, {})) {
    refusals_.push_back(
        absl::StrCat(task, ": made nothing there within ", absl::FormatDuration(kPatience)));
  }
  Finish();
}

void DirectoryTrial::Finish() {
  if (made_) {
    OnPool([files = env_->files(), path = trial_] { return files->RemoveAll(path); },
           [](const absl::Status& removed) {
             if (!removed.ok()) LogWarning("a trial of checkpoints stays: ", removed.message());
           });
  }
  DoneFn done = std::exchange(done_, nullptr);
  if (done == nullptr) return;
  if (refusals_.empty()) {
    done(absl::OkStatus());
    return;
  }
  const size_t named = std::min(refusals_.size(), kMostNamed);
  std::string text =
      absl::StrCat("checkpoints cannot be written into ", directory_,
                   ", which must be one directory for the coordinator and all parameter servers: ",
                   absl::StrJoin(refusals_.begin(),
                                 refusals_.begin() + static_cast<std::ptrdiff_t>(named), "; "));
  if (named < refusals_.size()) {
    absl::StrAppend(&text, "; and ", refusals_.size() - named, " more of them");
  }
  done(WithDetail(absl::FailedPreconditionError(text), {ErrorCause::kConfiguration, false, "", 0}));
}

}  // namespace coxswain::core
