// Errors are values: macros for passing them on, and the typed detail that an error of a task
// carries.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coxswain {

// What went wrong, in a form that callers can act on: no code classifies an error by its text.
enum class ErrorCause : uint8_t {
  kUnknown = 0,
  kApplication = 1,    // the closure itself: bad data, a failing op
  kTaskLost = 2,       // the task's process or its network is gone
  kStaleEpoch = 3,     // a newer coordinator holds the cluster
  kClusterHeld = 4,    // another live coordinator holds the cluster
  kCancelled = 5,      // the coordinator gave it up
  kConfiguration = 6,  // the user's file or flag is wrong
  kUnreachable = 7,    // the cluster could not be reached in time
  kQuarantined = 8,    // the closure took down several workers
  kTerminated = 9,     // the task was asked to end (SIGTERM) and said so
  kSurplus = 10,       // the closure's step did without it; its examples were not used
};

struct ErrorDetail {
  ErrorCause cause = ErrorCause::kUnknown;
  bool retryable = false;
  std::string task;          // "/job:worker/task:3", empty when no task is concerned
  uint64_t incarnation = 0;  // of that task
};

// Attaches `detail` to a status that is not OK; returns it.
absl::Status WithDetail(absl::Status status, const ErrorDetail& detail);

// The detail that `status` carries, if any.
std::optional<ErrorDetail> GetDetail(const absl::Status& status);

// What a closure that was cancelled, or whose deadline passed, has changed.
enum class Effect : uint8_t {
  kNothing,  // nothing, and it never will: it was not begun, or has no updates
  kUnknown   // some or all of it may be applied, or be so in a while; nothing is applied twice
};

// Attaches `effect` to a status that is not OK; returns it.
absl::Status WithEffect(absl::Status status, Effect effect);

// The effect that `status` carries, if any. Errors of closures that ended by themselves carry none.
std::optional<Effect> GetEffect(const absl::Status& status);

// The same code and payloads; the message is `context: message`.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

// "INVALID_ARGUMENT: message" without payloads: what a person reads.
std::string Describe(const absl::Status& status);

}  // namespace coxswain

#define COX_CONCAT_INNER(a, b) a##b
#define COX_CONCAT(a, b) COX_CONCAT_INNER(a, b)

// Returns from the function when `expr`, an absl::Status, is an error.
#define COX_RETURN_IF_ERROR(expr)                                              \
  do {                                                                         \
    if (absl::Status cox_status = (expr); !cox_status.ok()) return cox_status; \
  } while (false)

// `lhs` gets the value of `expr`, an absl::StatusOr; returns from the function when it is an error.
// It expands to several statements, so it must not be the body of an `if` without braces.
#define COX_ASSIGN_OR_RETURN(lhs, expr) \
  COX_ASSIGN_OR_RETURN_INNER(COX_CONCAT(cox_or_, __COUNTER__), lhs, expr)
#define COX_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                               \
  if (!tmp.ok()) return std::move(tmp).status();   \
  lhs = std::move(tmp).value()
