// Which checkpoint is read where a directory of them is named, and no number.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/base/status.h"

namespace coxswain::model {

// kSizes: for whoever reads a few rows of a large table. An altered byte is not noticed then.
enum class Verify : uint8_t { kBytes, kSizes };

// The number of the newest checkpoint that is good, as for `train --resume`; `note` is called for
// each newer one that is damaged, with what is wrong and which one is used instead. Nullopt where
// the directory is one checkpoint itself: nothing else is meant then. Errors: NotFound; DataLoss
// when none is good, with what is wrong with the newest; those of ChooseCheckpoint.
absl::StatusOr<std::optional<uint64_t>> ChooseNumber(
    const std::string& directory, Verify verify,
    const std::function<void(const std::string&)>& note);

// Whether the job has removed it meanwhile.
bool IsRemoved(const std::string& directory, uint64_t number);

// Calls `read` with what ChooseNumber says; again, with the newest good one then, where it fails
// because a running job has removed that checkpoint meanwhile. Errors: also those of `read`, which
// returns a Status or a StatusOr.
template <typename Read>
auto ReadChosen(const std::string& directory, Verify verify,
                const std::function<void(const std::string&)>& note, const Read& read)
    -> decltype(read(std::optional<uint64_t>())) {
  constexpr int kMostAttempts = 8;
  for (int attempt = 1;; ++attempt) {
    ASSIGN_OR_RETURN(const std::optional<uint64_t> number, ChooseNumber(directory, verify, note));
    auto result = read(number);
    const bool again = !result.ok() && number && IsRemoved(directory, *number);
    if (!again || attempt == kMostAttempts) return result;
  }
}

}  // namespace coxswain::model
