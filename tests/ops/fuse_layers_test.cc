// The pass that fuses the backward nodes of dense layers.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/compute.h"
#include "kernels/fuse_layers.h"
#include "runtime/graph/builder.h"
#include "tests/ops/op_case.h"
#include "tests/ops/op_run.h"

namespace coxswain::testing {
namespace {

// Layers of these widths on x, their loss and all gradients.
absl::StatusOr<graph::Function> Layers(const std::vector<int64_t>& widths, bool relu = true) {
  graph::GraphBuilder builder("layers", &AllOps());
  std::vector<Output> leaves = {builder.Constant(RandomF32({90, 11}, 1))};
  Output x = leaves[0];
  int64_t inputs = 11;
  for (size_t i = 0; i < widths.size(); ++i) {
    const uint64_t seed = 10 * (i + 1);
    leaves.push_back(builder.Constant(RandomF32({inputs, widths[i]}, seed)));
    leaves.push_back(builder.Constant(RandomF32({widths[i]}, seed + 1)));
    const bool last = i + 1 == widths.size();
    x = builder.Op("FusedDense", {x, leaves[leaves.size() - 2], leaves.back()},
                   {{"activation", relu && !last ? "relu" : ""}});
    inputs = widths[i];
  }
  const Output loss = builder.Op("ReduceSum", {builder.Op("Square", {x})});
  builder.Result("loss", loss);
  int results = 0;
  for (const Output g : builder.Gradients({loss}, leaves)) {
    builder.Result(absl::StrCat("gradient ", results++), g);
  }
  return builder.Finish();
}

std::map<std::string, int> CountOps(const graph::Function& function) {
  std::map<std::string, int> count;
  for (const graph::Node& node : function.graph.nodes()) ++count[node.op];
  return count;
}

void CheckSameResults(const graph::Function& a, const graph::Function& b) {
  const auto wanted = Interpret(a, {}), found = Interpret(b, {});
  REQUIRE(wanted.ok());
  REQUIRE(found.ok());
  REQUIRE(found->size() == wanted->size());
  for (size_t i = 0; i < wanted->size(); ++i) {
    INFO(a.results[i].name);
    CHECK(a.results[i].name == b.results[i].name);
    Problems problems;
    CompareValues("result", (*found)[i], (*wanted)[i], 1e-4, &problems);
    CHECK(problems.empty());
  }
}

TEST_CASE("each hidden layer's masked product and its bias gradient become one node") {
  const auto plain = Layers({20, 13, 1});
  REQUIRE(plain.ok());
  const graph::Function fused = kernels::FuseLayers(*plain);
  auto before = CountOps(*plain), after = CountOps(fused);
  CHECK(before["ReluGrad"] == 2);
  CHECK(after["ReluGrad"] == 0);
  CHECK(after["DenseInputGrad"] == 2);
  CHECK(after["MatMul"] == before["MatMul"] - 2);
  CHECK(after["ReduceSum"] == before["ReduceSum"] - 2);
  CheckSameResults(*plain, fused);
}

TEST_CASE("products are computed as they were asked to be when they are fused") {
  auto plain = Layers({20, 17, 16});
  REQUIRE(plain.ok());
  kernels::SetCompute(ComputeType::kBf16, true, &plain->graph);
  const graph::Function fused = kernels::FuseLayers(*plain);
  int found = 0;
  for (const graph::Node& node : fused.graph.nodes()) {
    if (node.op != "DenseInputGrad") continue;
    ++found;
    CHECK(graph::AttrOr<std::string>(node.attrs, kernels::kComputeAttr, "") == "bf16");
    CHECK(graph::AttrOr<bool>(node.attrs, kernels::kSameOnAnyThreadsAttr, false));
  }
  CHECK(found == 2);
}

TEST_CASE("a function without such layers stays as it is") {
  const auto plain = Layers({20, 13, 1}, /*relu=*/false);
  REQUIRE(plain.ok());
  const graph::Function same = kernels::FuseLayers(*plain);
  REQUIRE(same.graph.size() == plain->graph.size());
  for (int id = 0; id < same.graph.size(); ++id) {
    CHECK(same.graph.node(id).op == plain->graph.node(id).op);
    CHECK(same.graph.node(id).inputs == plain->graph.node(id).inputs);
  }
}

TEST_CASE("a product that something else uses too, or a result, is left alone") {
  for (const bool as_result : {false, true}) {
    graph::GraphBuilder builder("f", &AllOps());
    const Output g = builder.Constant(RandomF32({6, 3}, 1));
    const Output w = builder.Constant(RandomF32({4, 3}, 2));
    const Output y = builder.Constant(RandomF32({6, 4}, 3));
    const Output product = builder.Op("MatMul", {g, w}, {{"transpose_b", true}});
    builder.Result("masked", builder.Op("ReluGrad", {product, y}));
    builder.Result("other", as_result ? product : builder.Op("Neg", {product}));
    const auto function = builder.Finish();
    REQUIRE(function.ok());
    CHECK(CountOps(kernels::FuseLayers(*function))["DenseInputGrad"] == 0);
  }
}

}  // namespace
}  // namespace coxswain::testing
