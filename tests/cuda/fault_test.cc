// An input that cannot be used is reported, and nothing is read or written outside of a tensor.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/cuda/device_run.h"

namespace coxswain::testing {
namespace {

struct FaultCase {
  OpCase op_case;
  std::vector<OutputType> outputs;
  int32_t input;
  int64_t at, value, bound;
};

OutputType Floats(Shape shape) { return {DType::kF32, std::move(shape)}; }

std::vector<FaultCase> IndexFaults() {
  const Tensor rows = RandomF32({4, 3}, 1);
  const Tensor two = RandomF32({2, 3}, 2);
  const Tensor three = F32({3}, {2, 0, 1});
  const auto far = int64_t{1} << 40;
  return {
      {{.op = "Gather", .inputs = {rows, I64({2}, {1, far})}}, {Floats({2, 3})}, 1, 1, far, 4},
      {{.op = "Gather", .inputs = {rows, I32({2}, {-1, 1})}}, {Floats({2, 3})}, 1, 0, -1, 4},
      {{.op = "Gather", .inputs = {RandomF32({0, 3}, 1), I32({1}, {0})}},
       {Floats({1, 3})},
       1,
       0,
       0,
       0},
      {{.op = "SegmentSumLike", .inputs = {two, I32({2}, {3, 4}), rows}},
       {Floats({4, 3})},
       1,
       1,
       4,
       4},
      {{.op = "SegmentSumLike", .inputs = {two, I64({2}, {-far, 0}), RandomF32({0, 3}, 1)}},
       {Floats({0, 3})},
       1,
       0,
       -far,
       0},
      {{.op = "EmbeddingBag",
        .inputs = {rows, I32({2}, {3, 9}), I32({3}, {0, 1, 2})},
        .attrs = {{"combiner", "sum"}}},
       {Floats({2, 3})},
       1,
       1,
       9,
       4},
      {{.op = "EmbeddingBag",
        .inputs = {rows, I32({2}, {3, 0}), I32({3}, {0, 1, 5})},
        .attrs = {{"combiner", "mean"}}},
       {Floats({2, 3})},
       2,
       2,
       5,
       3},
      {{.op = "EmbeddingBagGrad",
        .inputs = {two, rows, I32({2}, {-2, 0}), I32({3}, {0, 1, 2})},
        .attrs = {{"combiner", "sqrtn"}}},
       {Floats({4, 3})},
       2,
       0,
       -2,
       4},
      {{.op = "EmbeddingBagGrad",
        .inputs = {two, rows, I32({2}, {2, 0}), I32({3}, {0, 2, 1})},
        .attrs = {{"combiner", "sum"}}},
       {Floats({4, 3})},
       3,
       2,
       1,
       3},
      {{.op = "PairDot", .inputs = {rows, two, I32({1}, {4}), I32({1}, {1})}},
       {Floats({1})},
       2,
       0,
       4,
       4},
      {{.op = "PairDot", .inputs = {rows, two, I32({1}, {3}), I32({1}, {2})}},
       {Floats({1})},
       3,
       0,
       2,
       2},
      {{.op = "PairDotGrad",
        .inputs = {RandomF32({1}, 3), two, I64({1}, {3}), I64({1}, {7}), rows}},
       {Floats({4, 3})},
       3,
       0,
       7,
       2},
      {{.op = "SparseSoftmaxCrossEntropy", .inputs = {two, I64({2}, {2, 3})}},
       {Floats({2}), Floats({2, 3})},
       1,
       1,
       3,
       3},
      {{.op = "OneHot", .inputs = {I32({2}, {0, 5})}, .attrs = {{"depth", 5}}},
       {Floats({2, 5})},
       0,
       1,
       5,
       5},
      {{.op = "TakeAlongLast", .inputs = {two, I64({2, 1}, {0, 3})}}, {Floats({2, 1})}, 1, 1, 3, 3},
      {{.op = "PutAlongLast", .inputs = {RandomF32({2, 1}, 4), I32({2, 1}, {-7, 0}), two}},
       {Floats({2, 3})},
       1,
       0,
       -7,
       3},
      {{.op = "MaskedRank", .inputs = {two, I64({2}, {0, 3}), I64({1}, {0}), I32({3}, {0, 0, 1})}},
       {{DType::kI64, Shape{2}}},
       1,
       1,
       3,
       3},
      {{.op = "MaskedRank",
        .inputs = {two, I64({2}, {0, 1}), I64({1}, {far}), I32({3}, {0, 0, 1})}},
       {{DType::kI64, Shape{2}}},
       2,
       0,
       far,
       3},
      {{.op = "MaskedRank", .inputs = {two, I64({2}, {0, 1}), I64({1}, {0}), I32({3}, {0, 1, 2})}},
       {{DType::kI64, Shape{2}}},
       3,
       2,
       2,
       2},
      {{.op = "FromEnd", .inputs = {I32({2}, {1, 4}), rows}},
       {{DType::kI64, Shape{4}}},
       0,
       0,
       1,
       1},
      {{.op = "FromEnd", .inputs = {I32({2}, {0, 3}), rows}},
       {{DType::kI64, Shape{4}}},
       0,
       1,
       3,
       5},
      {{.op = "FromEnd", .inputs = {I32({1}, {0}), rows}}, {{DType::kI64, Shape{4}}}, 0, 0, 0, 1},
      {{.op = "LastRows", .inputs = {rows, I32({3}, {0, -2, 4})}}, {Floats({2, 3})}, 1, 1, -2, 5},
      {{.op = "LastRows", .inputs = {rows, I32({2}, {0, 1 << 30})}},
       {Floats({1, 3})},
       1,
       1,
       1 << 30,
       5},
      {{.op = "LastRowsGrad", .inputs = {RandomF32({3, 3}, 5), rows, I32({4}, {0, 3, 2, 4})}},
       {Floats({4, 3})},
       2,
       2,
       2,
       5},
      {{.op = "CausalAttention", .inputs = {rows, rows, rows, I32({4}, {0, 3, 2, 4})}},
       {Floats({4, 3})},
       3,
       2,
       2,
       5},
      {{.op = "CausalAttention", .inputs = {rows, rows, rows, I32({3}, {0, 2, 1 << 30})}},
       {Floats({4, 3})},
       3,
       2,
       1 << 30,
       5},
      {{.op = "CausalAttentionGrad", .inputs = {rows, rows, rows, rows, I32({3}, {-1, 2, 4})}},
       {Floats({4, 3}), Floats({4, 3}), Floats({4, 3})},
       4,
       0,
       -1,
       1},
      {{.op = "CausalAttentionGrad", .inputs = {rows, rows, rows, rows, I32({2}, {0, 3})}},
       {Floats({4, 3}), Floats({4, 3}), Floats({4, 3})},
       4,
       1,
       3,
       5},
      {{.op = "ListNet", .inputs = {three, three, I32({3}, {0, 3, 2})}}, {Floats({2})}, 2, 2, 2, 4},
      {{.op = "ListNetGrad", .inputs = {F32({1}, {1}), three, three, I32({2}, {-1, 2})}},
       {Floats({3})},
       3,
       0,
       -1,
       4},
      {{.op = "LambdaRank", .inputs = {three, three, I32({2}, {1, 4})}}, {Floats({1})}, 2, 1, 4, 4},
      {{.op = "LambdaRank", .inputs = {three, F32({3}, {1, 30.5f, 30}), I32({2}, {0, 1})}},
       {Floats({1})},
       1,
       1,
       31,
       31},
      {{.op = "LambdaRankGrad",
        .inputs = {F32({1}, {1}), three, F32({3}, {0, 30, -0.25f}), I32({2}, {0, 3})}},
       {Floats({3})},
       2,
       2,
       -1,
       31},
      {{.op = "LambdaRankGrad",
        .inputs = {F32({1}, {1}), three, F32({3}, {0, 3e38f, 1}), I32({2}, {0, 3})}},
       {Floats({3})},
       2,
       1,
       int64_t{1} << 62,
       31},
  };
}

TEST_CASE("an index out of range is a fault that names input, element and bound") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  for (const FaultCase& fault_case : IndexFaults()) {
    INFO(fault_case.op_case.op << ", input " << fault_case.input << " at " << fault_case.at);
    const DeviceRun run = RunOnDevice(*on, fault_case.op_case, fault_case.outputs);
    CHECK(run.message == "");
    CHECK(run.fault.kind == COX_FAULT_INDEX);
    CHECK(run.fault.node == 17);
    CHECK(run.fault.input == fault_case.input);
    CHECK(run.fault.at == fault_case.at);
    CHECK(run.fault.value == fault_case.value);
    CHECK(run.fault.bound == fault_case.bound);
  }
}

TEST_CASE("a label that is not finite is a fault that names the element") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    const OpCase op_case = {.op = "LambdaRank",
                            .inputs = {F32({2}, {1, 2}), F32({2}, {1, bad}), I32({2}, {0, 2})}};
    const DeviceRun run = RunOnDevice(*on, op_case, {Floats({1})});
    CHECK(run.message == "");
    CHECK(run.fault.kind == COX_FAULT_NOT_FINITE);
    CHECK(run.fault.input == 1);
    CHECK(run.fault.at == 1);
  }
}

TEST_CASE("a gradient that is not finite is a fault that names the element") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {inf, -inf, std::nanf("")}) {
    for (const Tensor& values :
         {F32({3}, {1, 3e38f, bad}), F64({3}, {1, 1e300, bad}), BF16({3}, {1, 3e38f, bad})}) {
      const OpCase op_case = {
          .op = "CheckGradient", .inputs = {values}, .attrs = {{"variable", "w"}}};
      for (const bool in_place : {false, true}) {
        const DeviceRun run =
            RunOnDevice(*on, op_case, {{values.dtype(), values.shape()}}, {.in_place = in_place});
        CHECK(run.message == "");
        CHECK(run.fault.kind == COX_FAULT_NOT_FINITE);
        CHECK(run.fault.node == 17);
        CHECK(run.fault.input == 0);
        CHECK(run.fault.at == 2);
        CHECK(run.fault.bound == (std::isnan(bad) ? 0 : bad > 0 ? 1 : -1));
      }
    }
  }
}

TEST_CASE("a gradient of rows that is not finite is a fault that names the row's id") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  const Tensor rows = F32({3, 2}, {1, 2, 3, 4, std::nanf(""), 6});
  const OpCase op_case = {.op = "CheckGradient",
                          .inputs = {rows, I64({3}, {7, 5, 12})},
                          .attrs = {{"variable", "t"},
                                    {"strategy", "mod"},
                                    {"index", 0},
                                    {"count", 1},
                                    {"rows", 20},
                                    {"row_begin", 0}}};
  const DeviceRun run = RunOnDevice(*on, op_case, {{DType::kF32, rows.shape()}});
  CHECK(run.message == "");
  CHECK(run.fault.kind == COX_FAULT_NOT_FINITE);
  CHECK(run.fault.at == 4);
  CHECK(run.fault.value == 12);
  CHECK(run.fault.bound == 0);
}

}  // namespace
}  // namespace coxswain::testing
