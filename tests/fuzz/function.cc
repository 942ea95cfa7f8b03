// A function as a peer sends it (FunctionProto in text format): read, written, pruned, partitioned,
// cut by lanes, compiled and run, whole and by its partition, on arguments that fit it.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "protos/graph.pb.h"
#include "ps_server/lane_plan.h"
#include "runtime/function/executor.h"
#include "runtime/function/partition.h"
#include "runtime/graph/serialize.h"
#include "runtime/tensor/limits.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/proto_mutator.h"
#include "tests/testing/registry.h"

namespace coxswain {
namespace {

constexpr int kPs = 2;

// Two shards: a matrix and a vector, and rows of the matrix.
class SmallShards final : public graph::VariableAccess {
 public:
  absl::StatusOr<Tensor> Read(ShardId shard) override {
    if (shard > 1) return absl::NotFoundError("no such shard");
    return shard == 0 ? Tensor::Zeros(DType::kF32, Shape{4, 3}) : Tensor::Zeros(DType::kF32, {3});
  }
  absl::StatusOr<Tensor> Gather(ShardId shard, const Tensor& ids) override {
    if (shard != 0) return absl::NotFoundError("no such shard");
    for (const int64_t id : ids.values<int64_t>()) {
      if (id < 0 || id >= 4) return absl::InvalidArgumentError("no such row");
    }
    return Tensor::Zeros(DType::kF32, Shape{ids.dim(0), 3});
  }
  absl::Status Stage(graph::Update update) override {
    sum_ += update.values.ToString().size() + update.ids.ToString().size();
    return absl::OkStatus();
  }

 private:
  size_t sum_ = 0;
};

// False when they would be too large.
bool MakeArguments(const graph::Function& function, unsigned salt, std::vector<Tensor>* arguments) {
  for (const graph::Function::Argument& argument : function.arguments) {
    Shape shape = argument.type.shape;
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape.dim(i) == kUnknownDim) shape.set_dim(i, (salt + static_cast<unsigned>(i)) % 4);
    }
    auto tensor = AllocateTensor(argument.type.dtype, shape);
    if (!tensor.ok()) return false;
    fuzz::Fill(&*tensor, salt++);
    arguments->push_back(*std::move(tensor));
  }
  return true;
}

void CheckResults(const absl::StatusOr<std::vector<Tensor>>& results,
                  const graph::Function& function) {
  if (!results.ok()) return;
  if (results->size() != function.results.size()) fuzz::Broken("another number of results");
  for (const Tensor& t : *results) {
    if (!CheckedElements(t.shape()).ok()) fuzz::Broken("a result beyond all bounds");
    static_cast<void>(t.ToString());
  }
}

function::RunOptions Options(env::ComputePool* pool, graph::VariableAccess* shards) {
  function::RunOptions options;
  options.step = {1, 2, 3, 4};
  options.pool = pool;
  options.variables = shards;
  return options;
}

// Runs the segments on the spot, and cut by lanes.
class Segments final : public function::PsCaller {
 public:
  Segments(const function::Partition& partition, const function::RunOptions& options)
      : options_(options) {
    for (const auto& segments : partition.segments) {
      auto& compiled = compiled_.emplace_back();
      for (const graph::Function& segment : segments) {
        auto one = function::CompiledFunction::Compile(segment);
        compiled.push_back(one.ok() ? *one : nullptr);
      }
      if (std::find(compiled.begin(), compiled.end(), nullptr) != compiled.end()) continue;
      static_cast<void>(
          ps::CutByLanes(compiled, [](ShardId id) { return static_cast<int>(id % 2); }));
    }
  }

  void Call(const function::PsCallTarget& target, std::vector<Tensor> inputs, Done done) override {
    const auto& segment =
        compiled_.at(static_cast<size_t>(target.ps)).at(static_cast<size_t>(target.segment));
    if (segment == nullptr) return done(absl::NotFoundError("not compiled"));
    done(segment->Run(std::move(inputs), options_));
  }

 private:
  const function::RunOptions options_;
  std::vector<std::vector<std::shared_ptr<const function::CompiledFunction>>> compiled_;
};

void RunWhole(const graph::Function& function, const function::RunOptions& options) {
  const auto compiled = function::CompiledFunction::Compile(function);
  if (!compiled.ok() || (*compiled)->has_ps_calls()) return;
  static_cast<void>(
      ps::CutByLanes({*compiled}, [](ShardId id) { return static_cast<int>(id % 2); }));
  for (const unsigned salt : {1u, 2u}) {
    std::vector<Tensor> arguments;
    if (!MakeArguments(function, salt, &arguments)) continue;
    CheckResults((*compiled)->Run(std::move(arguments), options), function);
  }
}

void RunParts(const graph::Function& function, const function::RunOptions& options) {
  const auto partition = function::PartitionFunction(
      function, kPs, [](ShardId id) { return id < kPs ? static_cast<int>(id) : -1; });
  if (!partition.ok()) return;
  static_cast<void>(function::PartitionToText(*partition));
  static_cast<void>(function::PartitionToDot(*partition));
  Segments segments(*partition, options);
  const auto compiled = function::CompiledFunction::Compile(partition->worker);
  std::vector<Tensor> arguments;
  if (!compiled.ok() || !MakeArguments(partition->worker, 1, &arguments)) return;
  bool ended = false;
  function::CompiledFunction::RunAsync(*compiled, std::move(arguments), options, &segments,
                                       [&](const absl::StatusOr<std::vector<Tensor>>& results) {
                                         ended = true;
                                         CheckResults(results, partition->worker);
                                       });
  if (!ended) fuzz::Broken("a run did not end");
}

void Run(const proto::FunctionProto& proto) {
  static env::ComputePool* const pool = env::NewInlinePool().release();
  auto function = graph::FromProto(proto, &testing::ClusterOps());
  if (!function.ok()) return;
  const auto again = graph::FromProto(graph::ToProto(*function), &testing::ClusterOps());
  if (!again.ok()) fuzz::Broken(again.status().ToString());
  const graph::Function pruned = graph::Prune(*function);
  SmallShards shards;
  const function::RunOptions options = Options(pool, &shards);
  RunWhole(*function, options);
  RunWhole(pruned, options);
  RunParts(pruned, options);
}

}  // namespace
}  // namespace coxswain

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  coxswain::proto::FunctionProto scratch;
  return coxswain::fuzz::MutateText(data, size, max_size, seed, &scratch);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  coxswain::fuzz::BoundMemory();
  coxswain::proto::FunctionProto proto;
  const std::string text(coxswain::fuzz::Text(data, size));
  if (coxswain::fuzz::ReadText(text, &proto)) coxswain::Run(proto);
  return 0;
}
