#include "ps_server/optimizer.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/optimizers/optimizer_info.h"
#include "kernels/optimizers/optimizer_list.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/reference_optimizer.h"

namespace coxswain::ps {
namespace {

using testing::Element;
using testing::OptimizerOf;
using testing::RandomFloats;
using testing::ReferenceStep;

// One row whose parts lie anywhere.
template <typename T>
RowBlock RowOf(std::vector<std::vector<T>*> parts) {
  RowBlock block;
  for (size_t p = 0; p < parts.size(); ++p) {
    block.parts[p] = {reinterpret_cast<char*>(parts[p]->data()), 0};
  }
  block.weights = DTypeOf<T>::value;
  block.width = static_cast<int64_t>(parts[0]->size());
  return block;
}

bool HasParameter(const kernels::OptimizerInfo& info, absl::string_view name) {
  return std::any_of(info.parameters.begin(), info.parameters.end(),
                     [&](const auto& parameter) { return parameter.name == name; });
}

std::vector<proto::OptimizerSpec> AllSpecs() {
  std::vector<proto::OptimizerSpec> specs;
  for (const kernels::OptimizerInfo& info : kernels::AllOptimizers()) {
    // Not of elements: ps_rowwise_adagrad has it.
    if (Optimizer::Create(OptimizerOf(info.kind))->slots_per_row()) continue;
    specs.push_back(OptimizerOf(info.kind, 0.05));
    specs.push_back(OptimizerOf(info.kind, 0.2));
    if (HasParameter(info, "l2")) kernels::SetParameter("l2", 0.03, &specs.back());
  }
  specs.push_back(OptimizerOf("momentum"));
  kernels::SetParameter("momentum", 0.7, &specs.back());
  kernels::SetParameter("nesterov", 1, &specs.back());
  specs.push_back(OptimizerOf("adagrad"));
  kernels::SetParameter("initial_accumulator", 2, &specs.back());
  kernels::SetParameter("epsilon", 1e-3, &specs.back());
  specs.push_back(OptimizerOf("adam"));
  kernels::SetParameter("beta1", 0.5, &specs.back());
  kernels::SetParameter("beta2", 0.9, &specs.back());
  kernels::SetParameter("epsilon", 0.01, &specs.back());
  specs.push_back(OptimizerOf("ftrl"));
  kernels::SetParameter("l1", 0.5, &specs.back());
  specs.push_back(OptimizerOf("ftrl"));
  kernels::SetParameter("learning_rate_power", -0.7, &specs.back());
  kernels::SetParameter("l1", 0.2, &specs.back());
  kernels::SetParameter("l2", 0.1, &specs.back());
  return specs;
}

// Rows of weights and slots in the interleaved layout of tables, beside their reference.
template <typename T>
struct Fixture {
  Fixture(const Optimizer& optimizer, int64_t rows, int64_t width)
      : stride(width * (1 + optimizer.slots()) + 5), width(width) {
    memory.assign(static_cast<size_t>(rows * stride), T{-77});
    reference.resize(static_cast<size_t>(rows * width));
    const std::vector<float> initial = RandomFloats(rows * width, 3);
    for (int64_t i = 0; i < rows * width; ++i) {
      Element& e = reference[static_cast<size_t>(i)];
      e.w = initial[static_cast<size_t>(i)];
      if (optimizer.slots() > 0) e.s0 = optimizer.slot_initial(0);
      if (optimizer.slots() > 1) e.s1 = optimizer.slot_initial(1);
      At(i, 0) = static_cast<T>(e.w);
      if (optimizer.slots() > 0) At(i, 1) = static_cast<T>(e.s0);
      if (optimizer.slots() > 1) At(i, 2) = static_cast<T>(e.s1);
    }
  }
  T& At(int64_t element, int part) {
    return memory[static_cast<size_t>(element / width * stride + part * width + element % width)];
  }
  RowBlock Block(int parts) {
    RowBlock block;
    const size_t bytes = static_cast<size_t>(stride) * sizeof(T);
    for (int p = 0; p < parts; ++p) {
      block.parts[static_cast<size_t>(p)] = {reinterpret_cast<char*>(memory.data() + p * width),
                                             bytes};
    }
    block.weights = DTypeOf<T>::value;
    block.width = width;
    return block;
  }

  int64_t stride, width;
  std::vector<T> memory;
  std::vector<Element> reference;
};

// Six steps on `ids` (all rows when empty); the largest error, absolute or relative.
template <typename T>
double LargestError(const proto::OptimizerSpec& spec, int64_t width,
                    const std::vector<int64_t>& ids) {
  constexpr int64_t kRows = 29;
  const Optimizer optimizer = Optimizer::Create(spec).value();
  Fixture<T> fixture(optimizer, kRows, width);
  const int64_t n = ids.empty() ? kRows : static_cast<int64_t>(ids.size());
  for (int t = 1; t <= 6; ++t) {
    const std::vector<float> drawn = RandomFloats(n * width, 100 + static_cast<uint64_t>(t));
    const std::vector<T> gradient(drawn.begin(), drawn.end());
    optimizer.Apply<T>(fixture.Block(1 + optimizer.slots()), ids.empty() ? nullptr : ids.data(), n,
                       gradient.data(), t);
    for (int64_t i = 0; i < n * width; ++i) {
      const int64_t row = ids.empty() ? i / width : ids[static_cast<size_t>(i / width)];
      ReferenceStep(spec, spec.learning_rate(), drawn[static_cast<size_t>(i)], t,
                    &fixture.reference[static_cast<size_t>(row * width + i % width)]);
    }
  }
  double worst = 0;
  for (int64_t i = 0; i < kRows * width; ++i) {
    const Element& e = fixture.reference[static_cast<size_t>(i)];
    const double wanted[] = {e.w, e.s0, e.s1};
    for (int p = 0; p <= optimizer.slots(); ++p) {
      const double error = std::abs(static_cast<double>(fixture.At(i, p)) - wanted[p]) /
                           std::max(1.0, std::abs(wanted[p]));
      worst = std::isnan(error) ? 1e9 : std::max(worst, error);
    }
  }
  // The padding between rows belongs to nobody.
  for (size_t at = static_cast<size_t>(width * (1 + optimizer.slots())); at < fixture.memory.size();
       at += static_cast<size_t>(fixture.stride)) {
    if (fixture.memory[at] != T{-77}) worst = 1e9;
  }
  return worst;
}

// Widths with and without a constant-size loop, and with every kind of tail.
const std::vector<int64_t> kWidths = {1, 7, 16, 19, 32, 64, 67};
const std::vector<int64_t> kSomeRows = {3, 28, 0, 11, 12, 13, 5, 27, 1, 20, 9, 7};

}  // namespace

TEST_CASE("every optimizer agrees with the formulas on all rows, in f32 and f64") {
  for (const proto::OptimizerSpec& spec : AllSpecs()) {
    for (int64_t width : kWidths) {
      INFO(spec.ShortDebugString() << " width " << width);
      CHECK(LargestError<float>(spec, width, {}) < 5e-6);
      CHECK(LargestError<double>(spec, width, {}) < 1e-14);
    }
  }
}

TEST_CASE("every optimizer agrees with the formulas on named rows and leaves the others alone") {
  for (const proto::OptimizerSpec& spec : AllSpecs()) {
    for (int64_t width : kWidths) {
      INFO(spec.ShortDebugString() << " width " << width);
      CHECK(LargestError<float>(spec, width, kSomeRows) < 5e-6);
      CHECK(LargestError<double>(spec, width, kSomeRows) < 1e-14);
    }
  }
}

TEST_CASE("a row named twice takes both gradients, one after the other") {
  for (const proto::OptimizerSpec& spec : AllSpecs()) {
    INFO(spec.ShortDebugString());
    CHECK(LargestError<float>(spec, 16, {4, 4, 9, 4, 9}) < 5e-6);
  }
}

TEST_CASE("ftrl without regularisation is adagrad without epsilon, when both start at zero") {
  proto::OptimizerSpec adagrad_spec = OptimizerOf("adagrad", 0.3);
  kernels::SetParameter("epsilon", 0, &adagrad_spec);
  const Optimizer adagrad = Optimizer::Create(adagrad_spec).value();
  const Optimizer ftrl = Optimizer::Create(OptimizerOf("ftrl", 0.3)).value();
  std::vector<double> w(40, 0), n(40, 0.1), z(40, 0), w2(40, 0), n2(40, 0.1);
  for (int t = 1; t <= 20; ++t) {
    const std::vector<float> drawn = RandomFloats(40, static_cast<uint64_t>(t));
    const std::vector<double> g(drawn.begin(), drawn.end());
    ftrl.Apply<double>(RowOf<double>({&w, &n, &z}), nullptr, 1, g.data(), t);
    adagrad.Apply<double>(RowOf<double>({&w2, &n2}), nullptr, 1, g.data(), t);
  }
  for (size_t i = 0; i < w.size(); ++i) CHECK(w[i] == Approx(w2[i]).epsilon(1e-10));
}

TEST_CASE("rmsprop's steps are of the learning rate's size where gradients stay the same") {
  const Optimizer rmsprop = Optimizer::Create(OptimizerOf("rmsprop", 0.01)).value();
  std::vector<double> w = {1, 1}, v(2, 0);
  const std::vector<double> g = {5, -0.25};
  std::vector<double> before;
  for (int t = 1; t <= 200; ++t) {
    before = w;
    rmsprop.Apply<double>(RowOf<double>({&w, &v}), nullptr, 1, g.data(), t);
    // The first one, when nothing is in the mean, is 1 / sqrt(1 - rho) as large.
    if (t == 1) CHECK(before[0] - w[0] == Approx(0.01 / std::sqrt(0.1)).epsilon(1e-6));
  }
  CHECK(before[0] - w[0] == Approx(0.01).epsilon(1e-6));
  CHECK(before[1] - w[1] == Approx(-0.01).epsilon(1e-6));
}

TEST_CASE("adam's first step moves every weight by the learning rate against its gradient") {
  const Optimizer adam = Optimizer::Create(OptimizerOf("lazy_adam", 0.01)).value();
  std::vector<float> w = {1, 1, 1}, m(3, 0), v(3, 0);
  const std::vector<float> g = {5, -0.25f, 100};
  adam.Apply<float>(RowOf<float>({&w, &m, &v}), nullptr, 1, g.data(), 1);
  CHECK(w[0] == Approx(0.99).epsilon(1e-4));
  CHECK(w[1] == Approx(1.01).epsilon(1e-4));
  CHECK(w[2] == Approx(0.99).epsilon(1e-4));
}

TEST_CASE("adamw without decay is lazy_adam, and its decay is the rate's share of the weight") {
  const auto step = [](const char* kind, double decay) {
    proto::OptimizerSpec spec = OptimizerOf(kind, 0.5);
    if (spec.kind() == "adamw") kernels::SetParameter("weight_decay", decay, &spec);
    std::vector<double> w = {2, -2, 2}, m(3, 0), v(3, 0);
    const std::vector<double> g = {0, 0.25, -3};
    Optimizer::Create(spec)->Apply<double>(RowOf<double>({&w, &m, &v}), nullptr, 1, g.data(), 1);
    return w;
  };
  const std::vector<double> adam = step("lazy_adam", 0), decayed = step("adamw", 0.25);
  CHECK(step("adamw", 0) == adam);
  CHECK(adam[0] == 2);  // without a gradient there is the decay alone
  CHECK(decayed[0] == 2 - 0.5 * 0.25 * 2);
  CHECK(decayed[1] == Approx(adam[1] + 0.25));
  CHECK(decayed[2] == Approx(adam[2] - 0.25));
}

TEST_CASE("ftrl's l1 keeps a weight at exactly zero, and a NaN gradient stays visible") {
  proto::OptimizerSpec spec = OptimizerOf("ftrl", 0.1);
  kernels::SetParameter("l1", 3, &spec);
  const Optimizer ftrl = Optimizer::Create(spec).value();
  std::vector<float> w = {0, 0, 0}, n(3, 0.1f), z(3, 0);
  const std::vector<float> g = {2.5f, -4, NAN};
  ftrl.Apply<float>(RowOf<float>({&w, &n, &z}), nullptr, 1, g.data(), 1);
  CHECK(w[0] == 0);
  CHECK(w[1] > 0);
  CHECK(std::isnan(w[2]));
}

TEST_CASE("a parameter of zero is zero, and one that is not given is as the struct has it") {
  for (const double beta1 : {0.0, -1.0}) {  // -1: not given
    proto::OptimizerSpec spec = OptimizerOf("lazy_adam", 0.5);
    if (beta1 == 0) kernels::SetParameter("beta1", 0, &spec);
    kernels::SetParameter("epsilon", 0, &spec);
    const Optimizer adam = Optimizer::Create(spec).value();
    std::vector<double> w = {1}, m = {0}, v = {0};
    for (int t = 1; t <= 2; ++t) {
      const double g = t == 1 ? 3 : -4;
      adam.Apply<double>(RowOf<double>({&w, &m, &v}), nullptr, 1, &g, t);
    }
    CHECK(m[0] == Approx(beta1 == 0 ? -4 : 0.9 * 0.1 * 3 - 0.1 * 4));
    CHECK(v[0] == Approx(0.999 * 0.001 * 9 + 0.001 * 16));
  }
  CHECK(kernels::FromSpec<kernels::LazyAdamOptimizer>(OptimizerOf("lazy_adam"))->beta1 ==
        LazyAdam{}.beta1);
}

TEST_CASE("slots have the names that checkpoints know, and begin where they should") {
  const Optimizer momentum = Optimizer::Create(OptimizerOf("momentum")).value();
  REQUIRE(momentum.slots() == 1);
  CHECK(momentum.slot_name(0) == "momentum");
  CHECK(momentum.slot_initial(0) == 0);
  const Optimizer adagrad = Optimizer::Create(OptimizerOf("adagrad")).value();
  REQUIRE(adagrad.slots() == 1);
  CHECK(adagrad.slot_name(0) == "accumulator");
  CHECK(adagrad.slot_initial(0) == 0.1);
  const Optimizer rowwise = Optimizer::Create(OptimizerOf("rowwise_adagrad")).value();
  REQUIRE(rowwise.slots() == 1);
  CHECK(rowwise.slots_per_row());
  CHECK(rowwise.slot_name(0) == "accumulator");
  CHECK(rowwise.slot_initial(0) == 0);
  for (const char* kind : {"adam", "lazy_adam", "adamw"}) {
    const Optimizer adam = Optimizer::Create(OptimizerOf(kind)).value();
    REQUIRE(adam.slots() == 2);
    CHECK(adam.slot_name(0) == "m");
    CHECK(adam.slot_name(1) == "v");
    CHECK(adam.slot_initial(1) == 0);
    CHECK(adam.SparseMovesAllRows() == (adam.name() == "adam"));
  }
  const Optimizer ftrl = Optimizer::Create(OptimizerOf("ftrl")).value();
  REQUIRE(ftrl.slots() == 2);
  CHECK(ftrl.slot_name(0) == "accumulator");
  CHECK(ftrl.slot_name(1) == "linear");
  CHECK(ftrl.slot_initial(0) == 0.1);
  CHECK(ftrl.slot_initial(1) == 0);
  CHECK(Optimizer::Create(OptimizerOf("sgd")).value().slots() == 0);
  CHECK(Optimizer::Create({}).value().none());
}

TEST_CASE("an optimizer's parameter out of range is refused by name") {
  const auto message = [](const char* kind, auto&& change) {
    proto::OptimizerSpec spec = OptimizerOf(kind);
    change(spec);
    const absl::StatusOr<Optimizer> optimizer = Optimizer::Create(spec);
    REQUIRE_FALSE(optimizer.ok());
    CHECK(optimizer.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(optimizer.status().message());
  };
  using Spec = proto::OptimizerSpec;
  using Catch::Contains;
  CHECK_THAT(message("sdg", [](Spec&) {}), Contains("sdg") && Contains("lazy_adam"));
  CHECK_THAT(message("sgd", [](Spec& s) { s.set_learning_rate(0); }), Contains("learning_rate"));
  CHECK_THAT(message("sgd", [](Spec& s) { s.set_learning_rate(NAN); }), Contains("learning_rate"));
  CHECK_THAT(message("sgd", [](Spec& s) { kernels::SetParameter("momentum", 0.9, &s); }),
             Contains("'momentum'"));
  CHECK_THAT(message("momentum", [](Spec& s) { kernels::SetParameter("momentum", 1, &s); }),
             Contains("got 1"));
  CHECK_THAT(message("adam", [](Spec& s) { kernels::SetParameter("beta1", -0.1, &s); }),
             Contains("beta1"));
  CHECK_THAT(message("adam", [](Spec& s) { kernels::SetParameter("beta2", 1.5, &s); }),
             Contains("beta2"));
  CHECK_THAT(message("adam", [](Spec& s) { kernels::SetParameter("l1", 0.1, &s); }),
             Contains("l1"));
  CHECK_THAT(message("adagrad", [](Spec& s) { kernels::SetParameter("epsilon", -1, &s); }),
             Contains("epsilon"));
  CHECK_THAT(
      message("adagrad", [](Spec& s) { kernels::SetParameter("initial_accumulator", -1, &s); }),
      Contains("initial_accumulator"));
  CHECK_THAT(
      message("ftrl", [](Spec& s) { kernels::SetParameter("learning_rate_power", 0.5, &s); }),
      Contains("learning_rate_power"));
  CHECK_THAT(message("ftrl", [](Spec& s) { kernels::SetParameter("l2", INFINITY, &s); }),
             Contains("l2"));
  CHECK(message("adam", [](Spec& s) { kernels::SetParameter("rho", 1, &s); }) ==
        "optimizer adam has no parameter 'rho': it has learning_rate, beta1, beta2, epsilon, l2");
}

}  // namespace coxswain::ps
