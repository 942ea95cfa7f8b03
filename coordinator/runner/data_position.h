#pragma once

#include <cstdint>

namespace coxswain::runner {

// A place in the data: all examples of the epochs before, and `examples` of this one.
struct DataPosition {
  int64_t epoch = 0;
  int64_t examples = 0;
  bool operator<(const DataPosition& o) const {
    return epoch != o.epoch ? epoch < o.epoch : examples < o.examples;
  }
};

}  // namespace coxswain::runner
