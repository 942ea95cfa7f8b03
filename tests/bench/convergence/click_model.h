// A small model of clicks with tables and dense layers: what a batch does to it, as a function that
// a simulated cluster runs, and what it says of examples, in plain loops.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "coordinator/api/variable_info.h"
#include "coordinator/core/closure.h"
#include "runtime/graph/graph.h"
#include "tests/bench/convergence/planted_clicks.h"

namespace coxswain {

class ClickModel {
 public:
  ClickModel(double learning_rate, uint64_t seed);

  const std::vector<proto::ShardSpec>& shards() const { return shards_; }
  const std::shared_ptr<const graph::Function>& step() const { return step_; }
  // The arguments of the step for a batch.
  static std::vector<Tensor> Arguments(const Clicks& batch);
  // `rows`: of each shard, in order.
  static std::vector<double> Scores(const std::vector<Tensor>& rows, const Clicks& examples);

 private:
  std::vector<proto::ShardSpec> shards_;
  std::vector<std::shared_ptr<VariableInfo>> variables_;
  std::shared_ptr<const graph::Function> step_;
};

}  // namespace coxswain
