// Programs whose parameter servers keep moving averages: as a plain loop has them, with updates as
// they come and in synchronous steps, and over a checkpoint.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coxswain/checkpoint.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"
#include "tests/testing/recommender.h"

namespace coxswain {
namespace {

using testing::Must;
using testing::MustStart;
using testing::ToVector;

constexpr double kDecay = 0.75;
constexpr int64_t kUsers = 20;

// A table and a dense variable on ratings.
struct Program {
  Program(const Cluster& cluster, const std::string& csv, const Consistency& consistency = {},
          CheckpointManager* checkpoints = nullptr, double decay = kDecay)
      : strategy(cluster, {.consistency = consistency, .ema_decay = decay}) {
    if (checkpoints != nullptr) Must(checkpoints->Restore(&strategy));
    data = Must(strategy.CreatePerWorkerDataset(
        Csv(csv).Categorical("user").Numeric("x").Label("rating").Shuffle(3).Batch(16).Epochs(3)));
    TableOptions options;
    options.dim = 4;
    options.rows = kUsers;
    options.initializer = NormalInit(0.1, 5);
    options.optimizer = LazyAdam{.learning_rate = 0.02};
    table = Must(strategy.CreateTable("users", options));
    VariableOptions dense;
    dense.shape = Shape{5, 1};
    dense.initializer = GlorotUniform(9);
    dense.optimizer = Adam{.learning_rate = 0.02};
    weights = Must(strategy.CreateVariable("weights", dense));
    step = Must(strategy.Define("step", data, [&](FunctionBuilder& g) {
      Output ids = g.Column("user");
      Output x = g.Reshape(g.Column("x"), Shape{kUnknownDim, 1});
      Output in = g.Concat({g.Lookup(table, ids), x}, 1);
      Output y = g.Reshape(g.MatMul(in, g.Read(weights)), Shape{kUnknownDim});
      Output loss = g.Mean(g.Square(g.Sub(y, g.Column("label"))));
      g.Minimize(loss);
      g.Result("users", ids);
    }));
    reads = Must(strategy.Define("reads", [&](FunctionBuilder& g) {
      g.ReadAverages();
      g.Result("weights", g.Read(weights));
      g.Result("rows", g.Lookup(table, g.Argument("ids", DType::kI64, Shape{kUnknownDim})));
      g.Result("product",
               g.MatMul(g.Constant(Tensor::FromVector<float>({1, 1, 1, 1, 1}, Shape{1, 5}).value()),
                        g.Read(weights)));
    }));
  }
  std::vector<float> Averages() {
    std::vector<float> all = ToVector<float>(Must(strategy.Read(table, Values::kAverages)));
    const auto more = ToVector<float>(Must(strategy.Read(weights, Values::kAverages)));
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<float> Weights() {
    std::vector<float> all = ToVector<float>(Must(strategy.Read(table)));
    const auto more = ToVector<float>(Must(strategy.Read(weights)));
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  ParameterServerStrategy strategy;
  PerWorkerDataset data;
  EmbeddingTable table;
  Variable weights;
  RemoteFunction step, reads;
};

void Near(const std::vector<float>& found, const std::vector<float>& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(wanted[i]).margin(1e-6));
}

TEST_CASE("averages are those of a plain loop, with updates as they come and in synchronous steps",
          "[api][averages]") {
  const DataFiles dir;
  const std::string csv = testing::WriteRatings(dir);
  for (const int64_t replicas : {1, 2}) {
    CAPTURE(replicas);
    Consistency consistency;
    if (replicas > 1) consistency = {.mode = ConsistencyMode::kSync};
    Program program(MustStart(2, 2), csv, consistency);
    ClusterCoordinator coordinator(program.strategy);
    std::vector<float> wanted = program.Weights();
    CHECK(program.Averages() == wanted);
    int updates = 0;
    while (true) {
      const std::vector<Ticket> tickets = program.data.NextTickets(replicas);
      if (tickets.empty()) break;
      std::vector<RemoteValue> values;
      if (replicas > 1) {
        for (RemoteValue& v : coordinator.ScheduleStep(program.step, tickets)) values.push_back(v);
      } else {
        values.push_back(coordinator.Schedule(program.step, tickets[0]));
      }
      Must(coordinator.Join());
      std::vector<bool> named(kUsers);
      for (const RemoteValue& value : values) {
        for (const int64_t id : ToVector<int64_t>(Must(value.Get())[0])) {
          named[static_cast<size_t>(id)] = true;
        }
      }
      const std::vector<float> weights = program.Weights();
      for (size_t i = 0; i < weights.size(); ++i) {
        const bool dense = i >= kUsers * 4;
        if (!dense && !named[i / 4]) continue;
        wanted[i] += static_cast<float>(1 - kDecay) * (weights[i] - wanted[i]);
      }
      Near(program.Averages(), wanted);
      ++updates;
    }
    CHECK(updates >= 12);
    CHECK(program.Averages() != program.Weights());
    // A function that reads averages, and one that does not.
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < kUsers; ++i) ids.push_back(i);
    const auto read =
        Must(coordinator.Schedule(program.reads, {Tensor::FromVector<int64_t>(ids)}).Get());
    const std::vector<float> averages = program.Averages();
    CHECK(ToVector<float>(read[0]) == std::vector<float>(averages.end() - 5, averages.end()));
    CHECK(ToVector<float>(read[1]) == std::vector<float>(averages.begin(), averages.end() - 5));
    float sum = 0;
    for (size_t i = averages.size() - 5; i < averages.size(); ++i) sum += averages[i];
    CHECK(ToVector<float>(read[2])[0] == Approx(sum));
  }
}

TEST_CASE("averages go on from a checkpoint to the bit, on another number of parameter servers",
          "[api][averages][checkpoint]") {
  const DataFiles dir;
  const std::string csv = testing::WriteRatings(dir);
  CheckpointOptions options;
  options.directory = dir.Path("checkpoints");
  options.every = absl::ZeroDuration();
  const auto train = [](Program* program, int steps) {
    ClusterCoordinator coordinator(program->strategy);
    for (int i = 0; i < steps; ++i) {
      coordinator.Schedule(program->step, *program->data.NextTicket());
      Must(coordinator.Join());
    }
  };
  std::vector<float> wanted, saved;
  {
    const Cluster cluster = MustStart(2, 1);
    CheckpointManager checkpoints(options);
    Program program(cluster, csv, {}, &checkpoints);
    Must(checkpoints.Start(cluster));
    train(&program, 3);
    Must(checkpoints.Save());
    train(&program, 2);
    Must(checkpoints.Save());
    train(&program, 2);
    Must(checkpoints.Save());  // with deltas
    saved = program.Averages();
    train(&program, 4);
    wanted = program.Averages();
  }
  const auto start_again = [](CheckpointManager* checkpoints) {
    Must(checkpoints->Find());
    REQUIRE(checkpoints->found());
    ClusterOptions again;
    again.threads = 2;
    again.min_epoch = checkpoints->min_epoch();
    return Must(Cluster::InProcess(1, 1, again));
  };
  {
    CheckpointManager checkpoints(options);
    const Cluster cluster = start_again(&checkpoints);
    Program program(cluster, csv, {}, &checkpoints);
    {
      ClusterCoordinator coordinator(program.strategy);
      CHECK(Must(checkpoints.RunPending(&coordinator, {program.step})).empty());
    }
    CHECK(program.Averages() == saved);
    train(&program, 4);
    CHECK(program.Averages() == wanted);
  }
  // Without them a program would go on from something else.
  CheckpointManager checkpoints(options);
  const Cluster cluster = start_again(&checkpoints);
  ParameterServerStrategy strategy(cluster);
  Must(checkpoints.Restore(&strategy));
  TableOptions table;
  table.dim = 4;
  table.rows = kUsers;
  table.optimizer = LazyAdam{.learning_rate = 0.02};
  const absl::Status status = strategy.CreateTable("users", table).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("and moving averages"));
}

}  // namespace
}  // namespace coxswain
