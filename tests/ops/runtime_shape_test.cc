// Shapes that inference could not know are checked in the run, with errors like those of inference.
#include <catch2/catch.hpp>

#include "runtime/graph/builder.h"
#include "tests/ops/op_case.h"
#include "tests/testing/interpreter.h"

namespace coxswain::testing {
namespace {

using Catch::Contains;

// The error of running the op on arguments whose dimensions inference does not know.
std::string RunError(const std::string& op, std::vector<Tensor> inputs, const Attrs& attrs = {}) {
  graph::GraphBuilder builder("f", &AllOps());
  std::vector<Output> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Shape unknown = inputs[i].shape();
    for (int d = 0; d < unknown.rank(); ++d) unknown.set_dim(d, kUnknownDim);
    arguments.push_back(builder.Argument("x" + std::to_string(i), inputs[i].dtype(), unknown));
  }
  builder.Result("y", builder.Op(op, arguments, attrs, "it"));
  const auto function = builder.Finish();
  REQUIRE(function.ok());
  const auto results = Interpret(*function, std::move(inputs));
  REQUIRE(!results.ok());
  CHECK_THAT(std::string(results.status().message()), Contains("node 'it' (" + op + ")"));
  return std::string(results.status().message());
}

TEST_CASE("shapes that do not meet in a run are named") {
  const Tensor three = F32({3}, {1, 2, 3}), two = F32({2}, {1, 2});
  const Tensor matrix = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK_THAT(RunError("Add", {three, two}), Contains("[3]") && Contains("[2]"));
  CHECK_THAT(RunError("AddN", {three, two}), Contains("f32[3]") && Contains("f32[2]"));
  CHECK_THAT(RunError("ReluGrad", {three, two}), Contains("f32[3]") && Contains("f32[2]"));
  CHECK_THAT(RunError("Select", {Bools({2}, {1, 0}), three, three}),
             Contains("wanted shape [3], found [2]"));
  CHECK_THAT(RunError("SumToLike", {three, two}), Contains("[3]") && Contains("[2]"));
  CHECK_THAT(RunError("BroadcastLike", {three, two}), Contains("[3]") && Contains("[2]"));
  CHECK_THAT(RunError("Reshape", {three}, {{"shape", Shape{2, -1}}}),
             Contains("[3] of 3 elements") && Contains("[2,?]"));
  CHECK_THAT(RunError("ReshapeLike", {three, two}), Contains("[3]") && Contains("[2]"));
  CHECK_THAT(RunError("Squeeze", {three}, {{"axis", 0}}), Contains("wanted size 1"));
  CHECK_THAT(RunError("Concat", {matrix, F32({1, 2}, {1, 2})}, {{"axis", 0}}),
             Contains("[2,3]") && Contains("[1,2]"));
  CHECK_THAT(RunError("Split", {three}, {{"axis", 0}, {"sizes", std::vector<int64_t>{1, 1}}}),
             Contains("wanted parts of 3") && Contains("found 2"));
  CHECK_THAT(RunError("TopK", {three}, {{"k", 4}}), Contains("[3]") && Contains("found 4"));
  CHECK_THAT(RunError("ReduceGrad", {three, matrix}, {{"axes", std::vector<int64_t>{1}}}),
             Contains("wanted shape [2], found [3]"));
  CHECK_THAT(RunError("SegmentSumLike", {matrix, I64({1}, {0}), matrix}),
             Contains("wanted shape [1,3], found [2,3]"));
}

TEST_CASE("an out of range block is named in the run") {
  const std::vector<int64_t> begin = {2}, size = {2};
  CHECK_THAT(RunError("Slice", {F32({3}, {1, 2, 3})}, {{"begin", begin}, {"size", size}}),
             Contains("from 2 of size 2"));
}

}  // namespace
}  // namespace coxswain::testing
