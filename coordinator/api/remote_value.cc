// The future of a closure, and a closure's argument that may be one.
#include "coordinator/api/remote_value.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status.h"

namespace coxswain {

void RemoteValue::State::Set(absl::StatusOr<std::vector<Tensor>> value) {
  std::map<uint64_t, std::function<void()>> calls;
  std::function<void()> dropped;
  {
    absl::MutexLock lock(&mu);
    results = std::move(value);
    ready = true;
    calls.swap(when_ready);
    dropped.swap(stop_waiting);
  }
  for (const auto& [number, call] : calls) call();
}

uint64_t RemoteValue::State::WhenReady(std::function<void()> call) {
  {
    absl::MutexLock lock(&mu);
    if (!ready) {
      when_ready.emplace(++last_call, std::move(call));
      return last_call;
    }
  }
  call();
  return 0;
}

void RemoteValue::State::DropCall(uint64_t call) {
  absl::MutexLock lock(&mu);
  when_ready.erase(call);
}

bool RemoteValue::Ready() const {
  if (state_ == nullptr) return false;
  absl::MutexLock lock(&state_->mu);
  return state_->ready;
}

absl::StatusOr<std::vector<Tensor>> RemoteValue::Get() const {
  if (state_ == nullptr) return absl::FailedPreconditionError("no closure was scheduled");
  absl::MutexLock lock(&state_->mu);
  AwaitAloud(&state_->mu, absl::Condition(&state_->ready),
             [this](absl::Duration waited) { state_->waits.Report("a closure's result", waited); });
  return state_->results;
}

void RemoteValue::Cancel() const {
  if (state_ == nullptr) return;
  std::function<void()> stop;
  {
    absl::MutexLock lock(&state_->mu);
    if (state_->ready) return;
    state_->cancelled = true;
    stop = state_->stop_waiting;
  }
  if (stop) stop();
  // Nothing where it has no number yet: whoever gives it one looks whether it was cancelled.
  state_->waits.CancelClosure({state_, &state_->number});
}

bool ClosureArgument::Ready() const { return value_.state_ == nullptr || value_.Ready(); }

absl::StatusOr<Tensor> ClosureArgument::Value() const {
  if (tensor_.has_value()) return tensor_;
  ASSIGN_OR_RETURN(const std::vector<Tensor> results, value_.Get());
  const ResultNames& names = *value_.state_->names;
  if (result_.empty() && results.size() == 1) return results[0];
  const auto found = std::find(names.results.begin(), names.results.end(), result_);
  const auto place = static_cast<size_t>(found - names.results.begin());
  if (place < results.size()) return results[place];
  return absl::NotFoundError(absl::StrCat(
      "wanted ", result_.empty() ? "the one result" : absl::StrCat("result '", result_, "'"),
      " of function '", names.function,
      "', which has: ", names.results.empty() ? "none" : absl::StrJoin(names.results, ", ")));
}

}  // namespace coxswain
