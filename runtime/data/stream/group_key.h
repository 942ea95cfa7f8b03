// What names a group of rows, such as a user, in a few bytes.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "runtime/data/hash.h"

namespace coxswain::data {

// Two hashes that have nothing to do with each other: of any number of groups that a data set can
// have, no two have the same. A value.
struct GroupKey {
  uint64_t high = 0, low = 0;

  static GroupKey Of(absl::string_view name) {
    StreamHash second;
    second.Update(name);
    return {HashText(name), second.Finish()};
  }
  friend bool operator==(const GroupKey& a, const GroupKey& b) {
    return a.high == b.high && a.low == b.low;
  }
  friend bool operator!=(const GroupKey& a, const GroupKey& b) { return !(a == b); }
  friend bool operator<(const GroupKey& a, const GroupKey& b) {
    return a.high != b.high ? a.high < b.high : a.low < b.low;
  }
};

}  // namespace coxswain::data
