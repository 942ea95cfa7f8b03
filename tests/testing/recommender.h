// A small model with a table, a dense layer, noise and a data set, trained with a fixed seed: what
// it does must not depend on where its parts live.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain::testing {

// 120 examples: user (0..19), item (0..29), x and rating, from a fixed seed.
inline std::string WriteRatings(const DataFiles& dir) {
  std::mt19937_64 random(11);
  std::string csv = "user,item,x,rating\n";
  for (int i = 0; i < 120; ++i) {
    const uint64_t user = random() % 20, item = random() % 30;
    const double x = static_cast<double>(random() % 1000) / 500 - 1;
    absl::StrAppend(&csv, "u", user, ",i", item, ",", x, ",",
                    0.1 * (user % 5) - 0.2 * (item % 3) + x, "\n");
  }
  return dir.Write("ratings.csv", csv);
}

// The loss of every step of three epochs. One closure in flight: the order of the steps is fixed.
inline std::vector<float> TrainRecommender(const Cluster& cluster, const std::string& csv,
                                           const Partitioner& partitioner) {
  ParameterServerStrategy strategy(cluster, {partitioner});
  PerWorkerDataset data = Must(strategy.CreatePerWorkerDataset(Csv(csv)
                                                                   .Categorical("user")
                                                                   .Categorical("item")
                                                                   .Numeric("x")
                                                                   .Label("rating")
                                                                   .Shuffle(3)
                                                                   .Batch(16)
                                                                   .Epochs(3)));
  TableOptions table;
  table.dim = 4;
  table.rows = 20;
  table.initializer = NormalInit(0.1, 5);
  table.optimizer = LazyAdam{.learning_rate = 0.02};
  const EmbeddingTable users = Must(strategy.CreateTable("users", table));
  table.rows = 30;
  table.sharding = Sharding::kDiv;
  table.optimizer = Adagrad{.learning_rate = 0.1};
  const EmbeddingTable items = Must(strategy.CreateTable("items", table));
  VariableOptions dense;
  dense.shape = Shape{9, 6};
  dense.initializer = GlorotUniform(9);
  dense.optimizer = Momentum{.learning_rate = 0.05};
  const Variable w1 = Must(strategy.CreateVariable("w1", dense));
  dense.shape = Shape{6, 1};
  dense.optimizer = Adam{.learning_rate = 0.01};
  const Variable w2 = Must(strategy.CreateVariable("w2", dense));
  const RemoteFunction step = Must(strategy.Define("step", data, [&](FunctionBuilder& g) {
    Output x = g.Reshape(g.Column("x"), Shape{kUnknownDim, 1});
    Output in =
        g.Concat({g.Lookup(users, g.Column("user")), g.Lookup(items, g.Column("item")), x}, 1);
    // Noise on the hidden layer's bias: drawn from seed, closure and step.
    Output noise = g.Op("RandomNormal", {}, {{"shape", Shape{6}}, {"stddev", 0.05}});
    Output hidden = g.Tanh(g.Add(g.MatMul(in, g.Read(w1)), noise));
    Output y = g.Reshape(g.MatMul(hidden, g.Read(w2)), Shape{kUnknownDim});
    Output loss = g.Mean(g.Square(g.Sub(y, g.Column("label"))));
    g.Minimize(loss);
    g.Result("loss", loss);
  }));
  CoordinatorOptions options;
  options.seed = 42;
  ClusterCoordinator coordinator(strategy, options);
  std::vector<RemoteValue> values;
  while (auto ticket = data.NextTicket()) values.push_back(coordinator.Schedule(step, *ticket));
  Must(coordinator.Join());
  std::vector<float> losses;
  for (const RemoteValue& v : values) losses.push_back(Must(coordinator.Fetch<float>(v, "loss")));
  return losses;
}

}  // namespace coxswain::testing
