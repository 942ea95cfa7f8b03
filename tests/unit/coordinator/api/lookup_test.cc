#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/api/table_words.h"
#include "coordinator/api/variable_info.h"
#include "tests/testing/cluster.h"

namespace coxswain {
namespace {

using testing::Floats;
using testing::Must;
using testing::MustStart;
using testing::Same;
using testing::ToVector;

constexpr int64_t kRows = 11, kDim = 3;

float RowValue(int64_t row, int64_t column) {
  return static_cast<float>(row) + 0.25f * static_cast<float>(column) - 4;
}

Tensor WholeTable() {
  Tensor t(DType::kF32, Shape{kRows, kDim});
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kDim; ++c) t.mutable_data<float>()[r * kDim + c] = RowValue(r, c);
  }
  return t;
}

Tensor DenseRows(const std::vector<int64_t>& ids, Shape shape) {
  std::vector<float> values;
  for (int64_t id : ids) {
    for (int64_t c = 0; c < kDim; ++c) values.push_back(RowValue(id, c));
  }
  shape.Append(kDim);
  return Tensor::FromVector(values, shape).value();
}

struct Layout {
  std::string name;
  Partitioner partitioner;
  std::string strategy;
  int64_t shards;
};

// Each number of shards from 1 to 5, by each kind of partitioner, in each strategy.
std::vector<Layout> Layouts() {
  const int64_t row = kDim * 4;
  std::vector<Layout> layouts;
  for (const char* strategy : {"mod", "div", "hash"}) {
    for (int64_t n = 1; n <= 5; ++n) {
      layouts.push_back({absl::StrCat(strategy, " fixed ", n), FixedShards(n), strategy, n});
      layouts.push_back(
          {absl::StrCat(strategy, " min size ", n), MinSize(kRows / n * row, n), strategy, n});
    }
    // 11 rows in shards of at most 11, 6, 4, 3 rows.
    const std::vector<std::pair<int64_t, int64_t>> most = {{11, 1}, {6, 2}, {4, 3}, {3, 4}};
    for (const auto& [rows, shards] : most) {
      layouts.push_back(
          {absl::StrCat(strategy, " max size ", rows), MaxSize(rows * row), strategy, shards});
    }
    layouts.push_back({absl::StrCat(strategy, " max size, bounded"), MaxSize(1, 5), strategy, 5});
  }
  return layouts;
}

class TableFixture {
 public:
  TableFixture() : cluster_(MustStart(2, 1)), strategy_(cluster_), coordinator_(strategy_) {}

  EmbeddingTable NewTable(const Layout& layout, const OptimizerSpec& optimizer = {}) {
    TableOptions options;
    options.rows = kRows;
    options.dim = kDim;
    options.partitioner = layout.partitioner;
    options.sharding = Must(ParseSharding(layout.strategy));
    options.optimizer = optimizer;
    const EmbeddingTable table =
        Must(strategy_.CreateTable(absl::StrCat("table ", ++tables_), options));
    CHECK(static_cast<int64_t>(table.info().shards.size()) == layout.shards);
    Must(strategy_.Assign(table, WholeTable()));
    return table;
  }

  RemoteFunction Define(const std::function<void(FunctionBuilder&)>& build) {
    return Must(strategy_.Define("f", build));
  }

  std::vector<Tensor> Run(const RemoteFunction& f, std::vector<Tensor> arguments = {}) {
    auto results = coordinator_.Schedule(f, std::move(arguments)).Get();
    Must(coordinator_.Join());
    return Must(std::move(results));
  }

 protected:
  Cluster cluster_;
  ParameterServerStrategy strategy_;
  ClusterCoordinator coordinator_;
  int tables_ = 0;
};

TEST_CASE_METHOD(TableFixture, "a sharded lookup gives the rows of the dense table", "[lookup]") {
  const std::vector<std::vector<int64_t>> lists = {
      {}, {0}, {10}, {3, 3, 3}, {10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, {5, 0, 5, 10, 0, 1}};
  for (const Layout& layout : Layouts()) {
    INFO(layout.name);
    const EmbeddingTable table = NewTable(layout);
    CHECK(Same(Must(strategy_.Read(table)), WholeTable()));
    const RemoteFunction f = Define([&](FunctionBuilder& g) {
      Output ids = g.Argument("ids", DType::kI64, Shape{kUnknownDim});
      Output matrix = g.Argument("matrix", DType::kI64, Shape{kUnknownDim, 2});
      g.Result("rows", g.Lookup(table, ids));
      const std::vector<Output> both = g.Lookup(table, {ids, matrix});
      g.Result("both 0", both[0]);
      g.Result("both 1", both[1]);
      g.Result("whole", g.Read(table));
    });
    for (const auto& list : lists) {
      const std::vector<int64_t> matrix = {4, 4, 10, 0, 2, 4};
      const auto results =
          Run(f, {Tensor::FromVector(list), Tensor::FromVector(matrix, Shape{3, 2}).value()});
      const Tensor wanted = DenseRows(list, Shape{static_cast<int64_t>(list.size())});
      CHECK(Same(results[0], wanted));
      CHECK(Same(results[1], wanted));
      CHECK(Same(results[2], DenseRows(matrix, Shape{3, 2})));
      CHECK(Same(results[3], WholeTable()));
    }
  }
}

// Bags of ids 0 .. n-1 by offsets, combined in the plainest way.
std::vector<float> DenseBags(const std::vector<int64_t>& ids, const std::vector<int32_t>& offsets,
                             const std::vector<float>& weights, const std::string& combiner) {
  std::vector<float> out;
  for (size_t b = 0; b + 1 < offsets.size(); ++b) {
    for (int64_t c = 0; c < kDim; ++c) {
      double sum = 0, weight = 0, squares = 0;
      for (int32_t i = offsets[b]; i < offsets[b + 1]; ++i) {
        const double w = weights.empty() ? 1 : weights[i];
        sum += w * RowValue(ids[i], c);
        weight += w;
        squares += w * w;
      }
      if (combiner == "mean" && weight != 0) sum /= weight;
      if (combiner == "sqrtn" && squares != 0) sum /= std::sqrt(squares);
      out.push_back(static_cast<float>(sum));
    }
  }
  return out;
}

TEST_CASE_METHOD(TableFixture, "sharded bags give the sums, means and root-n means of the rows",
                 "[lookup]") {
  // Duplicates within a bag and between bags, an empty bag, a bag of one.
  const std::vector<int64_t> ids = {1, 1, 10, 4, 0, 4, 1, 9};
  const std::vector<int32_t> offsets = {0, 3, 3, 4, 8};
  const std::vector<float> weights = {0.5f, 2, 1, 3, 1, 1, 0.25f, 4};
  for (const Layout& layout : Layouts()) {
    if (!absl::StrContains(layout.name, "fixed")) continue;
    INFO(layout.name);
    const EmbeddingTable table = NewTable(layout);
    const std::vector<std::string> combiners = {"sum", "mean", "sqrtn"};
    const RemoteFunction f = Define([&](FunctionBuilder& g) {
      Output v = g.Argument("values", DType::kI64, Shape{kUnknownDim});
      Output o = g.Argument("offsets", DType::kI32, Shape{kUnknownDim});
      Output w = g.Argument("weights", DType::kF32, Shape{kUnknownDim});
      for (const std::string& combiner : combiners) {
        g.Result(combiner, g.LookupBag(table, v, o, Must(ParseCombiner(combiner))));
        g.Result(combiner + " weighted",
                 g.LookupBag(table, v, o, Must(ParseCombiner(combiner)), w));
      }
    });
    const auto results =
        Run(f, {Tensor::FromVector(ids), Tensor::FromVector(offsets), Floats(weights)});
    for (size_t i = 0; i < combiners.size(); ++i) {
      for (size_t weighted = 0; weighted < 2; ++weighted) {
        INFO(combiners[i] << (weighted ? " weighted" : ""));
        const auto wanted =
            DenseBags(ids, offsets, weighted ? weights : std::vector<float>{}, combiners[i]);
        const Tensor& found = results[2 * i + weighted];
        REQUIRE(found.shape() == Shape{4, kDim});
        for (size_t k = 0; k < wanted.size(); ++k) {
          CHECK(found.data<float>()[k] == Approx(wanted[k]).epsilon(1e-6).margin(1e-6));
        }
      }
    }
  }
}

TEST_CASE_METHOD(TableFixture, "training gives the same table for every layout of its shards",
                 "[lookup]") {
  const std::vector<OptimizerSpec> optimizers = {
      Sgd{.learning_rate = 0.1}, Adagrad{.learning_rate = 0.5}, LazyAdam{.learning_rate = 0.05},
      Ftrl{.learning_rate = 0.1}};
  for (const OptimizerSpec& optimizer : optimizers) {
    Tensor one_shard;
    for (const Layout& layout : Layouts()) {
      if (absl::StrContains(layout.name, "size") && optimizer.proto().kind() != "sgd") continue;
      INFO(optimizer.proto().kind() << ", " << layout.name);
      const EmbeddingTable table = NewTable(layout, optimizer);
      // Duplicates in a list, rows in two lists, two lookups of one table, a bag, and rows never
      // used.
      const RemoteFunction step = Define([&](FunctionBuilder& g) {
        Output ids = g.Argument("ids", DType::kI64, Shape{kUnknownDim});
        Output other = g.Argument("other", DType::kI64, Shape{kUnknownDim});
        const std::vector<Output> both = g.Lookup(table, {ids, other});
        Output bag = g.LookupBag(table, ids, g.Constant(Tensor::FromVector<int32_t>({0, 2, 6})),
                                 Combiner::kMean);
        Output loss =
            g.Add(g.Sum(g.Square(both[0])),
                  g.Add(g.Mean(g.Tanh(both[1])), g.Sum(g.Square(g.Sub(bag, g.Scalar(2))))));
        g.Minimize(loss);
        g.Result("loss", loss);
      });
      for (int64_t i = 0; i < 3; ++i) {
        Run(step, {Tensor::FromVector<int64_t>({i, 5, 5, 8, i, 2}),
                   Tensor::FromVector<int64_t>({5, 10, 10 - i})});
      }
      const Tensor trained = Must(strategy_.Read(table));
      if (!one_shard.has_value()) {
        REQUIRE(layout.shards == 1);
        one_shard = trained;
        CHECK_FALSE(Same(trained, WholeTable()));
        for (int64_t c = 0; c < kDim; ++c) {  // row 7 was never used
          CHECK(trained.data<float>()[7 * kDim + c] == RowValue(7, c));
        }
      }
      CHECK(ToVector<float>(trained) == ToVector<float>(one_shard));
    }
  }
}

TEST_CASE_METHOD(TableFixture, "an id outside the table is an error that names it", "[lookup]") {
  const EmbeddingTable table = NewTable({"", FixedShards(2), "mod", 2});
  const RemoteFunction f = Define([&](FunctionBuilder& g) {
    g.Result("rows", g.Lookup(table, g.Argument("ids", DType::kI64, Shape{kUnknownDim})));
  });
  for (int64_t bad : {int64_t{-1}, kRows, int64_t{1} << 40}) {
    const auto results = coordinator_.Schedule(f, {Tensor::FromVector<int64_t>({0, bad})}).Get();
    CHECK(results.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(results.status().message(), absl::StrCat("id ", bad)));
    CHECK_FALSE(coordinator_.Join().ok());
  }
  CHECK(Same(Run(f, {Tensor::FromVector<int64_t>({10})})[0], DenseRows({10}, Shape{1})));
}

}  // namespace
}  // namespace coxswain
