// Whether two outputs of `coxswain predict` in csv say the same.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace coxswain {

// The same rows in the same order, scores within rounding: products of blocks of another height may
// be added up in another order.
inline void CheckSameScores(const std::string& found, const std::string& wanted) {
  const std::vector<std::string> a = absl::StrSplit(found, '\n', absl::SkipEmpty()),
                                 b = absl::StrSplit(wanted, '\n', absl::SkipEmpty());
  REQUIRE(!b.empty());
  REQUIRE(a.size() == b.size());
  CHECK(a[0] == b[0]);
  for (size_t i = 1; i < a.size(); ++i) {
    CAPTURE(i, a[i], b[i]);
    const std::vector<std::string> one = absl::StrSplit(a[i], ','),
                                   other = absl::StrSplit(b[i], ',');
    REQUIRE(one.size() == other.size());
    for (size_t k = 0; k < one.size(); ++k) {
      double x = 0, y = 0;
      REQUIRE((absl::SimpleAtod(one[k], &x) && absl::SimpleAtod(other[k], &y)));
      CHECK(x == Approx(y).margin(1e-6));
    }
  }
}

}  // namespace coxswain
