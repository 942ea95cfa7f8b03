// Blocking on the controller's callbacks. Every wait is bounded: a cluster whose tasks are alive
// but do not answer ends in DeadlineExceeded instead of hanging.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace coxswain {

constexpr absl::Duration kControlTimeout = absl::Minutes(10);

// `start` gets a callback for a T or a StatusOr<T>.
template <typename T, typename Start>
absl::StatusOr<T> WaitForValue(Start start, absl::Duration timeout = kControlTimeout) {
  struct State {
    absl::Notification done;
    absl::StatusOr<T> value = absl::UnknownError("no answer");
  };
  auto state = std::make_shared<State>();  // outlives a wait that gave up
  start([state](absl::StatusOr<T> value) {
    state->value = std::move(value);
    state->done.Notify();
  });
  if (!state->done.WaitForNotificationWithTimeout(timeout)) {
    return absl::DeadlineExceededError("a task did not answer a request within " +
                                       absl::FormatDuration(timeout));
  }
  return std::move(state->value);
}

template <typename Start>
absl::Status WaitForStatus(Start start, absl::Duration timeout = kControlTimeout) {
  struct State {
    absl::Notification done;
    absl::Status status;
  };
  auto state = std::make_shared<State>();
  start([state](absl::Status status) {
    state->status = std::move(status);
    state->done.Notify();
  });
  if (!state->done.WaitForNotificationWithTimeout(timeout)) {
    return absl::DeadlineExceededError("a task did not answer a request within " +
                                       absl::FormatDuration(timeout));
  }
  return state->status;
}

}  // namespace coxswain
