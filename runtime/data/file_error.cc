#include "runtime/data/file_error.h"

#include "absl/strings/cord.h"

namespace coxswain::data {
namespace {

constexpr char kUrl[] = "coxswain.dev/data-file";

}  // namespace

absl::Status InFile(absl::Status status, absl::string_view path) {
  if (!status.ok() && !status.GetPayload(kUrl)) status.SetPayload(kUrl, absl::Cord(path));
  return status;
}

std::optional<std::string> FileOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kUrl);
  if (!payload) return std::nullopt;
  return std::string(*payload);
}

}  // namespace coxswain::data
