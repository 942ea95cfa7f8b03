#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/ops/op_case.h"

namespace coxswain::testing {

OP_CASES(sequence_ops) {
  const Tensor q = F32({4, 2}, {0.5f, -1, 1, 0.25f, -0.75f, 2, 0.3f, 0.6f});
  const Tensor k = F32({4, 2}, {1, 0.5f, -0.5f, 1.5f, 0.8f, -0.2f, 1, 1});
  const Tensor v = F32({4, 2}, {2, -1, 0.5f, 3, -2, 1, 0.25f, 0.75f});
  const Tensor offsets = I32({4}, {0, 3, 3, 4});
  // Equal scores: each row is the mean of those up to it, within its sequence.
  cases->push_back({.op = "CausalAttention",
                    .label = "equal scores: means of what is not behind; an empty sequence",
                    .inputs = {F32({4, 2}, {0, 0, 0, 0, 0, 0, 0, 0}), k,
                               F32({4, 2}, {2, 1, 4, 3, 0, 8, 5, 7}), offsets},
                    .differentiate = {0, 1, 2},
                    .expected = {F32({4, 2}, {2, 1, 3, 2, 2, 4, 5, 7})}});
  cases->push_back({.op = "CausalAttention",
                    .label = "one head",
                    .inputs = {q, k, v, offsets},
                    .differentiate = {0, 1, 2}});
  cases->push_back({.op = "CausalAttention",
                    .label = "two heads",
                    .inputs = {q, k, v, offsets},
                    .attrs = {{"heads", int64_t{2}}},
                    .differentiate = {0, 1, 2}});
  // Of 1, 0, 40, 9 and 2 rows: more than a GPU's kernel takes at a time, and not a multiple of it.
  const Tensor lengths = I32({6}, {0, 1, 1, 41, 50, 52});
  const auto matrix = [](uint64_t seed) { return RandomF32({52, 15}, seed, -2, 2); };
  cases->push_back({.op = "CausalAttention",
                    .label = "three heads, long and short sequences",
                    .inputs = {matrix(21), matrix(22), matrix(23), lengths},
                    .attrs = {{"heads", int64_t{3}}},
                    .differentiate = {0, 1, 2}});
  cases->push_back({.op = "CausalAttention",
                    .label = "one head of 35 columns",
                    .inputs = {RandomF32({10, 35}, 24), RandomF32({10, 35}, 25),
                               RandomF32({10, 35}, 26), I32({3}, {0, 3, 10})},
                    .differentiate = {0, 1, 2}});
  cases->push_back({.op = "CausalAttention",
                    .label = "no rows",
                    .inputs = {F32({0, 2}, {}), F32({0, 2}, {}), F32({0, 2}, {}), I32({2}, {0, 0})},
                    .expected = {F32({0, 2}, {})}});
  cases->push_back({.op = "CausalAttention",
                    .label = "no columns",
                    .inputs = {F32({2, 0}, {}), F32({2, 0}, {}), F32({2, 0}, {}), I32({2}, {0, 2})},
                    .expected = {F32({2, 0}, {})}});
  // Scores that overflow the exponential unless their largest is taken off.
  cases->push_back({.op = "CausalAttention",
                    .label = "large scores: the largest takes all",
                    .inputs = {F32({3, 1}, {1, 1, 1}), F32({3, 1}, {-1000, 2000, 1000}),
                               F32({3, 1}, {3, 5, 7}), I32({2}, {0, 3})},
                    .expected = {F32({3, 1}, {3, 5, 5})}});
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  cases->push_back({.op = "CausalAttention",
                    .label = "what is no number reaches neither back nor another sequence",
                    .inputs = {F32({4, 1}, {0, 0, 0, 0}), F32({4, 1}, {1, nan, 1, 1}),
                               F32({4, 1}, {3, inf, 5, 7}), I32({3}, {0, 3, 4})},
                    .expected = {F32({4, 1}, {3, nan, nan, 7})}});
  cases->push_back({.op = "CausalAttentionGrad",
                    .label = "three heads, long and short sequences",
                    .inputs = {matrix(27), matrix(21), matrix(22), matrix(23), lengths},
                    .attrs = {{"heads", int64_t{3}}}});
  cases->push_back(
      {.op = "CausalAttentionGrad",
       .label = "what is no number reaches no other sequence",
       .inputs = {F32({2, 1}, {1, nan}), F32({2, 1}, {1, nan}), F32({2, 1}, {1, inf}),
                  F32({2, 1}, {1, nan}), I32({3}, {0, 1, 2})},
       .expected = {F32({2, 1}, {0, nan}), F32({2, 1}, {0, nan}), F32({2, 1}, {1, nan})}});
  cases->push_back({.op = "CausalAttentionGrad",
                    .label = "no rows",
                    .inputs = {F32({0, 2}, {}), F32({0, 2}, {}), F32({0, 2}, {}), F32({0, 2}, {}),
                               I32({1}, {0})},
                    .expected = {F32({0, 2}, {}), F32({0, 2}, {}), F32({0, 2}, {})}});
  // A sequence of one row: its weight is 1, whatever the scores are.
  cases->push_back({.op = "CausalAttentionGrad",
                    .label = "a row alone",
                    .inputs = {F32({1, 2}, {3, 4}), F32({1, 2}, {1, 2}), F32({1, 2}, {5, 6}),
                               F32({1, 2}, {7, 8}), I32({2}, {0, 1})},
                    .expected = {F32({1, 2}, {0, 0}), F32({1, 2}, {0, 0}), F32({1, 2}, {3, 4})}});
  cases->push_back({.op = "FromEnd",
                    .label = "the last is 0",
                    .inputs = {offsets, I64({4}, {9, 9, 9, 9})},
                    .expected = {I64({4}, {2, 1, 0, 0})}});
  cases->push_back({.op = "FromEnd",
                    .label = "at most 1",
                    .inputs = {offsets, I64({4}, {9, 9, 9, 9})},
                    .attrs = {{"most", int64_t{1}}},
                    .expected = {I64({4}, {1, 1, 0, 0})}});
  cases->push_back({.op = "FromEnd",
                    .label = "an empty sequence first, two between, one at the end",
                    .inputs = {I32({7}, {0, 0, 2, 2, 2, 3, 3}), I64({3}, {9, 9, 9})},
                    .expected = {I64({3}, {1, 0, 0})}});
  cases->push_back({.op = "FromEnd",
                    .label = "a long sequence",
                    .inputs = {I32({3}, {0, 1, 600}), RandomF32({600}, 31)},
                    .attrs = {{"most", int64_t{97}}},
                    .verify = [](const std::vector<Tensor>& out) {
                      const int64_t* const behind = out[0].data<int64_t>();
                      CHECK(behind[0] == 0);
                      for (int64_t i = 1; i < 600; ++i) {
                        CHECK(behind[i] == std::min<int64_t>(97, 599 - i));
                      }
                    }});
  cases->push_back({.op = "FromEnd",
                    .label = "a sequence without values",
                    .inputs = {I32({2}, {0, 0}), I64({0}, {})},
                    .expected = {I64({0}, {})}});
  cases->push_back({.op = "FromEnd",
                    .label = "no sequence",
                    .inputs = {I32({1}, {0}), I64({0}, {})},
                    .expected = {I64({0}, {})}});
  cases->push_back({.op = "LastRows",
                    .label = "zeros of an empty sequence",
                    .inputs = {q, offsets},
                    .differentiate = {0},
                    .expected = {F32({3, 2}, {-0.75f, 2, 0, 0, 0.3f, 0.6f})}});
  cases->push_back({.op = "LastRows",
                    .label = "rows of 33 columns",
                    .inputs = {RandomF32({70, 33}, 32), I32({6}, {0, 1, 1, 32, 69, 70})},
                    .differentiate = {0}});
  cases->push_back({.op = "LastRows",
                    .label = "no rows",
                    .inputs = {RandomF32({0, 3}, 33), I32({3}, {0, 0, 0})},
                    .expected = {F32({2, 3}, {0, 0, 0, 0, 0, 0})}});
  cases->push_back({.op = "LastRows",
                    .label = "no sequence",
                    .inputs = {RandomF32({0, 3}, 33), I32({1}, {0})},
                    .expected = {F32({0, 3}, {})}});
  cases->push_back({.op = "LastRows",
                    .label = "no columns",
                    .inputs = {RandomF32({2, 0}, 33), I32({2}, {0, 2})},
                    .expected = {F32({1, 0}, {})}});
  cases->push_back(
      {.op = "LastRowsGrad",
       .label = "rows of 33 columns",
       .inputs = {RandomF32({5, 33}, 34), RandomF32({70, 33}, 32), I32({6}, {0, 1, 1, 32, 69, 70})},
       .differentiate = {0}});
  cases->push_back({.op = "LastRowsGrad",
                    .label = "no rows",
                    .inputs = {RandomF32({2, 3}, 35), RandomF32({0, 3}, 33), I32({3}, {0, 0, 0})},
                    .expected = {F32({0, 3}, {})}});
  cases->push_back({.op = "LastRowsGrad",
                    .label = "to the last rows alone",
                    .inputs = {F32({3, 2}, {1, 2, 3, 4, 5, 6}), q, offsets},
                    .differentiate = {0},
                    .expected = {F32({4, 2}, {0, 0, 0, 0, 1, 2, 5, 6})}});
}

}  // namespace coxswain::testing
