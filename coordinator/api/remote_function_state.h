// What the handles on one function share.
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

// What a future needs of its function, which may go before it.
struct ResultNames {
  std::string function;
  std::vector<std::string> results;
};

struct RemoteFunction::State {
  explicit State(function::Partition parts) : partition(std::move(parts)) {
    names->function = partition.worker.name;
    for (const auto& result : partition.worker.results) names->results.push_back(result.name);
  }
  // With the last handle.
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
  std::string column;            // one that it reads; empty: none
  function::Partition partition;
  const std::shared_ptr<ResultNames> names = std::make_shared<ResultNames>();
  std::function<void()> release;  // of the plan
};

}  // namespace coxswain
