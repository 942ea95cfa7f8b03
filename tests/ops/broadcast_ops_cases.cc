#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(broadcast_ops) {
  const Tensor whole = RandomF32({2, 3, 4}, 1);
  const Tensor likes[] = {RandomF32({2, 3, 4}, 2), RandomF32({3, 4}, 2),    RandomF32({4}, 2),
                          RandomF32({3, 1}, 2),    RandomF32({2, 1, 4}, 2), RandomF32({}, 2),
                          RandomF32({1, 1, 1}, 2)};
  for (const Tensor& like : likes) {
    cases->push_back({.op = "SumToLike",
                      .label = "to " + like.shape().ToString(),
                      .inputs = {whole, like},
                      .differentiate = {0}});
    cases->push_back({.op = "BroadcastLike",
                      .label = "from " + like.shape().ToString(),
                      .inputs = {like, whole},
                      .differentiate = {0}});
  }
  cases->push_back({.op = "SumToLike",
                    .label = "values",
                    .inputs = {F32({2, 2}, {1, 2, 3, 4}), F32({2, 1}, {0, 0})},
                    .differentiate = {0},
                    .expected = {F32({2, 1}, {3, 7})}});
  cases->push_back({.op = "SumToLike",
                    .label = "a batch of none",
                    .inputs = {F32({0, 2}, {}), F32({2}, {0, 0})},
                    .expected = {F32({2}, {0, 0})}});
  cases->push_back({.op = "BroadcastLike",
                    .label = "values, `like` of another dtype",
                    .inputs = {F32({2, 1}, {1, 2}), I64({2, 2}, {0, 0, 0, 0})},
                    .expected = {F32({2, 2}, {1, 1, 2, 2})}});
}

}  // namespace coxswain::testing
