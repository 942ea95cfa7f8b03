// Inputs large enough that the kernels split them over the threads of a pool.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "runtime/graph/builder.h"
#include "tests/ops/op_case.h"
#include "tests/testing/interpreter.h"

namespace coxswain::testing {
namespace {

absl::StatusOr<std::vector<Tensor>> RunOn(const OpCase& op_case, ComputePool* pool) {
  GraphBuilder builder("f", &AllOps());
  std::vector<Output> arguments;
  std::vector<Tensor> values;
  for (const Tensor& input : op_case.inputs) {
    arguments.push_back(
        builder.Argument(absl::StrCat("x", arguments.size()), input.dtype(), input.shape()));
    values.push_back(DeepCopy(input));  // so that kernels may write in place
  }
  const Output first = builder.Op(op_case.op, arguments, op_case.attrs);
  for (size_t i = 0; first.valid() && i < builder.graph().node(first.node).outputs.size(); ++i) {
    builder.Result(absl::StrCat("y", i), {first.node, static_cast<int>(i)});
  }
  auto function = builder.Finish();
  if (!function.ok()) return function.status();
  InterpretOptions options;
  options.pool = pool;
  return Interpret(*function, std::move(values), options);
}

template <typename T>
Tensor Ids(Shape shape, int64_t bound, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor ids(DTypeOf<T>::value, std::move(shape));
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    ids.mutable_data<T>()[i] = static_cast<T>(random() % static_cast<uint64_t>(bound));
  }
  return ids;
}

Tensor Offsets(int64_t bags, int32_t size) {
  Tensor offsets(DType::kI32, Shape{bags + 1});
  for (int64_t b = 0; b <= bags; ++b) {
    offsets.mutable_data<int32_t>()[b] = static_cast<int32_t>(b) * size;
  }
  return offsets;
}

std::vector<OpCase> LargeCases() {
  const int64_t b = 300, n = 1001;
  const Tensor x = RandomF32({b, n}, 1), y = RandomF32({b, n}, 2), v = RandomF32({b}, 3);
  const Tensor labels = Ids<int64_t>({b}, n, 4);
  const Tensor inverse = Ids<int32_t>({b * 20}, 2000, 5), offsets = Offsets(b, 20);
  const Attrs mean = {{"combiner", "mean"}};
  return {
      {.op = "RowDot", .label = "", .inputs = {x, y}, .attrs = {}},
      {.op = "NegativeSamplingLoss", .label = "", .inputs = {x}, .attrs = {}},
      {.op = "PairDot",
       .label = "",
       .inputs = {x, y, Ids<int32_t>({4000}, b, 6), Ids<int32_t>({4000}, b, 7)},
       .attrs = {}},
      {.op = "PairDotGrad",
       .label = "",
       .inputs = {RandomF32({4000}, 8), x, Ids<int32_t>({4000}, b, 9), Ids<int32_t>({4000}, b, 10),
                  y},
       .attrs = {}},
      {.op = "ScaleRows", .label = "", .inputs = {x, v}, .attrs = {}},
      {.op = "PairwiseDots", .label = "", .inputs = {x, y, x}, .attrs = {{"with_first", true}}},
      {.op = "PairwiseDotsGrad",
       .label = "",
       .inputs = {RandomF32({b, 3}, 11), x, y, x},
       .attrs = {}},
      {.op = "Softmax", .label = "", .inputs = {x}, .attrs = {}},
      {.op = "LogSoftmaxGrad", .label = "", .inputs = {x, y}, .attrs = {}},
      {.op = "SoftmaxCrossEntropy", .label = "", .inputs = {x, y}, .attrs = {}},
      {.op = "SparseSoftmaxCrossEntropy", .label = "", .inputs = {x, labels}, .attrs = {}},
      {.op = "SigmoidCrossEntropy", .label = "", .inputs = {x, y}, .attrs = {}},
      {.op = "SampledSoftmaxCrossEntropy",
       .label = "",
       .inputs = {v, x, labels, Ids<int64_t>({n}, n, 6)},
       .attrs = {}},
      {.op = "EmbeddingBag",
       .label = "",
       .inputs = {RandomF32({2000, 65}, 7), inverse, offsets},
       .attrs = mean},
      {.op = "EmbeddingBagGrad",
       .label = "",
       .inputs = {RandomF32({b, 65}, 8), RandomF32({2000, 65}, 9), inverse, offsets},
       .attrs = mean},
      {.op = "MaskedRank",
       .label = "",
       .inputs = {x, labels, Ids<int64_t>({b * 20}, n, 10), offsets},
       .attrs = {}},
  };
}

TEST_CASE("kernels give the same on three threads as on one, to the bit") {
  auto inline_pool = NewInlinePool();
  auto pool = NewComputePool(3);
  for (const OpCase& op_case : LargeCases()) {
    CAPTURE(op_case.op);
    auto one = RunOn(op_case, inline_pool.get());
    INFO(one.status().message());
    REQUIRE(one.ok());
    for (int round = 0; round < 5; ++round) {
      auto three = RunOn(op_case, pool.get());
      REQUIRE(three.ok());
      REQUIRE(three->size() == one->size());
      for (size_t i = 0; i < one->size(); ++i) {
        REQUIRE((*three)[i].shape() == (*one)[i].shape());
        CHECK(std::memcmp((*three)[i].raw(), (*one)[i].raw(), (*one)[i].bytes()) == 0);
      }
    }
  }
}

}  // namespace
}  // namespace coxswain::testing
