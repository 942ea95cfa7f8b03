#include "runtime/base/not_finite.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace coxswain {
namespace {

// "id\nvariable"; the id is empty where there is none.
constexpr char kUrl[] = "coxswain.dev/not-finite";

}  // namespace

absl::Status WithNotFinite(absl::Status status, const NotFinite& detail) {
  if (status.ok()) return status;
  const std::string id = detail.id ? absl::StrCat(*detail.id) : "";
  status.SetPayload(kUrl, absl::Cord(absl::StrCat(id, "\n", detail.variable)));
  return status;
}

std::optional<NotFinite> GetNotFinite(const absl::Status& status) {
  const auto payload = status.GetPayload(kUrl);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  const size_t end = text.find('\n');
  if (end == std::string::npos) return std::nullopt;
  NotFinite detail;
  detail.variable = text.substr(end + 1);
  if (end == 0) return detail;
  int64_t id = 0;
  if (!absl::SimpleAtoi(text.substr(0, end), &id)) return std::nullopt;
  detail.id = id;
  return detail;
}

}  // namespace coxswain
