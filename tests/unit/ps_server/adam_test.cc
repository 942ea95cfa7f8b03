// `adam` on tables: TensorFlow's meaning, in which all rows move with each update.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/optimizers/optimizer_spec.h"
#include "ps_server/shard.h"
#include "ps_server/shard_snapshot.h"
#include "ps_server/summed_rows.h"
#include "tests/testing/hash_specs.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/shards.h"

namespace coxswain::ps {
namespace {

using Kind = graph::Update::Kind;
using testing::Apply;
using testing::AsFloats;
using testing::HashShardsOf;
using testing::HashTableOf;
using testing::Ids;
using testing::Make;
using testing::OptimizerOf;
using testing::RandomTensor;
using testing::SplitOf;
using testing::UpdateOf;
using testing::ValuesOf;
using testing::VariableOf;
using testing::WholeOf;

graph::Update Sparse(const Shard& shard, const std::vector<int64_t>& ids, uint64_t seed) {
  const Shape shape{static_cast<int64_t>(ids.size()), shard.layout().row_elements()};
  return UpdateOf(Kind::kSparse, shard.id(), RandomTensor(shape, seed), Ids(ids));
}

// The same gradient with zeros where the update names no row, its repetitions added up.
graph::Update Dense(const Shard& shard, const graph::Update& sparse) {
  const int64_t width = shard.layout().row_elements();
  std::vector<float> all(static_cast<size_t>(shard.rows() * width), 0);
  for (int64_t i = 0; i < sparse.values.num_elements(); ++i) {
    const int64_t row = sparse.ids.data<int64_t>()[i / width];
    all[static_cast<size_t>(row * width + i % width)] += sparse.values.data<float>()[i];
  }
  return UpdateOf(Kind::kDense, shard.id(),
                  Tensor::FromVector(all, Shape{shard.rows(), width}).value());
}

proto::VariableSpec TableOf(const proto::OptimizerSpec& optimizer, int64_t rows, int64_t dim) {
  proto::VariableSpec variable = VariableOf("t", {rows, dim}, true, optimizer);
  variable.mutable_initializer()->set_kind("normal");
  return variable;
}

// Weights and slots.
std::vector<std::vector<float>> ValuesIn(const Shard& shard) {
  std::vector<std::vector<float>> parts;
  for (int p = 0; p <= shard.optimizer().slots(); ++p) {
    parts.push_back(AsFloats(shard.ReadRows(0, shard.rows(), p).value()));
  }
  return parts;
}

std::vector<int64_t> TouchedOf(const Shard& shard) {
  return ValuesOf<int64_t>(
      shard.ReadRows(0, shard.rows(), shard.plan().Find(kTouchedPart)).value());
}

std::set<int64_t> IdsIn(const Shard& shard) {
  const auto all = shard.ReadIds(0, shard.rows()).value();
  const std::vector<int64_t> ids = ValuesOf<int64_t>(all.ids);
  return {ids.begin(), ids.end()};
}

const std::vector<std::vector<int64_t>> kSteps = {{3, 18, 0}, {}, {5, 3, 5, 3, 3},
                                                  {22},       {}, {4, 0}};

}  // namespace

TEST_CASE("adam on a table is dense adam with zeros where there is no gradient, bit for bit") {
  for (const double l2 : {0.0, 0.02}) {
    for (const int64_t dim : {1, 5, 8, 16, 19, 32, 64}) {
      proto::OptimizerSpec optimizer = OptimizerOf("adam", 0.05);
      kernels::SetParameter("l2", l2, &optimizer);
      proto::VariableSpec variable = TableOf(optimizer, 23, dim);
      const auto sparse = Make(WholeOf(variable)), table = Make(WholeOf(variable));
      variable.set_table(false);
      const auto dense = Make(WholeOf(variable)), named = Make(WholeOf(variable));
      for (uint64_t step = 0; step < kSteps.size(); ++step) {
        const graph::Update update = Sparse(*sparse, kSteps[step], step);
        Apply(sparse.get(), update);
        Apply(named.get(), update);
        Apply(table.get(), Dense(*table, update));
        Apply(dense.get(), Dense(*dense, update));
      }
      CAPTURE(l2, dim);
      CHECK((ValuesIn(*sparse) == ValuesIn(*dense)));
      CHECK((ValuesIn(*named) == ValuesIn(*dense)));
      CHECK((ValuesIn(*table) == ValuesIn(*dense)));
    }
  }
}

TEST_CASE("adam on a table in bf16 is the dense update, with either rounding") {
  for (const char* rounding : {"nearest", "stochastic"}) {
    for (const int64_t dim : {3, 8, 16, 40}) {
      proto::VariableSpec variable = TableOf(OptimizerOf("adam", 0.05), 23, dim);
      variable.set_dtype(static_cast<int32_t>(DType::kBF16));
      variable.set_rounding(rounding);
      const auto sparse = Make(WholeOf(variable)), dense = Make(WholeOf(variable));
      for (uint64_t step = 0; step < kSteps.size(); ++step) {
        const graph::Update update = Sparse(*sparse, kSteps[step], step);
        Apply(sparse.get(), update);
        Apply(dense.get(), Dense(*dense, update));
      }
      CAPTURE(rounding, dim);
      CHECK((ValuesIn(*sparse) == ValuesIn(*dense)));
    }
  }
}

TEST_CASE("adam on a table touches the rows that can have moved: those that ever had a gradient") {
  proto::OptimizerSpec optimizer = OptimizerOf("adam");
  const auto shard = Make(WholeOf(TableOf(optimizer, 6, 16)));
  Apply(shard.get(), Sparse(*shard, {1, 4}, 1));
  CHECK(TouchedOf(*shard) == std::vector<int64_t>{0, 1, 0, 0, 1, 0});
  const auto snapshot = shard->Snapshot();
  const auto before = ValuesIn(*shard);
  Apply(shard.get(), Sparse(*shard, {}, 2));
  Apply(shard.get(), Sparse(*shard, {2}, 3));
  CHECK(TouchedOf(*shard) == std::vector<int64_t>{0, 3, 3, 0, 3, 0});
  CHECK((ValuesIn(*shard) != before));
  for (int p = 0; p <= 2; ++p) {
    CHECK(AsFloats(snapshot->ReadRows(0, 6, p).value()) == before[static_cast<size_t>(p)]);
  }
  kernels::SetParameter("l2", 0.1, &optimizer);  // its gradient is nowhere zero
  const auto decays = Make(WholeOf(TableOf(optimizer, 3, 16)));
  Apply(decays.get(), Sparse(*decays, {1}, 1));
  CHECK(TouchedOf(*decays) == std::vector<int64_t>{1, 1, 1});
}

TEST_CASE("the moments of a row that gets no gradients any more end as zeros, not as denormals") {
  for (const bool table : {true, false}) {
    proto::OptimizerSpec optimizer = OptimizerOf("adam");
    kernels::SetParameter("beta2", 0.9,
                          &optimizer);  // it would take 100,000 updates with the default
    proto::VariableSpec variable = TableOf(optimizer, 2, 16);
    variable.set_table(table);
    const auto shard = Make(WholeOf(variable));
    Apply(shard.get(), Sparse(*shard, {0, 1}, 1));
    for (int step = 0; step < 1000; ++step) Apply(shard.get(), Sparse(*shard, {1}, 2));
    const auto all = ValuesIn(*shard);
    for (size_t e = 0; e < 16; ++e) {
      CHECK(all[1][e] == 0);
      CHECK(all[2][e] == 0);
      CHECK(std::isnormal(all[1][16 + e]));
    }
    Apply(shard.get(), Sparse(*shard, {1}, 3));
    const auto after = ValuesIn(*shard);
    CHECK(std::equal(after[0].begin(), after[0].begin() + 16, all[0].begin()));
  }
}

TEST_CASE("hash table: a row that only decays was not used, so adam evicts whom lazy adam does") {
  std::vector<proto::HashTableSpec> kinds(4);
  kinds[0].set_ttl_steps(9);
  kinds[1].set_max_rows(30);
  kinds[2].set_max_rows(30);
  kinds[2].set_evict("frequency");
  kinds[3].set_ttl_steps(15);
  kinds[3].set_min_count(2);
  for (const proto::HashTableSpec& kind : kinds) {
    CAPTURE(kind.ShortDebugString());
    const auto adam = Make(HashShardsOf(HashTableOf("t", 4, OptimizerOf("adam"), kind), 1)[0]);
    const auto lazy = Make(HashShardsOf(HashTableOf("t", 4, OptimizerOf("lazy_adam"), kind), 1)[0]);
    std::mt19937_64 random(4);
    for (uint64_t step = 0; step < 120; ++step) {
      std::set<int64_t> drawn;
      while (drawn.size() < 6) {
        drawn.insert(static_cast<int64_t>(std::pow(random() % 100, 1.5)));
      }
      const std::vector<int64_t> ids(drawn.begin(), drawn.end());
      Apply(adam.get(), Sparse(*adam, ids, step));
      Apply(lazy.get(), Sparse(*lazy, ids, step));
      REQUIRE(IdsIn(*adam) == IdsIn(*lazy));
    }
    CHECK(adam->hash()->evicted() > 50);
    CHECK(adam->hash()->evicted() == lazy->hash()->evicted());
    // All rows were changed by the last update; those that went kept the number of theirs.
    const std::vector<int64_t> touched = TouchedOf(*adam);
    for (int64_t place = 0; place < adam->rows(); ++place) {
      if (!adam->hash()->IsFree(place)) CHECK(touched[static_cast<size_t>(place)] == 120);
    }
  }
}

TEST_CASE("adam on a table that was restored goes on bit for bit") {
  proto::HashTableSpec limited;
  limited.set_max_rows(20);
  const std::vector<proto::ShardSpec> specs = {
      WholeOf(TableOf(OptimizerOf("adam"), 40, 6)),
      SplitOf(TableOf(OptimizerOf("adam"), 81, 6), 2, "mod")[0],
      HashShardsOf(HashTableOf("t", 6, OptimizerOf("adam"), limited), 1)[0]};
  for (const proto::ShardSpec& spec : specs) {
    const auto shard = Make(spec);
    const auto step = [](Shard* to, uint64_t number) {
      std::mt19937_64 random(number);
      std::set<int64_t> drawn;
      while (drawn.size() < 3) drawn.insert(static_cast<int64_t>(random() % 40));
      Apply(to, Sparse(*to, {drawn.begin(), drawn.end()}, number));
    };
    uint64_t number = 0;
    for (; number < 30; ++number) step(shard.get(), number);
    const auto snapshot = shard->Snapshot();
    auto restored = Shard::Create(spec, Shard::Fill::kZeros).value();
    if (snapshot->hash()) REQUIRE(restored->PrepareRestore(*snapshot->hash()).ok());
    for (int p = 0; p < shard->parts(); ++p) {
      const Tensor rows = snapshot->ReadRows(0, snapshot->rows(), p).value();
      REQUIRE(restored->WriteRows(0, rows, p).ok());
    }
    if (snapshot->hash()) {
      REQUIRE(restored->FinishRestore(*snapshot->hash(), snapshot->waiting()).ok());
    }
    REQUIRE(restored->RestoreCounters(snapshot->applied(), snapshot->gradient_steps()).ok());
    for (; number < 60; ++number) {
      step(shard.get(), number);
      step(restored.get(), number);
    }
    CAPTURE(spec.strategy());
    CHECK((ValuesIn(*restored) == ValuesIn(*shard)));
    CHECK(TouchedOf(*restored) == TouchedOf(*shard));
    if (snapshot->hash()) CHECK(IdsIn(*restored) == IdsIn(*shard));
  }
}

TEST_CASE("summed rows are ascending, and repetitions add up in their order") {
  const std::vector<int64_t> ids = {7, 2, 7, 9, 2, 7};
  const std::vector<double> gradient = {1, 10, 2, 20, 1e17, 30, 4, 40, 5, 50, -1e17, 60};
  const SummedRows<double> summed(ids.data(), 6, gradient.data(), 2);
  REQUIRE(summed.rows().size() == 3);
  CHECK(summed.rows()[0].row == 2);
  CHECK(summed.rows()[0].values[0] == 7);
  CHECK(summed.rows()[0].values[1] == 70);
  CHECK(summed.rows()[1].row == 7);
  CHECK(summed.rows()[1].values[0] == 1 + 1e17 - 1e17);
  CHECK(summed.rows()[1].values[1] == 100);
  CHECK(summed.rows()[2].row == 9);
  CHECK(summed.rows()[2].values == gradient.data() + 6);
  CHECK(SummedRows<double>(nullptr, 0, nullptr, 2).rows().empty());
}

}  // namespace coxswain::ps
