#include "worker_server/step_calls.h"

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace coxswain::worker {

// May be sent twice; the first answer counts.
class StepCalls::Confirmation {
 public:
  Confirmation(function::SegmentRequest request, FrameDone done)
      : request_(std::move(request)), done_(std::move(done)) {}

  static FrameCall CallOf(const std::shared_ptr<Confirmation>& self) {
    return {self->request_, [self](absl::StatusOr<std::vector<Tensor>> reply) {
              if (FrameDone done = self->Take()) done(std::move(reply));
            }};
  }
  bool answered() const {
    absl::MutexLock lock(&mu_);
    return done_ == nullptr;
  }

 private:
  FrameDone Take() {
    absl::MutexLock lock(&mu_);
    return std::exchange(done_, nullptr);
  }

  const function::SegmentRequest request_;
  mutable absl::Mutex mu_;
  FrameDone done_ ABSL_GUARDED_BY(mu_);
};

FrameCalls StepCalls::TakeKept() {
  FrameCalls all;
  for (auto& [step, kept] : std::exchange(kept_, {})) {
    for (FrameCall& call : kept.calls) all.push_back(std::move(call));
  }
  return all;
}

FrameCalls StepCalls::End(ClosureId step) {
  const auto found = under_way_.find(step);
  if (found == under_way_.end() || --found->second > 0) return {};
  under_way_.erase(found);
  const auto kept = kept_.find(step);
  if (kept == kept_.end()) return {};
  FrameCalls calls = std::move(kept->second.calls);
  kept_.erase(kept);
  return calls;
}

bool StepCalls::Keep(function::SegmentRequest* request, FrameDone* done) {
  const ClosureId after = request->sync.after;
  if (after == 0 || !under_way_.contains(after)) return false;
  kept_[after].calls.emplace_back(std::move(*request), std::move(*done));
  return true;
}

FrameCall StepCalls::InCompany(function::SegmentRequest confirmation, FrameDone done) {
  auto sent = std::make_shared<Confirmation>(std::move(confirmation), std::move(done));
  confirmations_.push_back({sent});
  return Confirmation::CallOf(sent);
}

FrameCalls StepCalls::Tick() {
  FrameCalls late;
  std::vector<Sent> left;
  for (Sent& sent : confirmations_) {
    if (sent.confirmation->answered()) continue;
    if (std::exchange(sent.ticked, true)) {
      late.push_back(Confirmation::CallOf(sent.confirmation));
    } else {
      left.push_back(std::move(sent));
    }
  }
  confirmations_ = std::move(left);
  for (auto it = kept_.begin(); it != kept_.end();) {
    if (!std::exchange(it->second.ticked, true)) {
      ++it;
      continue;
    }
    for (FrameCall& call : it->second.calls) late.push_back(std::move(call));
    it = kept_.erase(it);
  }
  return late;
}

}  // namespace coxswain::worker
