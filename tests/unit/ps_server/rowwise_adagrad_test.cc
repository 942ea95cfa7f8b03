#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/optimizers/optimizer_spec.h"
#include "ps_server/shard.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/reference_optimizer.h"
#include "tests/testing/shards.h"

namespace coxswain::ps {
namespace {

using Kind = graph::Update::Kind;
using testing::Apply;
using testing::Ids;
using testing::Make;
using testing::OptimizerOf;
using testing::ParameterOf;
using testing::RandomTensor;
using testing::SplitOf;
using testing::UpdateOf;
using testing::ValuesOf;
using testing::VariableOf;
using testing::WholeOf;

proto::OptimizerSpec Rowwise(double l2, double initial, double epsilon) {
  proto::OptimizerSpec spec = OptimizerOf("rowwise_adagrad", 0.05);
  kernels::SetParameter("l2", l2, &spec);
  kernels::SetParameter("initial_accumulator", initial, &spec);
  kernels::SetParameter("epsilon", epsilon, &spec);
  return spec;
}

// The formula on whole rows in double precision.
struct Reference {
  std::vector<std::vector<double>> w;
  std::vector<double> a;

  void Step(const proto::OptimizerSpec& spec, int64_t row, const float* gradient) {
    std::vector<double>& weights = w[static_cast<size_t>(row)];
    double sum = 0;
    std::vector<double> g;
    for (size_t e = 0; e < weights.size(); ++e) {
      g.push_back(static_cast<double>(gradient[e]) + ParameterOf(spec, "l2") * weights[e]);
      sum += g[e] * g[e];
    }
    double& accumulator = a[static_cast<size_t>(row)];
    accumulator += sum / static_cast<double>(weights.size());
    for (size_t e = 0; e < weights.size(); ++e) {
      weights[e] -=
          spec.learning_rate() * g[e] / (std::sqrt(accumulator) + ParameterOf(spec, "epsilon"));
    }
  }
};

}  // namespace

TEST_CASE("row-wise Adagrad keeps one mean of squares a row, by its formula") {
  for (const auto& optimizer : {Rowwise(0, 0, 1e-8), Rowwise(0.03, 0.5, 1e-3)}) {
    for (int64_t dim : {1, 3, 8, 16, 17, 40, 64, 100}) {
      for (bool table : {true, false}) {
        proto::VariableSpec variable = VariableOf("t", {9, dim}, table, optimizer);
        variable.mutable_initializer()->set_kind("normal");
        const auto shard = Make(WholeOf(variable));
        CHECK(shard->part(1).WholeShape(shard->layout()) == Shape{9});
        Reference reference;
        const std::vector<float> initial = ValuesOf<float>(shard->Read().value());
        for (int64_t r = 0; r < 9; ++r) {
          reference.w.emplace_back(initial.begin() + r * dim, initial.begin() + (r + 1) * dim);
        }
        reference.a.assign(9, ParameterOf(optimizer, "initial_accumulator"));
        for (uint64_t step = 0; step < 5; ++step) {
          const std::vector<int64_t> ids = {8, 0, static_cast<int64_t>(2 + step), 1};
          const Tensor some = RandomTensor(Shape{4, dim}, step);
          Apply(shard.get(), UpdateOf(Kind::kSparse, 1, some, Ids(ids)));
          for (size_t i = 0; i < 4; ++i) {
            reference.Step(optimizer, ids[i], some.data<float>() + i * static_cast<size_t>(dim));
          }
          const Tensor all = RandomTensor(Shape{9, dim}, 100 + step);
          Apply(shard.get(), UpdateOf(Kind::kDense, 1, all));
          for (int64_t r = 0; r < 9; ++r) {
            reference.Step(optimizer, r, all.data<float>() + r * dim);
          }
        }
        INFO("dim " << dim << " table " << table);
        const std::vector<float> weights = ValuesOf<float>(shard->Read().value());
        const std::vector<float> slot = ValuesOf<float>(shard->ReadRows(0, 9, 1).value());
        for (int64_t i = 0; i < 9 * dim; ++i) {
          const double wanted =
              reference.w[static_cast<size_t>(i / dim)][static_cast<size_t>(i % dim)];
          CHECK(weights[static_cast<size_t>(i)] == Approx(wanted).margin(2e-6));
        }
        for (size_t r = 0; r < 9; ++r) CHECK(slot[r] == Approx(reference.a[r]).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("row-wise Adagrad's rows do not depend on how a table is split") {
  proto::VariableSpec variable = VariableOf("t", {23, 20}, true, Rowwise(0.01, 0, 1e-8));
  std::vector<std::vector<float>> results;
  for (int count : {1, 3}) {
    std::vector<float> all(23 * 21);
    for (const proto::ShardSpec& spec : SplitOf(variable, count, "mod")) {
      const auto shard = Make(spec);
      for (uint64_t step = 0; step < 3; ++step) {
        const Tensor gradient = RandomTensor(Shape{23, 20}, step);
        for (int64_t r = 0; r < shard->rows(); ++r) {
          const int64_t row = shard->layout().ToGlobal(r);
          Apply(shard.get(),
                UpdateOf(Kind::kSparse, spec.id(), gradient.SliceRows(row, row + 1), Ids({r})));
        }
      }
      for (int64_t r = 0; r < shard->rows(); ++r) {
        float* to = all.data() + shard->layout().ToGlobal(r) * 21;
        std::copy_n(ValuesOf<float>(shard->ReadRows(r, 1).value()).data(), 20, to);
        to[20] = ValuesOf<float>(shard->ReadRows(r, 1, 1).value())[0];
      }
    }
    results.push_back(all);
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("row-wise Adagrad's memory is one number a row beside the weights") {
  const auto memory = [](const std::string& optimizer) {
    return Make(WholeOf(VariableOf("t", {100, 64}, true, OptimizerOf(optimizer))))->memory_bytes();
  };
  CHECK(memory("rowwise_adagrad") == 100 * (64 * 4 + 16));  // the number, "touched", and 4 to align
  CHECK(memory("adagrad") == 100 * (2 * 64 * 4 + 8));
}

}  // namespace coxswain::ps
