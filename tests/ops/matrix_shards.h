// Matrices that lie on shards, for the products with them.
#pragma once

#include <map>
#include <utility>

#include "tests/ops/op_case.h"
#include "tests/testing/fake_shards.h"

namespace coxswain::testing {

// f32: 3 is [2,3], 4 is [20,17], 5 has no rows of 3. f64: 6 is [4,3].
inline std::map<ShardId, Tensor> MatrixShards() {
  return {{3, F32({2, 3}, {7, 9, 11, 8, 10, 12})},
          {4, RandomF32({20, 17}, 4)},
          {5, F32({0, 3}, {})},
          {6, F64({4, 3}, {0.5, -1, 2, 3, 0.25, -0.75, 1, 1.5, -2, 0, 4, 0.125})}};
}

// Made once and never destroyed, for cases that only read them.
inline FakeShards* SharedMatrices() {
  static FakeShards* const shards = [] {
    auto* made = new FakeShards;
    made->values = MatrixShards();
    return made;
  }();
  return shards;
}

inline Attrs OnMatrix(int shard, Shape shape, bool transpose = false) {
  return {{"shard", shard},
          {"variable", "w"},
          {"dtype", shard == 6 ? DType::kF64 : DType::kF32},
          {"shape", std::move(shape)},
          {"transpose_b", transpose}};
}

}  // namespace coxswain::testing
