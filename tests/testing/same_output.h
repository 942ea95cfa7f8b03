// What two commands print, where numbers may differ by rounding.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace coxswain::testing {

// The same words, and numbers within `margin`.
inline void CheckSameOutput(const std::string& found, const std::string& wanted, double margin) {
  const std::vector<std::string> a = absl::StrSplit(found, absl::ByAnyChar(",\n "));
  const std::vector<std::string> b = absl::StrSplit(wanted, absl::ByAnyChar(",\n "));
  CAPTURE(found, wanted);
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    double x = 0, y = 0;
    if (absl::SimpleAtod(a[i], &x) && absl::SimpleAtod(b[i], &y)) {
      CHECK(x == Approx(y).margin(margin));
    } else {
      CHECK(a[i] == b[i]);
    }
  }
}

}  // namespace coxswain::testing
