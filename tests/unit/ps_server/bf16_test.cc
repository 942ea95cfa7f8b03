#include "ps_server/bf16.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ps_server/shard.h"
#include "ps_server/shard_snapshot.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/shards.h"

namespace coxswain::ps {
namespace {

using Catch::Contains;
using Kind = graph::Update::Kind;
using testing::Apply;
using testing::AsFloats;
using testing::Ids;
using testing::Make;
using testing::OptimizerOf;
using testing::RandomFloats;
using testing::RandomTensor;
using testing::SplitOf;
using testing::UpdateOf;
using testing::ValuesOf;
using testing::VariableOf;
using testing::WholeOf;

proto::VariableSpec TableOf(const std::string& optimizer, int64_t rows, int64_t dim, DType dtype,
                            const std::string& rounding = "") {
  proto::VariableSpec spec = VariableOf("t", {rows, dim}, true, OptimizerOf(optimizer), dtype);
  spec.mutable_initializer()->set_kind("normal");
  spec.mutable_initializer()->set_seed(5);
  spec.set_rounding(rounding);
  return spec;
}

std::vector<float> Nearest(std::vector<float> values) {
  for (float& v : values) v = BFloat16::FromFloat(v).ToFloat();
  return values;
}

constexpr const char* kOptimizers[] = {"sgd",     "momentum", "adagrad",   "rowwise_adagrad",
                                       "rmsprop", "adam",     "lazy_adam", "adamw",
                                       "ftrl"};

}  // namespace

TEST_CASE("bf16 rounding: to nearest is the tensors' own, up or down never leaves the neighbours") {
  std::vector<float> values = RandomFloats(20000, 1);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (float v : {0.f, -0.f, 1.f, kInf, -kInf, std::numeric_limits<float>::max(), 1e-40f}) {
    values.push_back(v);
  }
  for (float v : values) {
    CHECK(NearestBf16(v).bits == BFloat16::FromFloat(v).bits);
    const uint16_t down = CutToBf16(v, 0).bits, up = CutToBf16(v, 0xffff).bits;
    const bool exact = WidenBf16({down}) == v;
    CHECK(up == (exact ? down : down + 1));
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(WidenBf16(CutToBf16(nan, 0xffff))));
  CHECK(std::isnan(WidenBf16(CutToBf16(std::bit_cast<float>(0x7fffffffu), 0xffff))));
  CHECK(std::isnan(WidenBf16(CutToBf16(std::bit_cast<float>(0x7f800001u), 0))));
}

TEST_CASE("stochastic rounding keeps the mean") {
  const Bf16Rounding rounding{true, 7, {}, 0, 1};
  for (float value : {1.001f, 3.1415926f, -0.3333f}) {
    double sum = 0;
    constexpr int kRows = 300, kElements = 100;
    for (int64_t row = 0; row < kRows; ++row) {
      const uint32_t key = RoundingKey(rounding, /*number=*/row % 7, row);
      for (uint32_t e = 0; e < kElements; ++e) sum += WidenBf16(StochasticBf16(value, key, e));
    }
    // One rounding has a standard deviation of at most half a unit in the last place.
    const double unit = std::ldexp(1.0, std::ilogb(value) - 7);
    CHECK(sum / (kRows * kElements) == Approx(value).margin(4 * unit / 2 / std::sqrt(30000)));
  }
}

TEST_CASE("an update of bf16 weights is the update in f32, rounded to nearest once") {
  for (const char* optimizer : kOptimizers) {
    for (int64_t dim : {1, 7, 8, 16, 32, 64, 67, 200}) {
      const auto half = Make(WholeOf(TableOf(optimizer, 20, dim, DType::kBF16)));
      const auto full = Make(WholeOf(TableOf(optimizer, 20, dim, DType::kF32)));
      INFO(optimizer << " dim " << dim);
      CHECK(ValuesOf<float>(half->Read().value()) ==
            Nearest(ValuesOf<float>(full->Read().value())));
      REQUIRE(full->WriteRows(0, half->Read().value()).ok());
      for (uint64_t step = 0; step < 4; ++step) {
        const graph::Update update = UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{4, dim}, step),
                                              Ids({3, 19, 0, static_cast<int64_t>(4 + step)}));
        Apply(half.get(), update);
        Apply(full.get(), update);
        const Tensor rounded =
            Tensor::FromVector(Nearest(ValuesOf<float>(full->Read().value())), Shape{20, dim})
                .value();
        REQUIRE(full->WriteRows(0, rounded).ok());
        CHECK(ValuesOf<float>(half->Read().value()) == ValuesOf<float>(rounded));
        for (int p = 1; p <= half->optimizer().slots(); ++p) {
          CHECK(ValuesOf<float>(half->ReadRows(0, 20, p).value()) ==
                ValuesOf<float>(full->ReadRows(0, 20, p).value()));
        }
      }
    }
  }
}

TEST_CASE("gathered bf16 rows are f32, whole reads and assignments too") {
  for (int64_t dim : {1, 8, 16, 19, 64}) {
    const auto shard = Make(WholeOf(TableOf("sgd", 50, dim, DType::kBF16)));
    const std::vector<float> all = ValuesOf<float>(shard->Read().value());
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < 40; ++i) ids.push_back(i * 7 % 50);
    const Tensor rows = shard->Gather(Ids(ids)).value();
    REQUIRE(rows.dtype() == DType::kF32);
    for (int64_t i = 0; i < 40 * dim; ++i) {
      const int64_t row = ids[static_cast<size_t>(i / dim)];
      CHECK(rows.data<float>()[i] == all[static_cast<size_t>(row * dim + i % dim)]);
    }
    const Tensor stored = shard->ReadRows(0, 50).value();
    CHECK(stored.dtype() == DType::kBF16);
    CHECK(AsFloats(stored) == all);
    const Tensor values = RandomTensor(Shape{50, dim}, 9);
    Apply(shard.get(), UpdateOf(Kind::kAssign, 1, values));
    CHECK(ValuesOf<float>(shard->Read().value()) == Nearest(ValuesOf<float>(values)));
    REQUIRE(shard->WriteRows(0, stored).ok());
    CHECK(ValuesOf<float>(shard->Read().value()) == all);
    Apply(shard.get(), UpdateOf(Kind::kScatterAdd, 1, RandomTensor(Shape{1, dim}, 3), Ids({4})));
    CHECK(ValuesOf<float>(shard->Read().value()) != all);
    CHECK_FALSE(shard->Validate(UpdateOf(Kind::kAssign, 1, stored)).ok());
  }
}

TEST_CASE("stochastic bits are the same whatever the split, and after a restore") {
  for (const char* optimizer : kOptimizers) {
    const proto::VariableSpec variable = TableOf(optimizer, 23, 20, DType::kBF16, "stochastic");
    std::vector<std::vector<float>> results;
    for (const auto& [count, strategy] : std::vector<std::pair<int, std::string>>{
             {1, "div"}, {3, "div"}, {4, "mod"}, {1, "hash"}, {4, "hash"}}) {
      std::vector<float> all(23 * 20);
      for (const proto::ShardSpec& spec : SplitOf(variable, count, strategy)) {
        auto shard = Make(spec);
        for (uint64_t step = 0; step < 5; ++step) {
          if (step == 3) {  // it comes back from what a checkpoint has
            auto restored = Shard::Create(spec, Shard::Fill::kZeros).value();
            for (int p = 0; p < shard->parts(); ++p) {
              const Tensor part = shard->Snapshot()->ReadRows(0, shard->rows(), p).value();
              REQUIRE(restored->WriteRows(0, part, p).ok());
            }
            REQUIRE(restored->RestoreCounters(shard->applied(), shard->gradient_steps()).ok());
            shard = std::move(restored);
          }
          const Tensor gradient = RandomTensor(Shape{23, 20}, step);
          std::vector<int64_t> ids;
          std::vector<float> rows;
          for (int64_t r = shard->rows() - 1; r >= 0; --r) {
            const float* from = gradient.data<float>() + shard->layout().ToGlobal(r) * 20;
            ids.push_back(r);
            rows.insert(rows.end(), from, from + 20);
          }
          Apply(shard.get(),
                UpdateOf(Kind::kSparse, spec.id(),
                         Tensor::FromVector(rows, Shape{shard->rows(), 20}).value(), Ids(ids)));
        }
        const std::vector<float> values = ValuesOf<float>(shard->Read().value());
        for (int64_t r = 0; r < shard->rows(); ++r) {
          std::copy_n(values.data() + r * 20, 20, all.data() + shard->layout().ToGlobal(r) * 20);
        }
      }
      results.push_back(all);
    }
    INFO(optimizer);
    CHECK(results[1] == results[0]);
    CHECK(results[2] == results[0]);
    CHECK(results[4] == results[3]);
    const auto nearest = Make(WholeOf(TableOf(optimizer, 23, 20, DType::kBF16)));
    for (uint64_t step = 0; step < 5; ++step) {
      Apply(nearest.get(), UpdateOf(Kind::kDense, 1, RandomTensor(Shape{23, 20}, step)));
    }
    CHECK(ValuesOf<float>(nearest->Read().value()) != results[0]);
  }
}

TEST_CASE("steps below half a unit add up when rounded stochastically, and are lost to nearest") {
  for (const char* rounding : {"nearest", "stochastic"}) {
    proto::VariableSpec variable = TableOf("sgd", 4, 64, DType::kBF16, rounding);
    variable.mutable_initializer()->set_kind("ones");
    variable.mutable_optimizer()->set_learning_rate(1e-4);
    const auto shard = Make(WholeOf(variable));
    const graph::Update update = UpdateOf(
        Kind::kDense, 1, Tensor::FromVector(std::vector<float>(256, -1), Shape{4, 64}).value());
    for (int step = 0; step < 1000; ++step) Apply(shard.get(), update);
    double mean = 0;
    for (float w : ValuesOf<float>(shard->Read().value())) mean += w / 256;
    CHECK(mean == Approx(std::string(rounding) == "nearest" ? 1.0 : 1.1).margin(0.01));
  }
}

TEST_CASE("a bf16 table takes half of the weights' memory") {
  const auto stride = [](DType dtype, const char* optimizer, int64_t dim) {
    const auto shard = Make(WholeOf(TableOf(optimizer, 5, dim, dtype)));
    return shard->memory_bytes() / 5;
  };
  CHECK(stride(DType::kF32, "sgd", 64) == 256 + 8);
  CHECK(stride(DType::kBF16, "sgd", 64) == 128 + 8);
  CHECK(stride(DType::kBF16, "rowwise_adagrad", 64) == 128 + 16);
  CHECK(stride(DType::kBF16, "sgd", 16) == 32 + 8);
}

TEST_CASE("bf16 is for tables, and a rounding for bf16") {
  const auto refused = [](const proto::VariableSpec& variable) {
    const auto shard = Shard::Create(WholeOf(variable));
    REQUIRE_FALSE(shard.ok());
    return std::string(shard.status().message());
  };
  CHECK_THAT(refused(VariableOf("w", {3}, false, OptimizerOf("sgd"), DType::kBF16)),
             Contains("bf16"));
  CHECK_THAT(refused(TableOf("sgd", 3, 4, DType::kF32, "stochastic")), Contains("bf16"));
  CHECK_THAT(refused(TableOf("sgd", 3, 4, DType::kBF16, "up")), Contains("'up'"));
}

}  // namespace coxswain::ps
