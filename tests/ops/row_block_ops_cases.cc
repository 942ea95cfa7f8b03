#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

// Row r is 10 r, 10 r + 1, ...
Tensor Counting(int64_t rows, int64_t columns) {
  Tensor block(DType::kF32, Shape{rows, columns});
  for (int64_t i = 0; i < rows * columns; ++i) {
    block.mutable_data<float>()[i] = static_cast<float>(i / columns * 10 + i % columns);
  }
  return block;
}

void AddGathers(std::vector<OpCase>* cases) {
  cases->push_back({.op = "BlockGather",
                    .label = "columns of rows, one of them twice",
                    .inputs = {Counting(3, 5), I64({3}, {2, 0, 2})},
                    .attrs = {{"offset", 1}, {"width", 2}},
                    .expected = {F32({3, 2}, {21, 22, 1, 2, 21, 22})}});
  cases->push_back({.op = "BlockGather",
                    .label = "four columns at once",
                    .inputs = {Counting(3, 8), I64({2}, {2, 1})},
                    .attrs = {{"offset", 4}, {"width", 4}},
                    .expected = {F32({2, 4}, {24, 25, 26, 27, 14, 15, 16, 17})}});
  cases->push_back({.op = "BlockGather",
                    .label = "whole rows, of several blocks of threads",
                    .inputs = {RandomF32({50, 96}, 1), I64({5}, {49, 0, 7, 7, 23})},
                    .attrs = {{"offset", 0}, {"width", 96}}});
  cases->push_back({.op = "BlockGather",
                    .label = "no places",
                    .inputs = {Counting(3, 5), I64({0}, {})},
                    .attrs = {{"offset", 0}, {"width", 2}},
                    .expected = {F32({0, 2}, {})}});
  cases->push_back({.op = "BlockGather",
                    .label = "no columns",
                    .inputs = {Counting(3, 5), I64({1}, {1})},
                    .attrs = {{"offset", 5}, {"width", 0}},
                    .expected = {F32({1, 0}, {})}});
}

void AddScatters(std::vector<OpCase>* cases) {
  cases->push_back({.op = "BlockScatter",
                    .label = "two columns of two rows",
                    .inputs = {Counting(3, 3), I64({2}, {2, 0}), F32({2, 2}, {-1, -2, -3, -4})},
                    .attrs = {{"offset", 1}},
                    .expected = {F32({3, 3}, {0, -3, -4, 10, 11, 12, 20, -1, -2})}});
  cases->push_back({.op = "BlockScatter",
                    .label = "four columns at once",
                    .inputs = {Counting(2, 8), I64({1}, {1}), F32({1, 4}, {-1, -2, -3, -4})},
                    .attrs = {{"offset", 4}},
                    .expected = {F32({2, 8}, {0, 1, 2, 3, 4, 5, 6, 7,  //
                                              10, 11, 12, 13, -1, -2, -3, -4})}});
  cases->push_back(
      {.op = "BlockScatter",
       .label = "whole rows, of several blocks of threads",
       .inputs = {RandomF32({50, 80}, 1), I64({4}, {49, 0, 7, 23}), RandomF32({4, 80}, 2)},
       .attrs = {{"offset", 0}}});
  cases->push_back({.op = "BlockScatter",
                    .label = "no places",
                    .inputs = {Counting(2, 2), I64({0}, {}), F32({0, 2}, {})},
                    .attrs = {{"offset", 0}},
                    .expected = {F32({2, 2}, {0, 1, 10, 11})}});
}

struct Rule {
  const char* kind;
  const char* label;
  std::vector<float> numbers;  // as the optimizer's Rule<float> has them
};

// The flag of ftrl is not looked at.
std::vector<Rule> Rules() {
  const float infinity = std::numeric_limits<float>::infinity();
  return {{"sgd", "", {0.1f, 0.01f}},
          {"momentum", "", {0.1f, 0.01f, 0.9f, 0, 1}},
          {"momentum", "Nesterov's", {0.1f, 0, 0.9f, 1, 0.9f}},
          {"adagrad", "", {0.1f, 0.01f, 1e-7f}},
          {"rowwise_adagrad", "", {0.1f, 0.01f, 1e-7f}},
          {"rmsprop", "", {0.1f, 0.01f, 1e-7f, 0.9f}},
          {"lazy_adam", "", {0.05f, 0.01f, 0.9f, 0.999f, 0.1f, 0.001f, 1e-8f}},
          {"ftrl", "", {10, 0.5f, 0.02f, 0.5f, 0}},
          {"ftrl", "another power", {10, 0.5f, 0.02f, 0.4f, 0}},
          {"ftrl", "a rate of 0", {infinity, 0.5f, 0.02f, 0.5f, 0}}};
}

void AddApplies(std::vector<OpCase>* cases) {
  for (const Rule& rule : Rules()) {
    const Tensor numbers = F32({static_cast<int64_t>(rule.numbers.size())}, rule.numbers);
    const std::string about = std::string(rule.kind) + " " + rule.label;
    // A slot may be a sum of squares: it is above 0.
    cases->push_back({.op = "BlockApply",
                      .label = about + ", four columns at once",
                      .inputs = {RandomF32({7, 64}, 1, 0.1f), I64({3}, {5, 0, 3}),
                                 RandomF32({3, 20}, 2), numbers},
                      .attrs = {{"kind", rule.kind}}});
    cases->push_back({.op = "BlockApply",
                      .label = about + ", single columns, more rows than a block of threads has",
                      .inputs = {RandomF32({40, 17}, 3, 0.1f),
                                 I64({20}, {39, 1, 2,  3,  4,  5,  6,  7,  8,  9,  //
                                            10, 0, 12, 13, 14, 15, 16, 17, 18, 38}),
                                 RandomF32({20, 5}, 4), numbers},
                      .attrs = {{"kind", rule.kind}}});
    cases->push_back({.op = "BlockApply",
                      .label = about + ", no places",
                      .inputs = {RandomF32({2, 12}, 5), I64({0}, {}), F32({0, 4}, {}), numbers},
                      .attrs = {{"kind", rule.kind}},
                      .expected = {RandomF32({2, 12}, 5)}});
  }
  cases->push_back(
      {.op = "BlockApply",
       .label = "no weights",
       .inputs = {Counting(2, 1), I64({1}, {1}), F32({1, 0}, {}), F32({3}, {0.1f, 0, 0})},
       .attrs = {{"kind", "rowwise_adagrad"}},
       .expected = {Counting(2, 1)}});
}

// Those from `first` on once more, with places in 32 bits.
void AddNarrow(size_t first, std::vector<OpCase>* cases) {
  for (size_t i = first, count = cases->size(); i < count; ++i) {
    OpCase narrow = (*cases)[i];
    narrow.label += ", places in 32 bits";
    Tensor& places = narrow.inputs[1];
    const absl::Span<const int64_t> wide = places.values<int64_t>();
    places = I32({places.dim(0)}, std::vector<int32_t>(wide.begin(), wide.end()));
    cases->push_back(std::move(narrow));
  }
}

}  // namespace

OP_CASES(row_block_ops) {
  const size_t first = cases->size();
  AddGathers(cases);
  AddScatters(cases);
  AddApplies(cases);
  AddNarrow(first, cases);
}

}  // namespace coxswain::testing
