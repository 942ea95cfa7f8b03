// Products with variables that stay on their parameter servers.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/api/table_words.h"
#include "coordinator/api/task_statuses.h"
#include "protos/control.pb.h"
#include "protos/variable.pb.h"
#include "runtime/function/partition.h"
#include "tests/testing/cluster.h"
#include "tests/testing/ps_specs.h"

namespace coxswain {
namespace {

using testing::Must;
using testing::MustStart;
using testing::RandomTensor;

void CheckClose(const Tensor& found, const Tensor& wanted) {
  REQUIRE(found.shape() == wanted.shape());
  for (int64_t i = 0; i < wanted.num_elements(); ++i) {
    INFO("element " << i);
    CHECK(found.data<float>()[i] == Approx(wanted.data<float>()[i]).epsilon(1e-5).margin(1e-5));
  }
}

// The ops that run on parameter servers, with how many there are of each.
std::map<std::string, int> OpsOnPs(const RemoteFunction& function) {
  std::map<std::string, int> ops;
  for (const auto& segments : function.partition().segments) {
    for (const graph::Function& segment : segments) {
      for (const graph::Node& node : segment.graph.nodes()) {
        if (node.attrs.contains("shard")) ++ops[node.op];
      }
    }
  }
  return ops;
}

// Updates that each shard has taken.
std::set<uint64_t> UpdatesApplied(const Cluster& cluster) {
  std::set<uint64_t> applied;
  for (const proto::TaskStatus& task : TaskStatuses(cluster)) {
    for (const auto& shard : task.shards()) applied.insert(shard.updates_applied());
  }
  return applied;
}

TEST_CASE("a product with a variable on its PS is the product with the variable read", "[api]") {
  Cluster cluster = MustStart(2, 1);
  ParameterServerStrategy strategy(cluster);
  ClusterCoordinator coordinator(strategy);
  for (int shards = 1; shards <= 5; ++shards) {
    INFO(shards << " shards");
    VariableOptions options;
    options.shape = Shape{11, 6};
    options.initializer = NormalInit(1, 3);
    options.partitioner = FixedShards(shards);
    const Variable w = Must(strategy.CreateVariable(absl::StrCat("w", shards), options));
    const RemoteFunction f = Must(strategy.Define("f", [&](FunctionBuilder& g) {
      const Output x = g.Argument("x", DType::kF32, Shape{kUnknownDim, 11});
      const Output y = g.Argument("y", DType::kF32, Shape{kUnknownDim, 6});
      g.Result("on ps", g.MatMul(x, w));
      g.Result("on ps, transposed", g.MatMul(y, w, true));
      g.Result("read", g.MatMul(x, g.Read(w)));
      g.Result("read, transposed", g.MatMul(y, g.Read(w), false, true));
    }));
    CHECK(OpsOnPs(f).at("MatMulShard") == 2 * shards);
    for (const int64_t rows : {0, 1, 7}) {
      const auto results =
          Must(coordinator
                   .Schedule(f, {RandomTensor(Shape{rows, 11}, 1), RandomTensor(Shape{rows, 6}, 2)})
                   .Get());
      CheckClose(results[0], results[2]);
      CheckClose(results[1], results[3]);
    }
  }
  Must(coordinator.Join());
}

TEST_CASE("a batch is scored against all rows of a table, however they are sharded", "[api]") {
  Cluster cluster = MustStart(2, 1);
  ParameterServerStrategy strategy(cluster);
  ClusterCoordinator coordinator(strategy);
  for (const char* kind : {"mod", "div"}) {
    for (const int shards : {1, 2, 3}) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        INFO(kind << ", " << shards << " shards, " << DTypeName(dtype));
        TableOptions options;
        options.rows = 10;
        options.dim = 4;
        options.sharding = Must(ParseSharding(kind));
        options.dtype = dtype;
        options.initializer = NormalInit(1, 3);
        options.partitioner = FixedShards(shards);
        const EmbeddingTable items =
            Must(strategy.CreateTable(absl::StrCat(kind, shards, DTypeName(dtype)), options));
        const RemoteFunction f = Must(strategy.Define("f", [&](FunctionBuilder& g) {
          const Output x = g.Argument("x", DType::kF32, Shape{kUnknownDim, 4});
          g.Result("on ps", g.MatMul(x, items, true));
          g.Result("read", g.MatMul(x, g.Read(items), false, true));
        }));
        const auto results = Must(coordinator.Schedule(f, {RandomTensor(Shape{3, 4}, 1)}).Get());
        CheckClose(results[0], results[1]);
      }
    }
  }
  Must(coordinator.Join());
}

TEST_CASE("what cannot be multiplied on a PS is refused by name", "[api]") {
  Cluster cluster = MustStart(2, 1);
  ParameterServerStrategy strategy(cluster);
  VariableOptions vector;
  vector.shape = Shape{5};
  const Variable bias = Must(strategy.CreateVariable("bias", vector));
  vector.shape = Shape{5, 2};
  const Variable w = Must(strategy.CreateVariable("w", vector));
  TableOptions table;
  table.rows = 10;
  table.dim = 5;
  table.partitioner = FixedShards(2);
  const EmbeddingTable mod = Must(strategy.CreateTable("items", table));
  table.hash = HashTableOptions();
  const EmbeddingTable hash = Must(strategy.CreateTable("words", table));
  using Make = std::function<Output(FunctionBuilder&, Output)>;
  const std::vector<std::pair<Make, std::vector<std::string>>> wrong = {
      {[&](auto& g, Output x) { return g.MatMul(x, bias); }, {"'bias'", "[5]", "a matrix"}},
      {[&](auto& g, Output x) { return g.MatMul(x, hash, true); }, {"'words'", "hash table"}},
      {[&](auto& g, Output x) { return g.MatMul(x, mod, false); },
       {"'items'", "2 shards by mod", "consecutive rows"}},
      {[&](auto& g, Output x) { return g.MatMul(x, w, true); }, {"[?,5] and [5,2]'"}},
  };
  for (const auto& [make, parts] : wrong) {
    const auto f = strategy.Define("f", [&, &make = make](FunctionBuilder& g) {
      g.Result("y", make(g, g.Argument("x", DType::kF32, Shape{kUnknownDim, 5})));
    });
    INFO(f.status().ToString());
    CHECK(f.status().code() == absl::StatusCode::kInvalidArgument);
    for (const std::string& part : parts) {
      CHECK(absl::StrContains(f.status().message(), part));
    }
  }
}

// How the layers of the model below are multiplied.
enum class Way { kRead, kOnPs, kMixed };

struct Trained {
  std::vector<Tensor> variables;
  std::vector<float> losses;
  std::map<std::string, int> ops;
  std::set<uint64_t> updates;
};

// A model in which w1 [6,8] is used forwards, w2 [4,8] transposed, w3 [4,4] twice, one after the
// other, and `kMixed` reads w1 and w3 whole for some of their uses.
Trained Train(const Cluster& cluster, int shards, Way way, int steps) {
  ParameterServerStrategy strategy(cluster);
  VariableOptions options;
  options.initializer = NormalInit(0.5, 7);
  options.partitioner = FixedShards(shards);
  const auto create = [&](const char* name, Shape shape, const OptimizerSpec& optimizer) {
    options.shape = shape;
    options.optimizer = optimizer;
    return Must(strategy.CreateVariable(name, options));
  };
  const std::vector<Variable> w = {create("w1", {6, 8}, Adagrad{.learning_rate = 0.1}),
                                   create("w2", {4, 8}, Momentum{.learning_rate = 0.05}),
                                   create("w3", {4, 4}, Adam{.learning_rate = 0.02})};
  const RemoteFunction step = Must(strategy.Define("step", [&](FunctionBuilder& g) {
    const auto product = [&](Output x, const Variable& v, bool transpose, bool whole) {
      return whole ? g.MatMul(x, g.Read(v), false, transpose) : g.MatMul(x, v, transpose);
    };
    const bool read = way == Way::kRead, some = way != Way::kOnPs;
    const Output x = g.Argument("x", DType::kF32, Shape{kUnknownDim, 6});
    const Output hidden = g.Tanh(product(x, w[0], false, read));
    const Output narrow = g.Tanh(product(hidden, w[1], true, read));
    const Output once = g.Tanh(product(narrow, w[2], false, read));
    const Output twice = product(once, w[2], true, some);
    const Output penalty = g.Sum(g.Square(product(x, w[0], false, some)));
    const Output y = g.Argument("y", DType::kF32, Shape{kUnknownDim, 4});
    const Output loss = g.Add(g.Mean(g.Square(g.Sub(twice, y))), g.Mul(g.Scalar(0.001f), penalty));
    g.Minimize(loss);
    g.Result("loss", loss);
  }));
  ClusterCoordinator coordinator(strategy);
  Trained trained;
  trained.ops = OpsOnPs(step);
  for (int i = 0; i < steps; ++i) {
    // One at a time, so that every step sees the updates of the one before.
    const auto results = Must(coordinator
                                  .Schedule(step, {RandomTensor(Shape{5, 6}, 2 * i),
                                                   RandomTensor(Shape{5, 4}, 2 * i + 1)})
                                  .Get());
    trained.losses.push_back(results[0].data<float>()[0]);
  }
  Must(coordinator.Join());
  for (const Variable& v : w) trained.variables.push_back(Must(strategy.Read(v)));
  trained.updates = UpdatesApplied(cluster);
  return trained;
}

TEST_CASE("training by products on the PS is training by reading, with one update a step",
          "[api]") {
  constexpr int kSteps = 12;
  const Trained wanted = Train(MustStart(1, 1), 1, Way::kRead, kSteps);
  CHECK(wanted.ops == std::map<std::string, int>{{"ReadVariable", 3}, {"ApplyDense", 3}});
  for (const int shards : {1, 3}) {
    for (const Way way : {Way::kRead, Way::kOnPs, Way::kMixed}) {
      INFO(shards << " shards, way " << static_cast<int>(way));
      const Trained found = Train(MustStart(2, 1), shards, way, kSteps);
      for (size_t v = 0; v < wanted.variables.size(); ++v) {
        CheckClose(found.variables[v], wanted.variables[v]);
      }
      for (int i = 0; i < kSteps; ++i) {
        CHECK(found.losses[i] == Approx(wanted.losses[i]).epsilon(1e-5));
      }
      CHECK(found.updates == std::set<uint64_t>{kSteps});
      if (way == Way::kRead) continue;
      // x needs no gradient: w1's products have none for it, the three others have.
      const int forward = way == Way::kOnPs ? 5 : 3, backward = way == Way::kOnPs ? 3 : 2;
      std::map<std::string, int> ops = {{"MatMulShard", (forward + backward) * shards},
                                        {"ApplyMatMul", 3 * shards}};
      if (way == Way::kMixed) ops["ReadVariable"] = 2 * shards;
      CHECK(found.ops == ops);
    }
  }
}

}  // namespace
}  // namespace coxswain
