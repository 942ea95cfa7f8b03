#include <cmath>
#include <limits>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace

OP_CASES(cast) {
  // Values that every dtype but bool holds.
  const std::vector<int> numbers = {0, 1, 2, 100};
  const struct {
    DType dtype;
    Tensor tensor;
  } all[] = {{DType::kF32, F32({4}, {0, 1, 2, 100})},
             {DType::kF64, F64({4}, {0, 1, 2, 100})},
             {DType::kI32, I32({4}, {0, 1, 2, 100})},
             {DType::kI64, I64({4}, {0, 1, 2, 100})},
             {DType::kBF16, BF16({4}, {0, 1, 2, 100})}};
  for (const auto& from : all) {
    for (const auto& to : all) {
      cases->push_back(
          {.op = "Cast",
           .label = std::string(DTypeName(from.dtype)) + " to " + std::string(DTypeName(to.dtype)),
           .inputs = {from.tensor},
           .attrs = {{"dtype", to.dtype}},
           .expected = {to.tensor}});
    }
    cases->push_back({.op = "Cast",
                      .label = "to bool",
                      .inputs = {from.tensor},
                      .attrs = {{"dtype", DType::kBool}},
                      .expected = {Bools({4}, {0, 1, 1, 1})}});
  }
  cases->push_back({.op = "Cast",
                    .label = "bool to f32",
                    .inputs = {Bools({2}, {0, 1})},
                    .attrs = {{"dtype", DType::kF32}},
                    .expected = {F32({2}, {0, 1})}});
  cases->push_back(
      {.op = "Cast",
       .label = "floats that do not fit saturate",
       .inputs = {F32({6}, {3e9f, -3e9f, kInf, -kInf, std::nanf(""), -1.75f})},
       .attrs = {{"dtype", DType::kI32}},
       .expected = {I32({6}, {2147483647, -2147483647 - 1, 2147483647, -2147483647 - 1, 0, -1})}});
  const int64_t top = std::numeric_limits<int64_t>::max();
  cases->push_back({.op = "Cast",
                    .label = "doubles that do not fit saturate",
                    .inputs = {F64({4}, {1e19, -1e19, 9223372036854775808.0, -0.5})},
                    .attrs = {{"dtype", DType::kI64}},
                    .expected = {I64({4}, {top, -top - 1, top, 0})}});
  cases->push_back({.op = "Cast",
                    .label = "bf16 rounds to nearest even",
                    .inputs = {F32({3}, {1.00390625f, 1.01171875f, 1.0f})},  // 1 + 2^-8, 1 + 3/2^8
                    .attrs = {{"dtype", DType::kBF16}},
                    .expected = {BF16({3}, {1.0f, 1.015625f, 1.0f})}});
  for (const DType to : {DType::kF32, DType::kF64, DType::kBF16}) {
    cases->push_back({.op = "Cast",
                      .label = "differentiated",
                      .inputs = {F32({3}, {0.5f, -1.5f, 2})},
                      .attrs = {{"dtype", to}},
                      .differentiate = {0},
                      .tolerance = to == DType::kBF16 ? 1e-2 : 1e-5});
  }
}

}  // namespace coxswain::testing
