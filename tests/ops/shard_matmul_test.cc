// Products with a shard, on a map of shards in place of a PS.
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "kernels/compute.h"
#include "runtime/base/not_finite.h"
#include "runtime/graph/builder.h"
#include "tests/ops/matrix_shards.h"
#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

using Catch::Contains;

// loss = sum(p * (x W)), or with W', and, if `read`, + sum(q * W) for W read whole.
struct LossOfShard {
  bool transpose = false, read = false;
  Tensor x, p, q;

  // Adds what updates the shard; results: the loss.
  graph::Function Build() const {
    graph::GraphBuilder b("loss", &AllOps());
    const Attrs attrs = OnMatrix(6, {4, 3}, transpose);
    const Output in = b.Argument("x", DType::kF64, x.shape());
    const Output product = b.Op("MatMulShard", {in}, attrs);
    Output loss = b.Op("ReduceSum", {b.Op("Mul", {product, b.Constant(p)})});
    std::vector<Output> xs = {product};
    if (read) {
      Attrs whole = attrs;
      whole.erase("transpose_b");
      xs.push_back(b.Op("ReadVariable", {}, whole));
      loss = b.Op("Add", {loss, b.Op("ReduceSum", {b.Op("Mul", {xs[1], b.Constant(q)})})});
    }
    const std::vector<Output> g = b.Gradients({loss}, xs);
    std::vector<Output> inputs = {transpose ? g[0] : in, transpose ? in : g[0]};
    if (read) inputs.push_back(g[1]);
    b.Target("ApplyMatMul", inputs, attrs);
    b.Result("loss", loss);
    auto function = b.Finish();
    INFO(function.status().message());
    REQUIRE(function.ok());
    return *std::move(function);
  }
};

double Run(const graph::Function& function, const Tensor& x, FakeShards* shards) {
  InterpretOptions options;
  options.variables = shards;
  const auto results = Interpret(function, {DeepCopy(x)}, options);
  INFO(results.status().message());
  REQUIRE(results.ok());
  return (*results)[0].data<double>()[0];
}

Tensor Wide(Shape shape, uint64_t seed) {
  const Tensor narrow = RandomF32(shape, seed);
  return F64(shape, {narrow.values<float>().begin(), narrow.values<float>().end()});
}

TEST_CASE("the gradient that a product stages for its shard agrees with central differences") {
  for (const bool transpose : {false, true}) {
    for (const bool read : {false, true}) {
      CAPTURE(transpose, read);
      const Shape x = transpose ? Shape{5, 3} : Shape{5, 4};
      const Shape y = transpose ? Shape{5, 4} : Shape{5, 3};
      const LossOfShard loss{transpose, read, Wide(x, 1), Wide(y, 2), Wide({4, 3}, 3)};
      const graph::Function function = loss.Build();
      FakeShards shards;
      shards.values = MatrixShards();
      Run(function, loss.x, &shards);
      REQUIRE(shards.staged.size() == 1);
      const graph::Update staged = shards.staged[0];
      CHECK(staged.kind == graph::Update::Kind::kDense);
      CHECK(staged.shard == 6);
      REQUIRE(staged.values.shape() == Shape{4, 3});
      constexpr double kStep = 1e-5;
      for (int64_t i = 0; i < 12; ++i) {
        double at[2];
        for (const int side : {0, 1}) {
          shards.values = MatrixShards();
          shards.values[6].mutable_data<double>()[i] += side == 0 ? -kStep : kStep;
          at[side] = Run(function, loss.x, &shards);
        }
        CHECK(staged.values.data<double>()[i] ==
              Approx((at[1] - at[0]) / (2 * kStep)).epsilon(1e-7).margin(1e-7));
      }
    }
  }
}

TEST_CASE("an update by a product carries its number") {
  FakeShards shards;
  shards.values = MatrixShards();
  graph::GraphBuilder b("f", &AllOps());
  Attrs attrs = OnMatrix(3, {2, 3});
  attrs["update"] = 7;
  b.Target("ApplyMatMul",
           {b.Argument("a", DType::kF32, {5, 2}), b.Argument("b", DType::kF32, {5, 3})}, attrs);
  const auto function = b.Finish();
  REQUIRE(function.ok());
  InterpretOptions options;
  options.variables = &shards;
  REQUIRE(Interpret(*function, {RandomF32({5, 2}, 1), RandomF32({5, 3}, 2)}, options).ok());
  REQUIRE(shards.staged.size() == 1);
  CHECK(shards.staged[0].key == 7);
}

TEST_CASE("a product that overflows is no update") {
  FakeShards shards;
  shards.values = MatrixShards();
  graph::GraphBuilder b("f", &AllOps());
  b.Target("ApplyMatMul",
           {b.Argument("a", DType::kF32, {5, 2}), b.Argument("b", DType::kF32, {5, 3})},
           OnMatrix(3, {2, 3}));
  const auto function = b.Finish();
  REQUIRE(function.ok());
  InterpretOptions options;
  options.variables = &shards;
  const Tensor large = RandomF32({5, 3}, 2, 1e30f, 2e30f);
  const absl::Status status =
      Interpret(*function, {RandomF32({5, 2}, 1, 1e30f, 2e30f), large}, options).status();
  CHECK_THAT(std::string(status.message()),
             Contains("the gradient of variable 'w' is infinite; it is not applied"));
  REQUIRE(GetNotFinite(status).has_value());
  CHECK(GetNotFinite(status)->variable == "w");
  CHECK(shards.staged.empty());
}

TEST_CASE("products that do not fit their shard are refused, by name") {
  const auto variables = [] { return SharedMatrices(); };
  OpCase product{.op = "MatMulShard",
                 .inputs = {RandomF32({5, 2}, 1)},
                 .attrs = OnMatrix(3, {2, 3}),
                 .variables = variables};
  CHECK(ErrorOf(product, AllOps()) == "");
  product.attrs = OnMatrix(3, {2, 3}, true);
  CHECK_THAT(ErrorOf(product, AllOps()), Contains("[5,2] and [2,3]'"));
  product.attrs = OnMatrix(3, {2, 4});  // what the plan says is not what the PS has
  CHECK_THAT(ErrorOf(product, AllOps()),
             Contains("'w', shard 3") && Contains("[2,4]") && Contains("[2,3]"));
  product.attrs = OnMatrix(3, {6});
  CHECK_THAT(ErrorOf(product, AllOps()), Contains("wanted a matrix, found [6]"));
  product.attrs = OnMatrix(9, {2, 3});
  CHECK_THAT(ErrorOf(product, AllOps()), Contains("'w', shard 9"));
  product.attrs = OnMatrix(6, {4, 3});
  CHECK_THAT(ErrorOf(product, AllOps()), Contains("dtype") && Contains("f64"));
  product.attrs = OnMatrix(3, {2, 3});
  product.attrs["compute"] = "fp8";
  CHECK_THAT(ErrorOf(product, AllOps()), Contains("'fp8'"));
  product.variables = nullptr;
  product.attrs = OnMatrix(3, {2, 3});
  CHECK_THAT(ErrorOf(product, AllOps()), Contains("holds no variables"));

  OpCase update{.op = "ApplyMatMul",
                .inputs = {RandomF32({5, 2}, 1), RandomF32({5, 3}, 2), RandomF32({2, 3}, 3)},
                .attrs = OnMatrix(3, {2, 3}),
                .variables = variables};
  CHECK(ErrorOf(update, AllOps()) == "");
  for (const auto& [input, shape] : {std::pair{0, Shape{4, 2}}, std::pair{0, Shape{5, 3}},
                                     std::pair{1, Shape{5, 2}}, std::pair{2, Shape{3, 2}}}) {
    OpCase wrong = update;
    wrong.inputs[static_cast<size_t>(input)] = RandomF32(shape, 4);
    CHECK_THAT(ErrorOf(wrong, AllOps()), Contains("wanted"));
  }
}

TEST_CASE("SetCompute reaches products with shards, those of their gradients included") {
  graph::GraphBuilder b("f", &AllOps());
  const Output x = b.Argument("x", DType::kF32, {kUnknownDim, 20});
  const Output y = b.Op("MatMulShard", {x}, OnMatrix(4, {20, 17}));
  const std::vector<Output> g = b.Gradients({y}, {y, x});
  b.Target("ApplyMatMul", {x, g[0]}, OnMatrix(4, {20, 17}));
  b.Result("dx", g[1]);
  auto function = b.Finish();
  REQUIRE(function.ok());
  kernels::SetCompute(ComputeType::kBf16, true, &function->graph);
  int products = 0;
  for (const graph::Node& node : function->graph.nodes()) {
    if (node.op != "MatMulShard" && node.op != "ApplyMatMul") continue;
    ++products;
    CHECK(graph::AttrOr<std::string>(node.attrs, kernels::kComputeAttr, "") == "bf16");
    CHECK(graph::AttrOr<bool>(node.attrs, kernels::kSameOnAnyThreadsAttr, false));
  }
  CHECK(products == 3);
}

}  // namespace
}  // namespace coxswain::testing
