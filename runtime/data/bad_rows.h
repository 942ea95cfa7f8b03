// Rows that cannot be read and are passed over, as far as DatasetSpec.max_bad_rows allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace coxswain::data {

struct BadRows {
  static constexpr size_t kShown = 10;

  int64_t count = 0;
  std::vector<std::string> first;  // what is wrong with the first few: "clicks.csv:17:9: ..."

  void Add(std::string wrong) {
    ++count;
    if (first.size() < kShown) first.push_back(std::move(wrong));
  }
};

// InvalidArgument: that of the last row, and that there are too many.
absl::Status TooManyBadRows(const std::string& last, int64_t count, int64_t most);

// The first few, and how many there are.
void LogBadRows(const BadRows& bad);

}  // namespace coxswain::data
