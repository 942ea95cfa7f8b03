// Shards in a map, for tests of what runs on them without a parameter server.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/env/compute_pool.h"
#include "runtime/function/executor.h"
#include "runtime/graph/variable_access.h"
#include "tests/testing/interpreter.h"

namespace coxswain::testing {

// Updates are noted, not applied. One thread.
class FakeShards final : public graph::VariableAccess {
 public:
  absl::StatusOr<Tensor> Read(ShardId shard) override {
    if (!values.contains(shard)) return absl::NotFoundError("no such shard");
    return DeepCopy(values.at(shard));
  }
  absl::StatusOr<Tensor> Gather(ShardId shard, const Tensor& ids) override {
    if (!values.contains(shard)) return absl::NotFoundError("no such shard");
    const Tensor& all = values.at(shard);
    Shape shape = all.shape();
    shape.set_dim(0, ids.dim(0));
    Tensor rows(all.dtype(), shape);
    const size_t row = all.bytes() / static_cast<size_t>(all.dim(0));
    for (int64_t i = 0; i < ids.dim(0); ++i) {
      const int64_t id = ids.data<int64_t>()[i];
      if (id < 0 || id >= all.dim(0)) return absl::InvalidArgumentError("id out of range");
      std::memcpy(static_cast<char*>(rows.mutable_raw()) + row * static_cast<size_t>(i),
                  static_cast<const char*>(all.raw()) + row * static_cast<size_t>(id), row);
    }
    return rows;
  }
  absl::Status Stage(graph::Update update) override {
    staged.push_back(std::move(update));
    return absl::OkStatus();
  }
  absl::StatusOr<Tensor> FetchAdd(graph::Update update, ClosureId, uint32_t) override {
    absl::StatusOr<Tensor> before = Read(update.shard);
    if (before.ok()) staged.push_back(std::move(update));
    return before;
  }

  std::map<ShardId, Tensor> values;
  std::vector<graph::Update> staged;
};

// Runs the segments of a partition on the spot.
class SegmentRunner final : public function::PsCaller {
 public:
  SegmentRunner(const function::Partition& partition, graph::VariableAccess* shards)
      : partition_(partition), shards_(shards), pool_(env::NewInlinePool()) {}

  void Call(const function::PsCallTarget& target, std::vector<Tensor> inputs, Done done) override {
    calls.emplace_back(target.ps, target.segment);
    auto segment =
        function::CompiledFunction::Compile(partition_.segments[target.ps][target.segment]);
    if (!segment.ok()) {
      done(segment.status());
      return;
    }
    function::RunOptions options;
    options.pool = pool_.get();
    options.variables = shards_;
    done((*segment)->Run(std::move(inputs), options));
  }

  std::vector<std::pair<int, int>> calls;

 private:
  const function::Partition& partition_;
  graph::VariableAccess* shards_;
  std::unique_ptr<env::ComputePool> pool_;
};

}  // namespace coxswain::testing
