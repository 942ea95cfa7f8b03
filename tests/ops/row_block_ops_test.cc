// The ops on rows of a block: updates against formulas in double precision, and wrong uses.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "runtime/graph/kernel.h"
#include "tests/ops/op_case.h"
#include "tests/ops/op_run.h"

namespace coxswain::testing {
namespace {

using Catch::Contains;
using Doubles = std::vector<double>;

constexpr int64_t kRows = 6, kColumns = 120, kWidth = 37;
const std::vector<int64_t> kPlaces = {4, 0, 5};

OpCase Apply(const std::string& kind, const std::vector<float>& rule) {
  return {.op = "BlockApply",
          .inputs = {RandomF32({kRows, kColumns}, 1, 0.1f), I64({3}, kPlaces),
                     RandomF32({3, kWidth}, 2), F32({static_cast<int64_t>(rule.size())}, rule)},
          .attrs = {{"kind", kind}}};
}

// Compares with what `update` makes of the rows of kPlaces, given each with its gradient.
void CheckApply(const OpCase& op_case,
                const std::function<void(const float* g, Doubles* row)>& update) {
  const auto outputs = RunOp(op_case, AllOps());
  REQUIRE(outputs.ok());
  const Tensor& before = op_case.inputs[0];
  Tensor wanted(DType::kF64, before.shape());
  for (int64_t i = 0; i < before.num_elements(); ++i) SetValue(&wanted, i, ValueAt(before, i));
  for (size_t i = 0; i < kPlaces.size(); ++i) {
    double* const at = wanted.mutable_data<double>() + kPlaces[i] * kColumns;
    Doubles row(at, at + kColumns);
    update(op_case.inputs[2].data<float>() + static_cast<int64_t>(i) * kWidth, &row);
    std::copy(row.begin(), row.end(), at);
  }
  Problems problems;
  CompareValues("the block", (*outputs)[0], wanted, 1e-6, &problems);
  CHECK(problems == Problems{});
}

TEST_CASE("a block's rows are updated by adagrad") {
  const double lr = 0.1f, l2 = 0.01f, eps = 1e-7f;
  CheckApply(Apply("adagrad", {0.1f, 0.01f, 1e-7f}), [&](const float* gradient, Doubles* row) {
    for (size_t e = 0; e < kWidth; ++e) {
      double &w = (*row)[e], &a = (*row)[kWidth + e];
      const double g = gradient[e] + l2 * w;
      a += g * g;
      w -= lr * g / (std::sqrt(a) + eps);
    }
  });
}

TEST_CASE("a block's rows are updated by rowwise adagrad, with a slot for a row") {
  const double lr = 0.1f, l2 = 0.01f, eps = 1e-7f;
  CheckApply(Apply("rowwise_adagrad", {0.1f, 0.01f, 1e-7f}),
             [&](const float* gradient, Doubles* row) {
               double sum = 0;
               for (size_t e = 0; e < kWidth; ++e) {
                 sum += std::pow(gradient[e] + l2 * (*row)[e], 2);
               }
               double& a = (*row)[kWidth];
               a += sum / kWidth;
               for (size_t e = 0; e < kWidth; ++e) {
                 double& w = (*row)[e];
                 w -= lr / (std::sqrt(a) + eps) * (gradient[e] + l2 * w);
               }
             });
}

TEST_CASE("a block's rows are updated by lazy adam") {
  const double lr = 0.05f, l2 = 0.01f, b1 = 0.9f, b2 = 0.999f, c1 = 0.1f, c2 = 0.001f, eps = 1e-8f;
  CheckApply(Apply("lazy_adam", {0.05f, 0.01f, 0.9f, 0.999f, 0.1f, 0.001f, 1e-8f}),
             [&](const float* gradient, Doubles* row) {
               for (size_t e = 0; e < kWidth; ++e) {
                 double &w = (*row)[e], &m = (*row)[kWidth + e], &v = (*row)[2 * kWidth + e];
                 const double g = gradient[e] + l2 * w;
                 m = b1 * m + c1 * g;
                 v = b2 * v + c2 * g * g;
                 w -= lr * m / (std::sqrt(v) + eps);
               }
             });
}

TEST_CASE("a block that only the run owns is changed in place") {
  const OpCase op_case = Apply("adagrad", {0.1f, 0.01f, 1e-7f});
  std::vector<Tensor> inputs = Copies(op_case.inputs);
  const void* const block = inputs[0].raw();
  const auto outputs = RunForward(op_case, AllOps(), true, std::move(inputs));
  REQUIRE(outputs.ok());
  CHECK((*outputs)[0].raw() == block);
}

TEST_CASE("a place outside of a block is named") {
  const Tensor block = RandomF32({4, 6}, 1), row = RandomF32({1, 2}, 2);
  const auto check = [&](OpCase op_case, int64_t place) {
    op_case.inputs[1] = I64({1}, {place});
    INFO(op_case.op);
    CHECK_THAT(ErrorOf(op_case, AllOps()),
               Contains("index " + std::to_string(place) + " at position 0 is out of range") &&
                   Contains("rows 4"));
  };
  for (const int64_t place : {int64_t{4}, int64_t{-1}, int64_t{1} << 40}) {
    check(
        {.op = "BlockGather", .inputs = {block, Tensor()}, .attrs = {{"offset", 0}, {"width", 2}}},
        place);
    check({.op = "BlockScatter", .inputs = {block, Tensor(), row}, .attrs = {{"offset", 0}}},
          place);
    check({.op = "BlockApply",
           .inputs = {block, Tensor(), row, F32({2}, {1, 0})},
           .attrs = {{"kind", "sgd"}}},
          place);
  }
}

TEST_CASE("an optimizer that moves all rows, and one that there is not, have no rule for a block") {
  for (const char* kind : {"adam", "adamant", ""}) {
    INFO(kind);
    graph::Node node;
    node.op = "BlockApply";
    node.attrs = {{"kind", kind}};
    CHECK(AllOps().CreateKernel(node).status().code() == absl::StatusCode::kInvalidArgument);
  }
  CHECK_THAT(ErrorOf(Apply("adam", std::vector<float>(7)), AllOps()),
             Contains("moves only the rows") && Contains("adam"));
  CHECK_THAT(ErrorOf(Apply("adamant", {1}), AllOps()),
             Contains("'adamant'") && Contains("sgd, momentum, adagrad") && Contains("ftrl"));
}

TEST_CASE("columns that a block does not have are refused, when the graph is built and in a run") {
  const auto check = [](const OpCase& op_case, const std::string& says) {
    INFO(op_case.op);
    CHECK_THAT(ErrorOf(op_case, AllOps()), Contains(says));
    const auto run = RunForward(op_case, AllOps(), false, Copies(op_case.inputs));
    CHECK_THAT(std::string(run.status().message()), Contains(says));
  };
  const Tensor block = RandomF32({4, 6}, 1), places = I64({1}, {2}), row = RandomF32({1, 3}, 2);
  const auto gather = [&](int64_t offset, int64_t width) {
    return OpCase{.op = "BlockGather",
                  .inputs = {block, places},
                  .attrs = {{"offset", offset}, {"width", width}}};
  };
  check(gather(4, 3), "wanted at least 7 columns, found [4,6]");
  check(gather(-1, 3), "attribute 'offset': wanted 0 to 2^40, found -1");
  check(gather(0, -3), "attribute 'width': wanted 0 to 2^40, found -3");
  check({.op = "BlockScatter", .inputs = {block, places, row}, .attrs = {{"offset", 4}}},
        "wanted at least 7 columns, found [4,6]");
  const auto apply = [&](const char* kind, const std::vector<float>& rule) {
    return OpCase{.op = "BlockApply",
                  .inputs = {block, places, row, F32({static_cast<int64_t>(rule.size())}, rule)},
                  .attrs = {{"kind", kind}}};
  };
  check(apply("lazy_adam", std::vector<float>(7)), "wanted at least 9 columns, found [4,6]");
  check(apply("adagrad", std::vector<float>(2)), "numbers of the rule");
  CHECK(ErrorOf(apply("adagrad", std::vector<float>(3)), AllOps()) == "");
  CHECK(ErrorOf(apply("rowwise_adagrad", std::vector<float>(3)), AllOps()) == "");
}

}  // namespace
}  // namespace coxswain::testing
