// Counts as text, for people.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace coxswain {

// "1 worker", "2 workers". Nouns whose plural ends in a plain s.
inline std::string CountText(uint64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace coxswain
