// What the handles on one function share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "coxswain/strategy.h"
#include "runtime/base/ids.h"
#include "runtime/function/partition.h"

namespace coxswain {

struct RemoteFunction::State {
  explicit State(Partition parts) : partition(std::move(parts)) {}

  struct Input {
    std::string name;
    TensorType type;
  };
  PlanId plan = 0;
  DatasetId dataset = 0;
  uint64_t strategy = 0;
  std::vector<Input> arguments;  // in Schedule's order
  std::string column;            // one that it reads; empty: none
  Partition partition;
};

}  // namespace coxswain
