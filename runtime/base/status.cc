#include "runtime/base/status.h"

#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace coxswain {
namespace {

constexpr char kDetailUrl[] = "coxswain.dev/error-detail";

}  // namespace

absl::Status WithDetail(absl::Status status, const ErrorDetail& detail) {
  if (!status.ok()) {
    status.SetPayload(kDetailUrl, absl::Cord(absl::StrCat(static_cast<int>(detail.cause), "\n",
                                                          detail.retryable ? 1 : 0, "\n",
                                                          detail.incarnation, "\n", detail.task)));
  }
  return status;
}

std::optional<ErrorDetail> GetDetail(const absl::Status& status) {
  const auto payload = status.GetPayload(kDetailUrl);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('\n', 3));
  ErrorDetail detail;
  int cause = 0, retryable = 0;
  if (parts.size() != 4 || !absl::SimpleAtoi(parts[0], &cause) ||
      !absl::SimpleAtoi(parts[1], &retryable) || !absl::SimpleAtoi(parts[2], &detail.incarnation) ||
      cause < 0 || cause > static_cast<int>(ErrorCause::kTerminated)) {
    return std::nullopt;
  }
  detail.cause = static_cast<ErrorCause>(cause);
  detail.retryable = retryable != 0;
  detail.task = parts[3];
  return detail;
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
