#include "runtime/tensor/initializer.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "tests/testing/ps_specs.h"

namespace coxswain {
namespace {

proto::InitializerSpec SpecOf(const std::string& kind, uint64_t seed = 7) {
  proto::InitializerSpec spec;
  spec.set_kind(kind);
  spec.set_seed(seed);
  return spec;
}

std::vector<double> Fill(const proto::InitializerSpec& spec, const std::string& name,
                         const Shape& shape) {
  const Initializer init = Initializer::Create(spec, name, shape, DType::kF64).value();
  const size_t width = static_cast<size_t>(shape.num_elements() / shape.dim(0));
  std::vector<double> values(static_cast<size_t>(shape.num_elements()));
  for (int64_t r = 0; r < shape.dim(0); ++r) {
    init.FillRow(r, absl::MakeSpan(values.data() + static_cast<size_t>(r) * width, width));
  }
  return values;
}

struct Moments {
  double mean = 0, stddev = 0, low = INFINITY, high = -INFINITY;
};

Moments MomentsOf(const std::vector<double>& values) {
  Moments m;
  double squares = 0;
  for (double v : values) {
    m.mean += v / static_cast<double>(values.size());
    squares += v * v / static_cast<double>(values.size());
    m.low = std::min(m.low, v);
    m.high = std::max(m.high, v);
  }
  m.stddev = std::sqrt(squares - m.mean * m.mean);
  return m;
}

}  // namespace

TEST_CASE("the row of the largest id begins as others do") {
  const Initializer init =
      Initializer::Create(SpecOf("normal"), "v", Shape{kUnknownDim, 4}, DType::kF32).value();
  std::vector<float> row(4, 0);
  init.FillRow(std::numeric_limits<int64_t>::max(), absl::MakeSpan(row));
  CHECK(std::set<float>(row.begin(), row.end()).size() == 4);
}

TEST_CASE("rows that training does not use begin as zeros, the others as if there were none") {
  for (const char* kind : {"normal", "uniform", "constant", "glorot_uniform"}) {
    proto::InitializerSpec spec = SpecOf(kind);
    spec.set_value(3);
    std::vector<double> wanted = Fill(spec, "v", {6, 4});
    spec.set_zero_rows_from(4);
    std::fill(wanted.begin() + 4 * 4, wanted.end(), 0.0);
    CHECK(Fill(spec, "v", {6, 4}) == wanted);
  }
  proto::InitializerSpec bad = SpecOf("zeros");
  bad.set_zero_rows_from(-1);
  CHECK(Initializer::Create(bad, "v", {2, 2}, DType::kF32).status().code() ==
        absl::StatusCode::kInvalidArgument);
}

TEST_CASE("random initializers have the moments and the range that they are asked for") {
  const Shape shape{2000, 100};  // standard error of a mean: stddev / 447
  proto::InitializerSpec uniform = SpecOf("uniform");
  uniform.set_low(-1);
  uniform.set_high(3);
  const Moments u = MomentsOf(Fill(uniform, "v", shape));
  CHECK(u.mean == Approx(1).margin(0.015));
  CHECK(u.stddev == Approx(4 / std::sqrt(12.0)).epsilon(0.01));
  CHECK(u.low >= -1);
  CHECK(u.high <= 3);

  proto::InitializerSpec normal = SpecOf("normal");
  normal.set_mean(2);
  normal.set_stddev(0.5);
  const Moments n = MomentsOf(Fill(normal, "v", shape));
  CHECK(n.mean == Approx(2).margin(0.006));
  CHECK(n.stddev == Approx(0.5).epsilon(0.01));
  CHECK(n.high > 3.5);  // 3 stddev from the mean lies one value in 741

  normal.set_kind("truncated_normal");
  const Moments t = MomentsOf(Fill(normal, "v", shape));
  CHECK(t.mean == Approx(2).margin(0.006));
  CHECK(t.stddev == Approx(0.5 * 0.87963).epsilon(0.01));  // of a normal cut at 2 stddev
  CHECK(t.low >= 1);
  CHECK(t.high <= 3);
}

TEST_CASE("glorot_uniform takes its fans from the full shape") {
  const double limit = std::sqrt(6.0 / (300 + 100));
  const Moments m = MomentsOf(Fill(SpecOf("glorot_uniform"), "v", Shape{300, 100}));
  CHECK(m.high <= limit);
  CHECK(m.high > limit * 0.999);
  CHECK(m.low < -limit * 0.999);
  const double deep = std::sqrt(6.0 / (5 * 20 + 5 * 30));
  CHECK(MomentsOf(Fill(SpecOf("glorot_uniform"), "v", Shape{5, 20, 30})).high <= deep);
  CHECK(MomentsOf(Fill(SpecOf("glorot_uniform"), "v", Shape{5, 20, 30})).high > deep * 0.99);
}

TEST_CASE("elements depend on seed, name, row and column, and nothing repeats") {
  const Shape shape{50, 9};
  for (const char* kind : {"uniform", "normal", "truncated_normal"}) {
    const std::vector<double> base = Fill(SpecOf(kind), "users", shape);
    CHECK(base == Fill(SpecOf(kind), "users", shape));
    CHECK(std::set<double>(base.begin(), base.end()).size() == base.size());
    const std::vector<double> other_seed = Fill(SpecOf(kind, 8), "users", shape);
    const std::vector<double> other_name = Fill(SpecOf(kind), "items", shape);
    for (size_t i = 0; i < base.size(); ++i) {
      CHECK(base[i] != other_seed[i]);
      CHECK(base[i] != other_name[i]);
    }
  }
}

TEST_CASE("an element does not depend on how many columns are filled with it") {
  for (const char* kind : {"uniform", "normal", "truncated_normal"}) {
    const Initializer init =
        Initializer::Create(SpecOf(kind), "v", Shape{10, 8}, DType::kF32).value();
    std::vector<float> all(8), few(5);
    init.FillRow(3, absl::MakeSpan(all));
    init.FillRow(3, absl::MakeSpan(few));
    for (size_t c = 0; c < few.size(); ++c) CHECK(few[c] == all[c]);
  }
}

TEST_CASE("the values of a seed never change between versions") {
  // A checkpoint's data position is only good with the variables that its seed made.
  const Initializer uniform =
      Initializer::Create(SpecOf("uniform"), "users", Shape{4, 2}, DType::kF64).value();
  std::vector<double> row(2);
  uniform.FillRow(3, absl::MakeSpan(row));
  CHECK(row[0] == Approx(-0.01061392289005092).epsilon(1e-12));
  CHECK(row[1] == Approx(0.021326509831524676).epsilon(1e-12));
}

TEST_CASE("constants fill integers too, and fractions in integers are refused") {
  proto::InitializerSpec spec = SpecOf("constant");
  spec.set_value(-3);
  std::vector<int64_t> row(4);
  Initializer::Create(spec, "n", Shape{1, 4}, DType::kI64).value().FillRow(0, absl::MakeSpan(row));
  CHECK(row == std::vector<int64_t>(4, -3));
  spec.set_value(0.5);
  CHECK_FALSE(Initializer::Create(spec, "n", Shape{4}, DType::kI64).ok());
  spec.set_value(NAN);
  CHECK_FALSE(Initializer::Create(spec, "n", Shape{4}, DType::kI64).ok());
  CHECK_FALSE(Initializer::Create(SpecOf("uniform"), "n", Shape{4}, DType::kI64).ok());
}

TEST_CASE("an initializer's bad spec is refused with the variable's name") {
  proto::InitializerSpec bad = SpecOf("uniform");
  bad.set_low(2);
  bad.set_high(1);
  proto::InitializerSpec negative = SpecOf("normal");
  negative.set_stddev(-1);
  for (const proto::InitializerSpec& spec : {SpecOf("unifrom"), bad, negative}) {
    const auto init = Initializer::Create(spec, "users", Shape{4, 2}, DType::kF32);
    REQUIRE_FALSE(init.ok());
    CHECK(init.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(init.status().message()), Catch::Contains("users"));
  }
}

}  // namespace coxswain
