// Errors of the losses, and that nothing hides a model that diverged.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

using Catch::Contains;

TEST_CASE("a NaN among the logits makes the loss NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Tensor logits = RandomF32({1, 40}, 1);
  logits.mutable_data<float>()[33] = nan;
  const std::vector<OpCase> losses = {{.op = "SparseSoftmaxCrossEntropy",
                                       .label = "",
                                       .inputs = {logits, I64({1}, {2})},
                                       .attrs = {}},
                                      {.op = "SoftmaxCrossEntropy",
                                       .label = "",
                                       .inputs = {logits, RandomF32({1, 40}, 2, 0.0f, 0.1f)},
                                       .attrs = {}},
                                      {.op = "SampledSoftmaxCrossEntropy",
                                       .label = "",
                                       .inputs = {F32({1}, {0}), logits},
                                       .attrs = {}},
                                      {.op = "SampledSoftmaxCrossEntropy",
                                       .label = "",
                                       .inputs = {F32({1}, {nan}), RandomF32({1, 40}, 3)},
                                       .attrs = {}},
                                      {.op = "SigmoidCrossEntropy",
                                       .label = "",
                                       .inputs = {F32({1}, {nan}), F32({1}, {1})},
                                       .attrs = {}}};
  for (const OpCase& loss : losses) {
    auto outputs = RunOp(loss, AllOps());
    INFO(loss.op << ": " << outputs.status().message());
    REQUIRE(outputs.ok());
    CHECK(std::isnan((*outputs)[0].data<float>()[0]));
  }
}

TEST_CASE("a label outside the classes is named with its row") {
  for (const int64_t label : {int64_t{-1}, int64_t{3}}) {
    const OpCase wrong{.op = "SparseSoftmaxCrossEntropy",
                       .label = "",
                       .inputs = {RandomF32({2, 3}, 1), I64({2}, {0, label})},
                       .attrs = {}};
    CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("label " + std::to_string(label)) &&
                                             Contains("row 1") && Contains("3 classes"));
  }
}

TEST_CASE("sampled softmax wants both lists of ids or none") {
  OpCase wrong{.op = "SampledSoftmaxCrossEntropy",
               .label = "",
               .inputs = {RandomF32({2}, 1), RandomF32({2, 3}, 2), I64({2}, {0, 1})},
               .attrs = {}};
  CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("true_ids and negative_ids"));
  wrong.inputs.push_back(I64({4}, {0, 1, 2, 3}));
  CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("3") && Contains("4"));
  wrong.inputs = {RandomF32({3}, 1), RandomF32({2, 3}, 2)};
  CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("rows") && Contains("3 and 2"));
}

TEST_CASE("softmax and its losses refuse what has no last axis or other shapes") {
  CHECK_THAT(
      ErrorOf({.op = "Softmax", .label = "", .inputs = {F32({}, {1})}, .attrs = {}}, AllOps()),
      Contains("wanted rank 1 or more"));
  CHECK_THAT(ErrorOf({.op = "SoftmaxCrossEntropy",
                      .label = "",
                      .inputs = {RandomF32({2, 3}, 1), RandomF32({2, 4}, 2)},
                      .attrs = {}},
                     AllOps()),
             Contains("classes") && Contains("3 and 4"));
  CHECK_THAT(ErrorOf({.op = "SigmoidCrossEntropy",
                      .label = "",
                      .inputs = {RandomF32({2, 3}, 1), RandomF32({3}, 2)},
                      .attrs = {}},
                     AllOps()),
             Contains("wanted rank 2"));
  CHECK_THAT(ErrorOf({.op = "RowDot",
                      .label = "",
                      .inputs = {RandomF32({2, 3}, 1), RandomF32({2, 4}, 2)},
                      .attrs = {}},
                     AllOps()),
             Contains("columns") && Contains("3 and 4"));
}

}  // namespace
}  // namespace coxswain::testing
