#include "kernels/optimizers/learning_rate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/optimizers/optimizer_spec.h"
#include "ps_server/optimizer.h"
#include "ps_server/shard.h"
#include "tests/testing/ps_specs.h"

namespace coxswain::ps {
namespace {

using Catch::Contains;
using Kind = graph::Update::Kind;
using Spec = proto::LearningRateSchedule;
using kernels::LearningRateSchedule;
using testing::OptimizerOf;
using testing::UpdateOf;
using testing::ValuesOf;
using testing::VariableOf;
using testing::WholeOf;

Spec SpecOf(const std::string& kind) {
  Spec spec;
  spec.set_kind(kind);
  return spec;
}

LearningRateSchedule Make(const Spec& spec) {
  const auto schedule = LearningRateSchedule::Create(spec);
  INFO(schedule.status().ToString());
  REQUIRE(schedule.ok());
  return *schedule;
}

Spec Piecewise(const std::vector<int64_t>& boundaries, const std::vector<double>& factors) {
  Spec spec = SpecOf("piecewise_constant");
  for (int64_t b : boundaries) spec.add_boundaries(b);
  for (double f : factors) spec.add_factors(f);
  return spec;
}

Spec Decay(const std::string& kind, int64_t steps) {
  Spec spec = SpecOf(kind);
  spec.set_decay_steps(steps);
  spec.set_decay_rate(0.96);
  spec.set_end_factor(0.1);
  return spec;
}

}  // namespace

TEST_CASE("schedules give the values of Keras' schedules of the same name") {
  CHECK(Make({}).Factor(12345) == 1);
  CHECK(Make(SpecOf("constant")).Factor(0) == 1);
  CHECK(Make(SpecOf("constant")).constant());

  // PiecewiseConstantDecay([100, 150], [1, 0.5, 0.1]): the boundary itself still has the rate
  // before it.
  const LearningRateSchedule piecewise = Make(Piecewise({100, 150}, {0.5, 0.1}));
  CHECK(piecewise.Factor(0) == 1);
  CHECK(piecewise.Factor(100) == 1);
  CHECK(piecewise.Factor(101) == 0.5);
  CHECK(piecewise.Factor(150) == 0.5);
  CHECK(piecewise.Factor(151) == 0.1);
  CHECK(piecewise.Factor(int64_t{1} << 40) == 0.1);

  const LearningRateSchedule exponential = Make(Decay("exponential_decay", 1000));
  CHECK(exponential.Factor(0) == 1);
  CHECK(exponential.Factor(1000) == Approx(0.96).epsilon(1e-14));
  CHECK(exponential.Factor(2500) == Approx(0.96 * 0.96 * std::sqrt(0.96)).epsilon(1e-14));
  Spec stairs = Decay("exponential_decay", 1000);
  stairs.set_staircase(true);
  CHECK(Make(stairs).Factor(999) == 1);
  CHECK(Make(stairs).Factor(2999) == Approx(0.9216).epsilon(1e-14));

  const LearningRateSchedule cosine = Make(Decay("cosine_decay", 1000));
  CHECK(cosine.Factor(0) == 1);
  CHECK(cosine.Factor(250) == Approx(0.1 + 0.9 * 0.85355339059).epsilon(1e-10));
  CHECK(cosine.Factor(500) == Approx(0.55).epsilon(1e-14));
  CHECK(cosine.Factor(1000) == Approx(0.1).epsilon(1e-14));
  CHECK(cosine.Factor(99999) == Approx(0.1).epsilon(1e-14));

  // PolynomialDecay(1, 1000, 0.1, power=1).
  const LearningRateSchedule linear = Make(Decay("linear_decay", 1000));
  CHECK(linear.Factor(0) == 1);
  CHECK(linear.Factor(250) == Approx(0.775).epsilon(1e-14));
  CHECK(linear.Factor(999) == Approx(0.1009).epsilon(1e-12));
  CHECK(linear.Factor(1000) == Approx(0.1).epsilon(1e-14));
  CHECK(linear.Factor(99999) == Approx(0.1).epsilon(1e-14));
  Spec to_zero = Decay("linear_decay", 4);
  to_zero.set_end_factor(0);
  CHECK(Make(to_zero).Factor(3) == 0.25);
  CHECK(Make(to_zero).Factor(4) == 0);
}

TEST_CASE("warm-up rises linearly, and the rest begins after it") {
  for (const char* kind : {"constant", "exponential_decay", "cosine_decay", "linear_decay"}) {
    const LearningRateSchedule without = Make(Decay(kind, 100));
    Spec spec = Decay(kind, 100);
    spec.set_warmup_steps(40);
    spec.set_warmup_factor(0.2);
    const LearningRateSchedule with = Make(spec);
    CHECK(with.Factor(0) == 0.2);
    CHECK(with.Factor(10) == Approx(0.4).epsilon(1e-14));
    CHECK(with.Factor(39) == Approx(0.98).epsilon(1e-14));
    for (int64_t step : {0, 1, 50, 170}) CHECK(with.Factor(40 + step) == without.Factor(step));
    CHECK_FALSE(with.constant());
  }
}

TEST_CASE("a rate that grows without end stays finite, one that vanishes stays a number") {
  Spec spec = Decay("exponential_decay", 1);
  spec.set_decay_rate(1e300);
  CHECK(std::isfinite(Make(spec).Factor(int64_t{1} << 60)));
  spec.set_decay_rate(1e-300);
  CHECK(Make(spec).Factor(int64_t{1} << 60) == 0);
}

TEST_CASE("a shard's learning rate follows the updates with gradients that it has taken") {
  proto::OptimizerSpec optimizer = OptimizerOf("sgd", 2);
  *optimizer.mutable_schedule() = Piecewise({1, 2}, {0.5, 0.25});
  for (bool table : {true, false}) {
    const auto shard = Shard::Create(WholeOf(VariableOf("w", {2, 3}, table, optimizer))).value();
    const graph::Update gradient = UpdateOf(
        Kind::kDense, 1, Tensor::FromVector(std::vector<float>(6, -1), Shape{2, 3}).value());
    const graph::Update none =
        UpdateOf(Kind::kAssignAdd, 1, Tensor::Zeros(DType::kF32, Shape{2, 3}));
    std::vector<float> seen;
    for (const graph::Update* update : {&gradient, &none, &gradient, &none, &gradient, &gradient}) {
      REQUIRE(shard->Validate(*update).ok());
      shard->ApplySegment(absl::MakeConstSpan(&update, 1), {});
      seen.push_back(ValuesOf<float>(shard->Read().value())[5]);
    }
    CHECK(seen == std::vector<float>{2, 2, 4, 4, 5, 5.5});
    // As it goes on after a restore: the counter is all that counts.
    REQUIRE(shard->RestoreCounters(1, 0).ok());
    const graph::Update* update = &gradient;
    shard->ApplySegment(absl::MakeConstSpan(&update, 1), {});
    CHECK(ValuesOf<float>(shard->Read().value())[5] == 7.5);
  }
}

TEST_CASE("the schedule scales adam's rate and nothing else of it") {
  proto::OptimizerSpec plain = OptimizerOf("lazy_adam", 0.05),
                       halved = OptimizerOf("lazy_adam", 0.1);
  halved.mutable_schedule()->set_kind("constant");
  halved.mutable_schedule()->set_warmup_steps(1000);
  halved.mutable_schedule()->set_warmup_factor(0.5);
  const Optimizer a = Optimizer::Create(plain).value(), b = Optimizer::Create(halved).value();
  CHECK(b.LearningRate(0) == a.LearningRate(0));
  CHECK(b.LearningRate(500) == Approx(0.075));
  CHECK(a.LearningRate(500) == 0.05);
}

// TensorFlow's ResourceApplyFtrl with the rate of each step; its loop in double precision.
TEST_CASE(
    "ftrl's update goes by the rate of the moment, and one at a rate of zero changes nothing") {
  for (const double power : {-0.5, -0.7}) {
    proto::OptimizerSpec spec = OptimizerOf("ftrl", 0.4);
    kernels::SetParameter("l1", 0.05, &spec);
    kernels::SetParameter("l2", 0.01, &spec);
    kernels::SetParameter("learning_rate_power", power, &spec);
    *spec.mutable_schedule() = Decay("linear_decay", 8);
    spec.mutable_schedule()->set_end_factor(0);
    const Optimizer ftrl = Optimizer::Create(spec).value();
    std::vector<double> row = {0.3, 0.1, 0.0};  // weight, n, z
    RowBlock block;
    block.width = 1;
    block.weights = DType::kF64;
    for (size_t p = 0; p < 3; ++p) block.parts[p] = {reinterpret_cast<char*>(&row[p]), 0};
    double w = row[0], n = row[1], z = row[2];
    for (int64_t t = 1; t <= 8; ++t) {
      const double g = std::cos(static_cast<double>(t)), lr = 0.4 * (1 - (t - 1) / 8.0);
      const double next = n + g * g;
      z += g - (std::pow(next, -power) - std::pow(n, -power)) / lr * w;
      const double quadratic = 1 / (std::pow(next, power) * lr) + 2 * 0.01;
      w = std::abs(z) > 0.05 ? ((z > 0 ? 0.05 : -0.05) - z) / quadratic : 0;
      n = next;
      ftrl.Apply<double>(block, nullptr, 1, &g, t);
      CAPTURE(power, t);
      CHECK(row[0] == Approx(w).epsilon(1e-12));
      CHECK(row[2] == Approx(z).epsilon(1e-12));
    }
    const std::vector<double> before = row;
    const double g = 1;
    for (int64_t t = 9; t <= 20; ++t) ftrl.Apply<double>(block, nullptr, 1, &g, t);
    CHECK(row == before);
  }
}

TEST_CASE("a schedule out of its range is refused by name") {
  const auto message = [](Spec spec, auto&& change) {
    change(&spec);
    const auto schedule = LearningRateSchedule::Create(spec);
    REQUIRE_FALSE(schedule.ok());
    CHECK(schedule.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(schedule.status().message());
  };
  const Spec exponential = Decay("exponential_decay", 10), cosine = Decay("cosine_decay", 10);
  const Spec linear = Decay("linear_decay", 10);
  const auto as_it_is = [](Spec*) {};
  CHECK_THAT(message(SpecOf("cosine"), as_it_is), Contains("'cosine'") && Contains("cosine_decay"));
  CHECK_THAT(message(Piecewise({}, {}), as_it_is), Contains("0 boundaries"));
  CHECK_THAT(message(Piecewise({1, 2}, {1}), as_it_is), Contains("2 boundaries and 1 factors"));
  CHECK_THAT(message(Piecewise({2, 2}, {1, 1}), as_it_is), Contains("ascend"));
  CHECK_THAT(message(Piecewise({-2}, {1}), as_it_is), Contains("-2"));
  CHECK_THAT(message(Piecewise({2}, {-1}), as_it_is), Contains("factors"));
  CHECK_THAT(message(exponential, [](Spec* s) { s->set_decay_steps(0); }), Contains("decay_steps"));
  CHECK_THAT(message(exponential, [](Spec* s) { s->set_decay_rate(0); }), Contains("decay_rate"));
  CHECK_THAT(message(cosine, [](Spec* s) { s->set_end_factor(NAN); }), Contains("end_factor"));
  CHECK_THAT(message(linear, [](Spec* s) { s->set_end_factor(-1); }), Contains("end_factor"));
  CHECK_THAT(message(linear, [](Spec* s) { s->set_decay_steps(0); }), Contains("linear_decay"));
  CHECK_THAT(message(cosine, [](Spec* s) { s->set_warmup_steps(-1); }), Contains("warmup_steps"));
  CHECK_THAT(message({}, [](Spec* s) { s->set_warmup_factor(1.5); }), Contains("warmup_factor"));
  proto::OptimizerSpec sgd = OptimizerOf("sgd");
  *sgd.mutable_schedule() = SpecOf("x");
  CHECK_THAT(std::string(Optimizer::Create(sgd).status().message()),
             Contains("sgd") && Contains("'x'"));
}

}  // namespace coxswain::ps
