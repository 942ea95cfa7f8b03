// Waits for several answers and reports the first error, or OK when all are in. For one event loop.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "runtime/base/status.h"

namespace coxswain::core {

// Whether a task did not answer because it is gone, or has given up this session meanwhile: it will
// be set up again.
inline bool IsLost(const absl::Status& status) {
  const auto detail = GetDetail(status);
  return detail &&
         (detail->cause == ErrorCause::kTaskLost || detail->cause == ErrorCause::kStaleEpoch ||
          detail->cause == ErrorCause::kTerminated);
}

class StatusGather : public std::enable_shared_from_this<StatusGather> {
 public:
  explicit StatusGather(std::function<void(absl::Status)> done) : done_(std::move(done)) {}

  // Adds an answer to wait for.
  template <typename T>
  std::function<void(absl::StatusOr<T>)> Add() {
    ++left_;
    return [self = shared_from_this()](absl::StatusOr<T> answer) { self->One(answer.status()); };
  }
  // The same, but a lost task is not an error.
  template <typename T>
  std::function<void(absl::StatusOr<T>)> AddUnlessLost() {
    ++left_;
    return [self = shared_from_this()](absl::StatusOr<T> answer) {
      self->One(IsLost(answer.status()) ? absl::OkStatus() : answer.status());
    };
  }
  // All answers have been added.
  void Finish() { One(absl::OkStatus()); }

 private:
  void One(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
    if (--left_ == 0) done_(status_);
  }

  std::function<void(absl::Status)> done_;
  int left_ = 1;
  absl::Status status_;
};

inline std::shared_ptr<StatusGather> NewStatusGather(std::function<void(absl::Status)> done) {
  return std::make_shared<StatusGather>(std::move(done));
}

}  // namespace coxswain::core
