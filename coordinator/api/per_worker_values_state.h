// State that the handles on one set of per-worker values share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "coxswain/strategy.h"
#include "runtime/base/ids.h"

namespace coxswain {

struct PerWorkerValues::State {
  // Destroyed with the last handle and the last function.
  ~State() {
    if (release) release();
  }

  struct Result {
    std::string name;
    TensorType type;
  };
  ValuesId id = 0;
  uint64_t strategy = 0;
  std::string function;
  std::vector<Result> results;
  std::function<void()> release;  // releases them on the workers
};

}  // namespace coxswain
