// Products with a shard, on a map of shards in place of a PS.
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "kernels/compute.h"
#include "runtime/graph/builder.h"
#include "tests/ops/op_case.h"
#include "tests/testing/fake_shards.h"

namespace coxswain::testing {
namespace {

using Catch::Contains;

// f32: 3 is [2,3], 4 is [20,17], 5 has no rows of 3. f64: 6 is [4,3].
std::map<ShardId, Tensor> Values() {
  return {{3, F32({2, 3}, {7, 9, 11, 8, 10, 12})},
          {4, RandomF32({20, 17}, 4)},
          {5, F32({0, 3}, {})},
          {6, F64({4, 3}, {0.5, -1, 2, 3, 0.25, -0.75, 1, 1.5, -2, 0, 4, 0.125})}};
}

FakeShards* SharedShards() {
  static FakeShards* const shards = [] {
    auto* made = new FakeShards;
    made->values = Values();
    return made;
  }();
  return shards;
}

Attrs On(int shard, Shape shape, bool transpose = false) {
  return {{"shard", shard},
          {"variable", "w"},
          {"dtype", shard == 6 ? DType::kF64 : DType::kF32},
          {"shape", std::move(shape)},
          {"transpose_b", transpose}};
}

// loss = sum(p * (x W)), or with W', and, if `read`, + sum(q * W) for W read whole.
struct LossOfShard {
  bool transpose = false, read = false;
  Tensor x, p, q;

  // Adds what updates the shard; results: the loss.
  Function Build() const {
    GraphBuilder b("loss", &AllOps());
    const Attrs attrs = On(6, {4, 3}, transpose);
    const Output in = b.Argument("x", DType::kF64, x.shape());
    const Output product = b.Op("MatMulShard", {in}, attrs);
    Output loss = b.Op("ReduceSum", {b.Op("Mul", {product, b.Constant(p)})});
    std::vector<Output> xs = {product};
    if (read) {
      xs.push_back(b.Op("ReadVariable", {}, attrs));
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

double Run(const Function& function, const Tensor& x, FakeShards* shards) {
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
      const Function function = loss.Build();
      FakeShards shards;
      shards.values = Values();
      Run(function, loss.x, &shards);
      REQUIRE(shards.staged.size() == 1);
      const Update staged = shards.staged[0];
      CHECK(staged.kind == Update::Kind::kDense);
      CHECK(staged.shard == 6);
      REQUIRE(staged.values.shape() == Shape{4, 3});
      constexpr double kStep = 1e-5;
      for (int64_t i = 0; i < 12; ++i) {
        double at[2];
        for (const int side : {0, 1}) {
          shards.values = Values();
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
  shards.values = Values();
  GraphBuilder b("f", &AllOps());
  Attrs attrs = On(3, {2, 3});
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

TEST_CASE("products that do not fit their shard are refused, by name") {
  const auto variables = [] { return SharedShards(); };
  OpCase product{.op = "MatMulShard",
                 .inputs = {RandomF32({5, 2}, 1)},
                 .attrs = On(3, {2, 3}),
                 .variables = variables};
  CHECK(ErrorOf(product, AllOps()) == "");
  product.attrs = On(3, {2, 3}, true);
  CHECK_THAT(ErrorOf(product, AllOps()), Contains("[5,2] and [2,3]'"));
  product.attrs = On(3, {2, 4});  // what the plan says is not what the PS has
  CHECK_THAT(ErrorOf(product, AllOps()),
             Contains("'w', shard 3") && Contains("[2,4]") && Contains("[2,3]"));
  product.attrs = On(3, {6});
  CHECK_THAT(ErrorOf(product, AllOps()), Contains("wanted a matrix, found [6]"));
  product.attrs = On(9, {2, 3});
  CHECK_THAT(ErrorOf(product, AllOps()), Contains("'w', shard 9"));
  product.attrs = On(6, {4, 3});
  CHECK_THAT(ErrorOf(product, AllOps()), Contains("dtype") && Contains("f64"));
  product.attrs = On(3, {2, 3});
  product.attrs["compute"] = "fp8";
  CHECK_THAT(ErrorOf(product, AllOps()), Contains("'fp8'"));
  product.variables = nullptr;
  product.attrs = On(3, {2, 3});
  CHECK_THAT(ErrorOf(product, AllOps()), Contains("holds no variables"));

  OpCase update{.op = "ApplyMatMul",
                .inputs = {RandomF32({5, 2}, 1), RandomF32({5, 3}, 2), RandomF32({2, 3}, 3)},
                .attrs = On(3, {2, 3}),
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
  GraphBuilder b("f", &AllOps());
  const Output x = b.Argument("x", DType::kF32, {kUnknownDim, 20});
  const Output y = b.Op("MatMulShard", {x}, On(4, {20, 17}));
  const std::vector<Output> g = b.Gradients({y}, {y, x});
  b.Target("ApplyMatMul", {x, g[0]}, On(4, {20, 17}));
  b.Result("dx", g[1]);
  auto function = b.Finish();
  REQUIRE(function.ok());
  SetCompute(ComputeType::kBf16, &function->graph);
  int products = 0;
  for (const Node& node : function->graph.nodes()) {
    if (node.op != "MatMulShard" && node.op != "ApplyMatMul") continue;
    ++products;
    CHECK(AttrOr<std::string>(node.attrs, kComputeAttr, "") == "bf16");
  }
  CHECK(products == 3);
}

}  // namespace

void AddShardMatMulCases(std::vector<OpCase>* cases) {
  const auto variables = [] { return SharedShards(); };
  const Tensor a = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  cases->push_back({.op = "MatMulShard",
                    .label = "x W'",
                    .inputs = {a},
                    .attrs = On(3, {2, 3}, true),
                    .differentiate = {0},
                    .expected = {F32({2, 2}, {58, 64, 139, 154})},
                    .variables = variables});
  cases->push_back({.op = "MatMulShard",
                    .label = "x W",
                    .inputs = {F32({1, 2}, {1, -1})},
                    .attrs = On(3, {2, 3}),
                    .differentiate = {0},
                    .expected = {F32({1, 3}, {-1, -1, -1})},
                    .variables = variables});
  for (const bool transpose : {false, true}) {
    cases->push_back({.op = "MatMulShard",
                      .label = absl::StrCat("of odd sizes", transpose ? ", x W'" : ", x W"),
                      .inputs = {RandomF32(transpose ? Shape{5, 17} : Shape{5, 20}, 1)},
                      .attrs = On(4, {20, 17}, transpose),
                      .differentiate = {0},
                      .variables = variables});
    cases->push_back({.op = "MatMulShard",
                      .label = absl::StrCat("in f64", transpose ? ", x W'" : ", x W"),
                      .inputs = {F64(transpose ? Shape{2, 3} : Shape{2, 4},
                                     std::vector<double>(transpose ? 6 : 8, 0.75))},
                      .attrs = On(6, {4, 3}, transpose),
                      .differentiate = {0},
                      .variables = variables});
  }
  cases->push_back({.op = "MatMulShard",
                    .label = "a shard without rows",
                    .inputs = {a},
                    .attrs = On(5, {0, 3}, true),
                    .expected = {F32({2, 0}, {})},
                    .variables = variables});
  cases->push_back({.op = "MatMulShard",
                    .label = "no examples",
                    .inputs = {F32({0, 2}, {})},
                    .attrs = On(3, {2, 3}),
                    .expected = {F32({0, 3}, {})},
                    .variables = variables});
  cases->push_back({.op = "ApplyMatMul",
                    .label = "a product",
                    .inputs = {RandomF32({5, 2}, 1), RandomF32({5, 3}, 2)},
                    .attrs = On(3, {2, 3}),
                    .variables = variables});
}

}  // namespace coxswain::testing
