// Which ops copy and which share memory, and what random ops and Unique do from run to run.
#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "runtime/graph/builder.h"
#include "tests/ops/op_case.h"
#include "tests/testing/interpreter.h"

namespace coxswain::testing {
namespace {

using Ints = std::vector<int64_t>;

// The outputs of the op on these very tensors; `step` names the run.
std::vector<Tensor> Run(const std::string& op, const std::vector<Tensor>& inputs,
                        const Attrs& attrs, const graph::StepInfo& step = {}) {
  graph::GraphBuilder builder("f", &AllOps());
  std::vector<Output> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    arguments.push_back(
        builder.Argument("x" + std::to_string(i), inputs[i].dtype(), inputs[i].shape()));
  }
  const Output first = builder.Op(op, arguments, attrs);
  REQUIRE(builder.status() == absl::OkStatus());
  for (size_t i = 0; i < builder.graph().node(first.node).outputs.size(); ++i) {
    builder.Result("y" + std::to_string(i), {first.node, static_cast<int>(i)});
  }
  const auto function = builder.Finish();
  REQUIRE(function.ok());
  InterpretOptions options;
  options.step = step;
  auto results = Interpret(*function, inputs, options);
  REQUIRE(results.status() == absl::OkStatus());
  return *std::move(results);
}

// As a number, in bytes.
uintptr_t At(const Tensor& tensor) { return reinterpret_cast<uintptr_t>(tensor.raw()); }

TEST_CASE("parts along the first dimension share the buffer") {
  const Tensor g = RandomF32({5, 4}, 1);
  const auto parts =
      Run("ConcatGrad", {g, RandomF32({2, 4}, 2), RandomF32({3, 4}, 3)}, {{"axis", 0}});
  CHECK(At(parts[0]) == At(g));
  CHECK(At(parts[1]) == At(g) + 2 * 4 * sizeof(float));
  const auto split = Run("Split", {g}, {{"axis", 0}, {"sizes", Ints{4, 1}}});
  CHECK(At(split[1]) == At(g) + 4 * 4 * sizeof(float));
  const auto rows = Run("Slice", {g}, {{"begin", Ints{3, 0}}, {"size", Ints{2, -1}}});
  CHECK(At(rows[0]) == At(g) + 3 * 4 * sizeof(float));
}

TEST_CASE("ops that change only the shape share the buffer") {
  const Tensor x = RandomF32({2, 3}, 1);
  CHECK(At(Run("Reshape", {x}, {{"shape", Shape{6}}})[0]) == At(x));
  CHECK(At(Run("ExpandDims", {x}, {{"axis", 0}})[0]) == At(x));
  CHECK(At(Run("Identity", {x}, {})[0]) == At(x));
  CHECK(At(Run("SumToLike", {x, RandomF32({2, 3}, 2)}, {})[0]) == At(x));
}

TEST_CASE("an owned input is written in place, a shared one is not") {
  graph::GraphBuilder builder("f", &AllOps());
  const Output x = builder.Argument("x", DType::kF32, {64});
  const Output bias = builder.Argument("bias", DType::kF32, {1});
  builder.Result("y",
                 builder.Op("Relu", {builder.Op("Add", {builder.Op("Mul", {x, bias}), bias})}));
  const auto function = builder.Finish();
  REQUIRE(function.ok());
  Tensor owned = RandomF32({64}, 1);
  const uintptr_t memory = At(owned);
  std::vector<Tensor> arguments;
  arguments.push_back(std::move(owned));
  arguments.push_back(F32({1}, {2}));
  auto results = Interpret(*function, std::move(arguments));
  REQUIRE(results.ok());
  CHECK(At((*results)[0]) == memory);

  const Tensor shared = RandomF32({64}, 1);
  const Tensor before = DeepCopy(shared);
  results = Interpret(*function, {shared, F32({1}, {2})});
  REQUIRE(results.ok());
  CHECK(At((*results)[0]) != At(shared));
  CHECK(std::memcmp(shared.raw(), before.raw(), shared.bytes()) == 0);
}

TEST_CASE(
    "random ops draw the same for the same step and seeds, whatever the closure's id, and else "
    "anew") {
  for (const char* op : {"RandomUniform", "RandomNormal", "RandomInt"}) {
    INFO(op);
    const auto draw = [&](const graph::StepInfo& step, int seed) {
      Attrs attrs = {{"shape", Shape{64}}, {"seed", seed}};
      if (std::string(op) == "RandomInt") attrs["high"] = 1000000;
      return Run(op, {}, attrs, step)[0];
    };
    const auto same = [](const Tensor& a, const Tensor& b) {
      return std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
    };
    const graph::StepInfo step{.session = 1, .closure = 7, .step = 2, .seed = 9};
    const Tensor first = draw(step, 5);
    CHECK(same(first, draw(step, 5)));
    CHECK(same(first, draw({.session = 2, .closure = 7, .step = 2, .seed = 9}, 5)));
    CHECK(same(first, draw({.session = 1, .closure = 8, .step = 2, .seed = 9}, 5)));
    CHECK_FALSE(same(first, draw({.session = 1, .closure = 7, .step = 3, .seed = 9}, 5)));
    CHECK_FALSE(same(first, draw({.session = 1, .closure = 7, .step = 2, .seed = 8}, 5)));
    CHECK_FALSE(same(first, draw(step, 6)));
  }
}

TEST_CASE("unique ids and their inverse give back the ids, also after a larger call") {
  for (const int64_t n : {100000, 90000, 5, 70000, 1, 3000, 2999}) {
    Tensor ids(DType::kI64, {n});
    uint64_t state = static_cast<uint64_t>(n);
    for (int64_t i = 0; i < n; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      ids.mutable_data<int64_t>()[i] = static_cast<int64_t>(state >> 33) % (n / 2 + 1);
    }
    const auto out = Run("Unique", {ids}, {});
    std::vector<bool> seen(static_cast<size_t>(n / 2 + 1), false);
    for (int64_t value : out[0].values<int64_t>()) {
      CHECK_FALSE(seen[value]);
      seen[value] = true;
    }
    int64_t wrong = 0, next = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int32_t place = out[1].data<int32_t>()[i];
      wrong += out[0].data<int64_t>()[place] != ids.data<int64_t>()[i] || place > next;
      next += place == next;
    }
    CHECK(wrong == 0);
    CHECK(next == out[0].num_elements());
  }
}

}  // namespace
}  // namespace coxswain::testing
