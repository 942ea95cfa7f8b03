// A program that gives its variables other names than its checkpoint has.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "coxswain/checkpoint.h"
#include "runtime/checkpoint/manifest.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain {
namespace {

using testing::Must;
using testing::MustStart;
using testing::ToVector;
using Names = std::map<std::string, std::string>;

struct Program {
  Program(ParameterServerStrategy* s, const std::string& table_name, const std::string& weight_name)
      : strategy(s) {
    const OptimizerSpec momentum = Momentum{.learning_rate = 1, .momentum = 0.5};
    table = Must(strategy->CreateTable(table_name, {.rows = 5, .dim = 1, .optimizer = momentum}));
    weight =
        Must(strategy->CreateVariable(weight_name, {.shape = Shape{2}, .optimizer = momentum}));
    step = Must(strategy->Define("step", [&](FunctionBuilder& f) {
      const Output rows = f.Lookup(table, f.Constant(Tensor::FromVector<int64_t>({1, 4})));
      f.Minimize(f.Add(f.Sum(rows), f.Sum(f.Read(weight))));
    }));
  }
  void Train(int steps) {
    ClusterCoordinator coordinator(*strategy);
    for (int i = 0; i < steps; ++i) coordinator.Schedule(step);
    Must(coordinator.Join());
  }
  std::vector<float> All() {
    std::vector<float> all = ToVector<float>(Must(strategy->Read(table)));
    for (const float w : ToVector<float>(Must(strategy->Read(weight)))) all.push_back(w);
    return all;
  }

  ParameterServerStrategy* strategy;
  EmbeddingTable table;
  Variable weight;
  RemoteFunction step;
};

CheckpointOptions In(const DataFiles& dir) {
  CheckpointOptions options;
  options.directory = dir.Path("checkpoints");
  options.every = absl::ZeroDuration();
  return options;
}

ClusterOptions After(const CheckpointManager& checkpoints) {
  ClusterOptions options;
  options.threads = 2;
  options.min_epoch = checkpoints.min_epoch();
  return options;
}

// Trains two steps as "table" and "weight", and saves.
void Begin(const DataFiles& dir) {
  CheckpointManager checkpoints(In(dir));
  const Cluster cluster = MustStart(2, 1);
  ParameterServerStrategy strategy(cluster);
  Program program(&strategy, "table", "weight");
  Must(checkpoints.Start(cluster));
  program.Train(2);
  Must(checkpoints.Save());
}

TEST_CASE("variables go on under other names, with all that their optimizers have",
          "[checkpoint]") {
  std::vector<float> wanted;
  {
    const Cluster cluster = MustStart(2, 1);
    ParameterServerStrategy strategy(cluster);
    Program uninterrupted(&strategy, "table", "weight");
    uninterrupted.Train(4);
    wanted = uninterrupted.All();
  }
  const DataFiles dir;
  Begin(dir);
  {
    CheckpointManager checkpoints(In(dir));
    Must(checkpoints.Find());
    const Cluster cluster = Must(Cluster::InProcess(1, 1, After(checkpoints)));
    ParameterServerStrategy strategy(cluster);
    // One of them takes the other's name.
    Must(checkpoints.Restore(&strategy, Names{{"weight", "table"}, {"bias", "weight"}}));
    Program program(&strategy, "weight", "bias");
    CHECK(strategy.LayoutLeftOver().empty());
    ClusterCoordinator coordinator(strategy);
    Must(checkpoints.RunPending(&coordinator, {program.step}).status());
    Must(coordinator.Join());
    Must(checkpoints.Start(cluster));
    program.Train(1);
    Must(checkpoints.Save());
  }
  // The next checkpoint has the new names.
  CheckpointManager checkpoints(In(dir));
  Must(checkpoints.Find());
  const Cluster cluster = Must(Cluster::InProcess(2, 1, After(checkpoints)));
  ParameterServerStrategy strategy(cluster);
  Must(checkpoints.Restore(&strategy));
  Program program(&strategy, "weight", "bias");
  ClusterCoordinator coordinator(strategy);
  Must(checkpoints.RunPending(&coordinator, {program.step}).status());
  Must(coordinator.Join());
  program.Train(1);
  CHECK(program.All() == wanted);
}

TEST_CASE("a program does not lose a variable of its checkpoint by not creating it",
          "[checkpoint]") {
  const DataFiles dir;
  Begin(dir);
  CheckpointOptions options = In(dir);
  const bool dropped = GENERATE(false, true);
  if (dropped) options.dropped = {"users", "gone already"};
  CheckpointManager checkpoints(options);
  Must(checkpoints.Find());
  const Cluster cluster = Must(Cluster::InProcess(1, 1, After(checkpoints)));
  ParameterServerStrategy strategy(cluster);
  Must(checkpoints.Restore(&strategy, {{"users", "table"}}));
  const OptimizerSpec momentum = Momentum{.learning_rate = 1, .momentum = 0.5};
  Must(strategy.CreateTable("user", {.rows = 5, .dim = 1, .optimizer = momentum}));
  const absl::Status early = checkpoints.Start(cluster);
  CHECK(absl::IsFailedPrecondition(early));
  CHECK(absl::StrContains(early.message(),
                          dropped ? "created: 'weight';" : "created: 'users', 'weight';"));
  CHECK(absl::StrContains(early.message(), checkpoints.path()));
  Must(strategy.CreateVariable("weight", {.shape = Shape{2}, .optimizer = momentum}));
  if (!dropped) {
    CHECK(absl::IsFailedPrecondition(checkpoints.Start(cluster)));
    CHECK(absl::IsFailedPrecondition(checkpoints.Save()));
    Must(strategy.CreateTable("users", {.rows = 5, .dim = 1, .optimizer = momentum}));
  }
  Must(checkpoints.Start(cluster));
  Must(checkpoints.Save());
}

TEST_CASE("names that are not there, or would be there twice, are refused", "[checkpoint]") {
  const DataFiles dir;
  Begin(dir);
  CheckpointManager checkpoints(In(dir));
  Must(checkpoints.Find());
  const Cluster cluster = Must(Cluster::InProcess(1, 1, After(checkpoints)));
  ParameterServerStrategy strategy(cluster);
  const absl::Status missing = checkpoints.Restore(&strategy, {{"users", "user_table"}});
  CHECK(missing.code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(missing.message(),
                          "'users' is to be what the checkpoint has as "
                          "'user_table'; it has: table, weight"));
  for (const Names& names : {Names{{"weight", "table"}}, Names{{"a", "table"}, {"b", "table"}}}) {
    const absl::Status twice = checkpoints.Restore(&strategy, names);
    INFO(twice);
    CHECK(twice.code() == absl::StatusCode::kInvalidArgument);
  }
  // Nothing has come of all that.
  Must(checkpoints.Restore(&strategy, Names{{"users", "table"}}));
  CHECK(strategy.LayoutLeftOver() == std::vector<std::string>{"users", "weight"});
}

}  // namespace
}  // namespace coxswain
