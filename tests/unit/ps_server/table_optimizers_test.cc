// Every optimizer that a table can have, on fixed and hash tables in f32 and bf16, with
// regularisation and a schedule, against the papers' formulas.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/optimizers/optimizer_info.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "ps_server/shard.h"
#include "tests/testing/hash_specs.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/reference_optimizer.h"
#include "tests/testing/shards.h"

namespace coxswain::ps {
namespace {

using Kind = graph::Update::Kind;
using testing::Apply;
using testing::Element;
using testing::HashShardsOf;
using testing::HashTableOf;
using testing::Ids;
using testing::Make;
using testing::OptimizerOf;
using testing::RandomTensor;
using testing::ReferenceRowStep;
using testing::UpdateOf;
using testing::ValuesOf;
using testing::VariableOf;
using testing::WholeOf;

constexpr int64_t kRows = 12;

struct Case {
  proto::OptimizerSpec optimizer;
  bool hash = false;
  DType dtype = DType::kF32;
  int64_t dim = 1;
};

std::unique_ptr<Shard> MakeTable(const Case& c) {
  proto::VariableSpec variable = c.hash ? HashTableOf("t", c.dim, c.optimizer)
                                        : VariableOf("t", {kRows, c.dim}, true, c.optimizer);
  variable.set_dtype(static_cast<int32_t>(c.dtype));
  variable.mutable_initializer()->set_kind("normal");
  variable.mutable_initializer()->set_seed(5);
  return Make(c.hash ? HashShardsOf(variable, 1)[0] : WholeOf(variable));
}

std::vector<int64_t> AllIds() {
  std::vector<int64_t> ids(kRows);
  for (int64_t i = 0; i < kRows; ++i) ids[static_cast<size_t>(i)] = i;
  return ids;
}

// Rows as the formulas have them, from those of the shard on.
std::vector<std::vector<Element>> Reference(const Case& c, const Shard& shard) {
  const std::vector<float> initial = ValuesOf<float>(shard.Gather(Ids(AllIds())).value());
  std::vector<std::vector<Element>> rows(kRows);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t e = 0; e < static_cast<size_t>(c.dim); ++e) {
      Element element;
      element.w = initial[r * static_cast<size_t>(c.dim) + e];
      const Optimizer& optimizer = shard.optimizer();
      if (optimizer.slots() > 0) element.s0 = optimizer.slot_initial(0);
      if (optimizer.slots() > 1) element.s1 = optimizer.slot_initial(1);
      rows[r].push_back(element);
    }
  }
  return rows;
}

// The largest difference to the formulas after 12 updates of some rows each, relative to
// 1 + |weight|.
double LargestError(const Case& c) {
  const auto shard = MakeTable(c);
  std::vector<std::vector<Element>> rows = Reference(c, *shard);
  std::set<int64_t> made;
  std::mt19937_64 random(3);
  for (int64_t t = 1; t <= 12; ++t) {
    std::set<int64_t> drawn;
    while (drawn.size() < 4) drawn.insert(static_cast<int64_t>(random() % (kRows - 1)));
    const std::vector<int64_t> ids(drawn.begin(), drawn.end());
    made.insert(ids.begin(), ids.end());
    const Tensor values = RandomTensor(Shape{4, c.dim}, static_cast<uint64_t>(t));
    Apply(shard.get(), UpdateOf(Kind::kSparse, 1, values, Ids(ids)));
    const double lr = shard->optimizer().LearningRate(t - 1);
    for (int64_t r = 0; r < kRows; ++r) {
      std::vector<double> g(static_cast<size_t>(c.dim), 0);
      const auto at = std::find(ids.begin(), ids.end(), r);
      for (size_t e = 0; at != ids.end() && e < g.size(); ++e) {
        g[e] = values.data<float>()[(at - ids.begin()) * c.dim + static_cast<int64_t>(e)];
      }
      // All rows that there are take adam's step; others only with a gradient.
      const bool moves = shard->optimizer().SparseMovesAllRows() && (!c.hash || made.count(r) > 0);
      if (at == ids.end() && !moves) continue;
      std::vector<Element>& row = rows[static_cast<size_t>(r)];
      ReferenceRowStep(c.optimizer, lr, g, t, &row);
      for (Element& e : row) {
        if (c.dtype == DType::kBF16) e.w = BFloat16::FromFloat(static_cast<float>(e.w)).ToFloat();
      }
    }
  }
  const std::vector<float> found = ValuesOf<float>(shard->Gather(Ids(AllIds())).value());
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const size_t dim = static_cast<size_t>(c.dim);
    const double wanted = rows[i / dim][i % dim].w;
    const double error = std::abs(static_cast<double>(found[i]) - wanted) / (1 + std::abs(wanted));
    worst = std::isnan(error) ? 1e9 : std::max(worst, error);
  }
  return worst;
}

// Whatever is in the list.
std::vector<proto::OptimizerSpec> Optimizers() {
  std::vector<proto::OptimizerSpec> specs;
  for (const kernels::OptimizerInfo& info : kernels::AllOptimizers()) {
    const auto has = [&](absl::string_view name) {
      return std::any_of(info.parameters.begin(), info.parameters.end(),
                         [&](const auto& parameter) { return parameter.name == name; });
    };
    for (const double l2 : {0.0, 0.05}) {
      for (const char* schedule : {"", "linear_decay", "cosine_decay"}) {
        proto::OptimizerSpec& spec = specs.emplace_back(OptimizerOf(info.kind, 0.05));
        if (has("l2")) kernels::SetParameter("l2", l2, &spec);
        if (has("l1")) kernels::SetParameter("l1", l2, &spec);
        if (*schedule == 0) continue;
        spec.mutable_schedule()->set_kind(schedule);
        spec.mutable_schedule()->set_decay_steps(7);
        spec.mutable_schedule()->set_end_factor(0.2);
        spec.mutable_schedule()->set_warmup_steps(3);
        spec.mutable_schedule()->set_warmup_factor(0.1);
      }
    }
  }
  specs.push_back(OptimizerOf("momentum", 0.05));
  kernels::SetParameter("nesterov", 1, &specs.back());
  return specs;
}

TEST_CASE("every optimizer of a table, fixed or hashed, keeps to its formula in f32") {
  for (const proto::OptimizerSpec& optimizer : Optimizers()) {
    for (const bool hash : {false, true}) {
      for (const int64_t dim : {1, 3, 16, 20}) {
        CAPTURE(optimizer.ShortDebugString(), hash, dim);
        CHECK(LargestError({optimizer, hash, DType::kF32, dim}) < 5e-6);
      }
    }
  }
}

// bf16 has 8 bits: where the formulas are near the middle of two numbers, f32 may come to the other
// one, and later updates go on from there.
TEST_CASE("every optimizer of a table in bf16 keeps to its formula within bf16's units") {
  for (const proto::OptimizerSpec& optimizer : Optimizers()) {
    for (const bool hash : {false, true}) {
      for (const int64_t dim : {3, 16, 20}) {
        CAPTURE(optimizer.ShortDebugString(), hash, dim);
        CHECK(LargestError({optimizer, hash, DType::kBF16, dim}) < 0.01);
      }
    }
  }
}

}  // namespace
}  // namespace coxswain::ps
