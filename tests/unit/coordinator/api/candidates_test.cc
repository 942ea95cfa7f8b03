// Retrieval without reading the table: FactorizedRank and FactorizedTopK.
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/table_words.h"
#include "coordinator/api/variable_info.h"
#include "runtime/function/partition.h"
#include "tests/testing/cluster.h"
#include "tests/testing/ps_specs.h"

namespace coxswain {
namespace {

using testing::Must;
using testing::MustStart;
using testing::RandomTensor;

constexpr int64_t kRows = 23, kDim = 4, kCandidates = 21, kExamples = 5;

EmbeddingTable TableOf(ParameterServerStrategy* strategy, const std::string& name, int64_t dim,
                       const char* sharding, int shards, uint64_t seed) {
  TableOptions options;
  options.rows = kRows;
  options.dim = dim;
  options.sharding = Must(ParseSharding(sharding));
  options.initializer = NormalInit(1, seed);
  options.partitioner = FixedShards(shards);
  return Must(strategy->CreateTable(name, options));
}

const Tensor kOwn = Tensor::FromVector<int64_t>({0, 7, 20, 22, 3});
const Tensor kValues = Tensor::FromVector<int64_t>({1, 2, 3, 3, 22, 7, 4, 5, 6});
const Tensor kOffsets = Tensor::FromVector<int32_t>({0, 3, 6, 6, 6, 9});

// The function's results: what the parameter servers say, and the same of all scores.
std::vector<Tensor> RankedBothWays(ParameterServerStrategy* strategy, const EmbeddingTable& items,
                                   const EmbeddingTable* bias, bool normalize) {
  ClusterCoordinator coordinator(*strategy);
  const RemoteFunction f = Must(strategy->Define("rank", [&](FunctionBuilder& g) {
    const Output x = g.Argument("x", DType::kF32, Shape{kUnknownDim, kDim});
    const Output own = g.Argument("own", DType::kI64, Shape{kUnknownDim});
    CandidateOptions options;
    options.count = kCandidates;
    options.normalize = normalize;
    options.bias = bias;
    options.exclude_values = g.Argument("values", DType::kI64, Shape{kUnknownDim});
    options.exclude_offsets = g.Argument("offsets", DType::kI32, Shape{kUnknownDim});
    Output rows = g.Read(items);
    if (normalize) {
      const Output square = g.Op("ReduceSum", {g.Square(rows)},
                                 {{"axes", std::vector<int64_t>{1}}, {"keep_dims", true}});
      rows = g.Mul(rows, g.Op("Rsqrt", {square}));
    }
    Output scores = g.MatMul(x, rows, false, true);
    if (bias != nullptr) scores = g.Add(scores, g.Reshape(g.Read(*bias), {-1}));
    g.Result("on ps", g.FactorizedRank(x, items, own, options));
    g.Result("of all",
             g.Op("MaskedRank", {scores, own, options.exclude_values, options.exclude_offsets},
                  {{"candidates", kCandidates}}));
    options.exclude_values = options.exclude_offsets = {};
    const FunctionBuilder::TopCandidates top = g.FactorizedTopK(x, items, 4, options);
    g.Result("scores", top.scores);
    g.Result("ids", top.ids);
    g.Result("all scores", scores);
  }));
  return Must(
      coordinator.Schedule(f, {RandomTensor(Shape{kExamples, kDim}, 1), kOwn, kValues, kOffsets})
          .Get());
}

void CheckBest(const Tensor& scores, const Tensor& ids, const Tensor& all) {
  for (int64_t i = 0; i < kExamples; ++i) {
    double above = std::numeric_limits<double>::infinity();
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t id = ids.data<int64_t>()[i * 4 + k];
      REQUIRE(id >= 0);
      REQUIRE(id < kCandidates);
      const double score = scores.data<float>()[i * 4 + k];
      CHECK(score == Approx(all.data<float>()[i * kRows + id]).margin(1e-5));
      CHECK(score <= above);
      above = score;
    }
    int64_t better = 0;
    for (int64_t id = 0; id < kCandidates; ++id) {
      better += all.data<float>()[i * kRows + id] > above + 1e-5;
    }
    CHECK(better <= 3);
  }
}

TEST_CASE("candidates are ranked by their parameter servers as by all scores", "[api]") {
  Cluster cluster = MustStart(2, 1);
  ParameterServerStrategy strategy(cluster);
  for (const char* sharding : {"div", "mod", "hash"}) {
    for (const int shards : {1, 3}) {
      for (const int bias_shards : {0, 1, 3}) {
        for (const bool normalize : {false, true}) {
          const std::string name = absl::StrCat(sharding, shards, bias_shards, normalize);
          INFO(name);
          const EmbeddingTable items =
              TableOf(&strategy, absl::StrCat("items", name), kDim, sharding, shards, 3);
          EmbeddingTable bias;
          if (bias_shards > 0) {
            bias = TableOf(&strategy, absl::StrCat("bias", name), 1, sharding, bias_shards, 4);
          }
          const std::vector<Tensor> found =
              RankedBothWays(&strategy, items, bias_shards > 0 ? &bias : nullptr, normalize);
          for (int64_t i = 0; i < kExamples; ++i) {
            CHECK(found[0].data<int64_t>()[i] == found[1].data<int64_t>()[i]);
          }
          CheckBest(found[2], found[3], found[4]);
        }
      }
    }
  }
}

TEST_CASE("biases stay where they are while their parameter servers rank the items", "[api]") {
  Cluster cluster = MustStart(2, 1);
  ParameterServerStrategy strategy(cluster);
  // Of two shards of other sizes each time, so that neither server has the fewest bytes for long.
  TableOf(&strategy, "users", 3, "mod", 2, 1);
  const EmbeddingTable items = TableOf(&strategy, "items", kDim, "mod", 2, 3);
  TableOf(&strategy, "users_bias", 1, "mod", 2, 1);
  const EmbeddingTable bias = TableOf(&strategy, "items_bias", 1, "mod", 2, 4);
  for (size_t s = 0; s < 2; ++s) {
    CHECK(items.info().shards[s].ps() == bias.info().shards[s].ps());
  }
  const RemoteFunction f = Must(strategy.Define("rank", [&](FunctionBuilder& g) {
    const Output x = g.Argument("x", DType::kF32, Shape{kUnknownDim, kDim});
    const Output own = g.Argument("own", DType::kI64, Shape{kUnknownDim});
    CandidateOptions options;
    options.bias = &bias;
    g.Result("rank", g.FactorizedRank(x, items, own, options));
  }));
  int ranking = 0;
  for (const auto& segments : f.partition().segments) {
    for (const graph::Function& segment : segments) {
      for (const auto& result : segment.results) {
        CHECK(segment.graph.node(result.output.node).op != "ReadVariable");
      }
      for (const graph::Node& node : segment.graph.nodes()) {
        if (node.op != "RankShard") continue;
        ++ranking;
        CHECK(segment.graph.node(node.inputs[5].node).op == "ReadVariable");
      }
    }
  }
  CHECK(ranking == 2);
}

TEST_CASE("candidates of a table want row numbers, a count that it has, and a bias that fits",
          "[api]") {
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  const EmbeddingTable items = TableOf(&strategy, "items", kDim, "div", 2, 3);
  TableOptions hash;
  hash.dim = kDim;
  hash.hash = HashTableOptions{};
  const EmbeddingTable hashed = Must(strategy.CreateTable("hashed", hash));
  const auto error = [&](const EmbeddingTable& table, const CandidateOptions& options) {
    return std::string(
        strategy
            .Define("f",
                    [&](FunctionBuilder& g) {
                      const Output x = g.Argument("x", DType::kF32, Shape{kUnknownDim, kDim});
                      g.Result("ids", g.FactorizedTopK(x, table, 2, options).ids);
                    })
            .status()
            .message());
  };
  CHECK(error(items, {}) == "");
  CHECK_THAT(error(hashed, {}), Catch::Contains("'hashed' is a hash table"));
  CandidateOptions options;
  options.count = kRows + 1;
  CHECK_THAT(error(items, options), Catch::Contains("wanted a count of -1 to 23, found 24"));
  options = {};
  options.bias = &items;
  CHECK_THAT(error(items, options),
             Catch::Contains("wanted a bias of one number for each of 23 rows, found 'items'"));
}

}  // namespace
}  // namespace coxswain
