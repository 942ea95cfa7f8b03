#include "runtime/base/status.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace coxswain {
namespace {

constexpr char kDetailUrl[] = "coxswain.dev/error-detail";

// By the causes' values. absl::Status::ToString shows the detail to people, so it is text.
constexpr absl::string_view kCauseNames[] = {
    "unknown",       "application", "task_lost",   "stale_epoch", "cluster_held", "cancelled",
    "configuration", "unreachable", "quarantined", "terminated",  "surplus"};
static_assert(std::size(kCauseNames) == static_cast<size_t>(ErrorCause::kSurplus) + 1);

constexpr char kEffectUrl[] = "coxswain.dev/effect";
// By the effects' values.
constexpr absl::string_view kEffectNames[] = {"nothing", "unknown"};
static_assert(std::size(kEffectNames) == static_cast<size_t>(Effect::kUnknown) + 1);

absl::string_view CauseName(ErrorCause cause) {
  const auto i = static_cast<size_t>(cause);
  return i < std::size(kCauseNames) ? kCauseNames[i] : kCauseNames[0];
}

// "KEYvalue rest" -> value and rest.
bool Take(absl::string_view* rest, absl::string_view key, absl::string_view* value) {
  if (!absl::ConsumePrefix(rest, key)) return false;
  const size_t end = rest->find(' ');
  if (end == absl::string_view::npos) return false;
  *value = rest->substr(0, end);
  rest->remove_prefix(end + 1);
  return true;
}

}  // namespace

absl::Status WithDetail(absl::Status status, const ErrorDetail& detail) {
  if (!status.ok()) {
    status.SetPayload(kDetailUrl, absl::Cord(absl::StrCat(
                                      "cause=", CauseName(detail.cause),
                                      " retryable=", detail.retryable ? "yes" : "no",
                                      " incarnation=", detail.incarnation, " task=", detail.task)));
  }
  return status;
}

std::optional<ErrorDetail> GetDetail(const absl::Status& status) {
  const auto payload = status.GetPayload(kDetailUrl);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  absl::string_view rest = text, cause, retryable, incarnation;
  ErrorDetail detail;
  if (!Take(&rest, "cause=", &cause) || !Take(&rest, "retryable=", &retryable) ||
      !Take(&rest, "incarnation=", &incarnation) || !absl::ConsumePrefix(&rest, "task=") ||
      !absl::SimpleAtoi(incarnation, &detail.incarnation)) {
    return std::nullopt;
  }
  const auto* const name = std::find(std::begin(kCauseNames), std::end(kCauseNames), cause);
  if (name == std::end(kCauseNames)) return std::nullopt;
  detail.cause = static_cast<ErrorCause>(name - std::begin(kCauseNames));
  detail.retryable = retryable == "yes";
  detail.task = std::string(rest);
  return detail;
}

absl::Status WithEffect(absl::Status status, Effect effect) {
  const auto i = static_cast<size_t>(effect);
  if (!status.ok() && i < std::size(kEffectNames)) {
    status.SetPayload(kEffectUrl, absl::Cord(kEffectNames[i]));
  }
  return status;
}

std::optional<Effect> GetEffect(const absl::Status& status) {
  const auto payload = status.GetPayload(kEffectUrl);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  const auto* const name = std::find(std::begin(kEffectNames), std::end(kEffectNames), text);
  if (name == std::end(kEffectNames)) return std::nullopt;
  return static_cast<Effect>(name - std::begin(kEffectNames));
}

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

std::string Describe(const absl::Status& status) {
  if (status.ok()) return "OK";
  return absl::StrCat(absl::StatusCodeToString(status.code()), ": ", status.message());
}

}  // namespace coxswain
