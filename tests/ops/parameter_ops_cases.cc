#include "tests/ops/op_case.h"
#include "tests/testing/fake_shards.h"
#include "tests/testing/registry.h"

namespace coxswain::testing {
namespace {

// 3 is [4,2] with rows (10 i, 10 i + 1), 5 is a vector [3]. Updates change nothing.
FakeShards* Shards() {
  static FakeShards* const shards = [] {
    auto* made = new FakeShards;
    made->values = {{3, F32({4, 2}, {0, 1, 10, 11, 20, 21, 30, 31})}, {5, F32({3}, {7, 8, 9})}};
    return made;
  }();
  return shards;
}

}  // namespace

OP_CASES(parameter_ops) {
  const auto variables = [] { return Shards(); };
  cases->push_back({.op = "ReadVariable",
                    .label = "a vector",
                    .inputs = {},
                    .attrs = ReadOf(5, {3}),
                    .expected = {F32({3}, {7, 8, 9})},
                    .variables = variables});
  cases->push_back({.op = "GatherShard",
                    .label = "rows in the order of their ids, some twice",
                    .inputs = {I64({3}, {2, 0, 2})},
                    .attrs = ReadOf(3, {4, 2}),
                    .expected = {F32({3, 2}, {20, 21, 0, 1, 20, 21})},
                    .variables = variables});
  Attrs narrow = ReadOf(3, {4, 2});
  narrow["wire_dtype"] = DType::kBF16;
  cases->push_back({.op = "GatherShard",
                    .label = "rows that travel in bf16",
                    .inputs = {I64({1}, {1})},
                    .attrs = narrow,
                    .expected = {BF16({1, 2}, {10, 11})},
                    .variables = variables});
  Attrs narrow_whole = ReadOf(5, {3});
  narrow_whole["wire_dtype"] = DType::kBF16;
  cases->push_back({.op = "ReadVariable",
                    .label = "a vector that travels in bf16",
                    .inputs = {},
                    .attrs = narrow_whole,
                    .expected = {BF16({3}, {7, 8, 9})},
                    .variables = variables});
  const Tensor whole = F32({3}, {1, 2, 3}), ids = I64({1}, {2}), rows = F32({1, 2}, {1, 2});
  for (const char* op : {"ApplyDense", "AssignVariable", "AssignAddVariable"}) {
    cases->push_back({.op = op,
                      .label = "a vector",
                      .inputs = {whole},
                      .attrs = ShardOf(5),
                      .variables = variables});
  }
  for (const char* op : {"ApplySparse", "ScatterAddVariable"}) {
    cases->push_back({.op = op,
                      .label = "one row",
                      .inputs = {ids, rows},
                      .attrs = ShardOf(3),
                      .variables = variables});
  }
  cases->push_back({.op = "FetchAddVariable",
                    .label = "a vector",
                    .inputs = {whole},
                    .attrs = ReadOf(5, {3}),
                    .expected = {F32({3}, {7, 8, 9})},
                    .variables = variables});
  Attrs half = ShardOf(5);
  half["rate"] = 0.5;
  cases->push_back({.op = "AssignMovingAverageVariable",
                    .label = "a vector",
                    .inputs = {whole},
                    .attrs = half,
                    .variables = variables});
  cases->push_back({.op = "ApplyDense",
                    .label = "a vector, with a learning rate",
                    .inputs = {whole, F32({}, {0.5f})},
                    .attrs = ShardOf(5),
                    .variables = variables});
  cases->push_back({.op = "ApplySparse",
                    .label = "one row, with a learning rate",
                    .inputs = {ids, rows, F32({}, {0.5f})},
                    .attrs = ShardOf(3),
                    .variables = variables});
}

}  // namespace coxswain::testing
