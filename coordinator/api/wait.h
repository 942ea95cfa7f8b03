// Blocking on the controller's callbacks. A wait takes as long as the tasks work on what they were
// asked for, which may be hours: there is no bound in total. That a task is gone, is silent or has
// lost a request is for the controller to notice, which then answers with an error. What takes long
// is reported.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace coxswain {

// A wait that takes longer than this is reported, and goes on.
constexpr absl::Duration kSilence = absl::Seconds(30);

// Reports a wait that has taken this long.
using StillWaiting = std::function<void(absl::Duration waited)>;

// `start` gets a callback for a T or a StatusOr<T>. `still_waiting` is called after each `silence`;
// null: the wait is reported by whoever was asked, or never long.
template <typename T, typename Start>
absl::StatusOr<T> WaitForValue(Start start, const StillWaiting& still_waiting = nullptr,
                               absl::Duration silence = kSilence) {
  absl::Notification done;
  absl::StatusOr<T> value = absl::UnknownError("no answer");
  const absl::Time begin = absl::Now();
  start([&](absl::StatusOr<T> answer) {
    value = std::move(answer);
    done.Notify();
  });
  while (!done.WaitForNotificationWithTimeout(silence)) {
    if (still_waiting) still_waiting(absl::Now() - begin);
  }
  return value;
}

// The same for a callback that takes a status.
template <typename Start>
absl::Status WaitForStatus(Start start, const StillWaiting& still_waiting = nullptr,
                           absl::Duration silence = kSilence) {
  struct Nothing {};
  return WaitForValue<Nothing>(
             [&start](auto done) {
               start([done = std::move(done)](absl::Status status) {
                 if (status.ok()) {
                   done(Nothing());
                 } else {
                   done(std::move(status));
                 }
               });
             },
             still_waiting, silence)
      .status();
}

// For answers that a caller can do without: DeadlineExceeded when there is none within `most`.
template <typename T, typename Start>
absl::StatusOr<T> AskForValue(Start start, absl::Duration most) {
  struct State {
    absl::Notification done;
    absl::StatusOr<T> value = absl::UnknownError("no answer");
  };
  auto state = std::make_shared<State>();  // outlives a wait that gave up
  start([state](absl::StatusOr<T> value) {
    state->value = std::move(value);
    state->done.Notify();
  });
  if (!state->done.WaitForNotificationWithTimeout(most)) {
    return absl::DeadlineExceededError("no answer within " + absl::FormatDuration(most));
  }
  return std::move(state->value);
}

}  // namespace coxswain
