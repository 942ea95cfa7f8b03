// State that the handles on one function share.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coxswain/strategy.h"
#include "runtime/base/ids.h"
#include "runtime/data/dataset.h"
#include "runtime/function/partition.h"

namespace coxswain {

// The part of a function that its futures need; a future may outlive the function.
struct ResultNames {
  std::string function;
  std::vector<std::string> results;
};

struct RemoteFunction::State {
  explicit State(function::Partition parts) : partition(std::move(parts)) {
    names->function = partition.worker.name;
    for (const auto& result : partition.worker.results) names->results.push_back(result.name);
  }
  // Destroyed with the last handle.
  ~State() {
    if (release) release();
  }

  struct Input {
    std::string name;
    TensorType type;
  };
  PlanId plan = 0;
  DatasetId dataset = 0;
  std::shared_ptr<const data::Dataset> data;  // the coordinator's copy of that; null: none
  uint64_t strategy = 0;
  std::vector<Input> arguments;  // in Schedule's order
  std::string column;            // a column that it reads; empty: none
  std::string fetched;           // a variable that it takes numbers from (FetchAdd); empty: none
  bool trains = false;           // whether it gives gradients to optimizers
  function::Partition partition;
  std::vector<std::shared_ptr<const void>> keeps;  // per-worker values that it takes
  const std::shared_ptr<ResultNames> names = std::make_shared<ResultNames>();
  std::function<void()> release;  // releases the plan
};

}  // namespace coxswain
