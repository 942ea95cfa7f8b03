#include "coordinator/runner/error_summary.h"

#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status.h"

namespace coxswain::runner {
namespace {

constexpr size_t kErrorsShown = 10;

}  // namespace

absl::Status ErrorSummary(const absl::Status& first, const std::vector<absl::Status>& all,
                          int64_t failed) {
  if (failed < 2) return first;
  std::vector<std::string> others;
  for (const absl::Status& status : all) {
    if (others.size() < kErrorsShown && status != first) others.emplace_back(status.message());
  }
  absl::Status summary(first.code(),
                       absl::StrCat(first.message(), "\n", failed - 1, " more failed:\n  ",
                                    absl::StrJoin(others, "\n  "),
                                    std::ssize(others) + 1 < failed ? "\n  ..." : ""));
  if (const auto detail = GetDetail(first)) return WithDetail(std::move(summary), *detail);
  return summary;
}

}  // namespace coxswain::runner
