// How many items or words the answer to one request may name. Each is some hundred bytes while the
// answer is made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace coxswain::serve {

inline constexpr int64_t kMostChoices = 500'000;

// `key`: what says how many there are of a row; `each` is 0 where it says nothing, which are few.
// Errors: OutOfRange.
inline absl::Status CheckChoices(size_t rows, const char* key, int64_t each) {
  if (static_cast<int64_t>(rows) <= kMostChoices / std::max<int64_t>(1, each))
    return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("wanted at most ", kMostChoices,
                                            " choices in an answer, found ", rows, " rows with ",
                                            key, " ", each, " each"));
}

}  // namespace coxswain::serve
