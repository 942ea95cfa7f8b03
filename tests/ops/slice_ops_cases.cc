#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

using Ints = std::vector<int64_t>;

}  // namespace

OP_CASES(slice_ops) {
  const Tensor x = F32({3, 4}, {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23});
  const struct {
    const char* label;
    Ints begin, size;
    Tensor wanted;
  } lines[] = {
      {"a block", {1, 1}, {2, 2}, F32({2, 2}, {11, 12, 21, 22})},
      {"whole rows", {1, 0}, {-1, -1}, F32({2, 4}, {10, 11, 12, 13, 20, 21, 22, 23})},
      {"the rest of the columns", {0, 3}, {3, -1}, F32({3, 1}, {3, 13, 23})},
      {"everything", {0, 0}, {-1, 4}, x},
      {"nothing", {3, 1}, {-1, 2}, F32({0, 2}, {})},
  };
  for (const auto& line : lines) {
    const Attrs block = {{"begin", line.begin}, {"size", line.size}};
    cases->push_back({.op = "Slice",
                      .label = line.label,
                      .inputs = {x},
                      .attrs = block,
                      .differentiate = {0},
                      .expected = {line.wanted}});
    cases->push_back({.op = "SliceGrad",
                      .label = line.label,
                      .inputs = {line.wanted, x},
                      .attrs = block,
                      .differentiate = {0}});
  }
  Tensor cube(DType::kF32, {3, 4, 2, 3});
  for (int i = 0; i < 72; ++i) cube.mutable_data<float>()[i] = static_cast<float>(i);
  cases->push_back(
      {.op = "Slice",
       .label = "cut in the first three of four dimensions",
       .inputs = {cube},
       .attrs = {{"begin", Ints{1, 1, 1, 0}}, {"size", Ints{2, 2, 1, -1}}},
       .differentiate = {0},
       .expected = {F32({2, 2, 1, 3}, {33, 34, 35, 39, 40, 41, 57, 58, 59, 63, 64, 65})}});
  cases->push_back({.op = "Slice",
                    .label = "ids",
                    .inputs = {I64({4}, {1, 2, 3, 4})},
                    .attrs = {{"begin", Ints{1}}, {"size", Ints{2}}},
                    .expected = {I64({2}, {2, 3})}});
}

}  // namespace coxswain::testing
