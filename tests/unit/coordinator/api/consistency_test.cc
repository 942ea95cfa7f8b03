// Programs that train in synchronous steps, or with bounded staleness.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/checkpoint.h"
#include "coxswain/status.h"
#include "runtime/checkpoint/manifest.h"
#include "tests/testing/recommender.h"

namespace coxswain {
namespace {

using testing::Must;
using testing::MustStart;

Cluster Start(int ps, int workers, PsLossPolicy on_ps_loss = PsLossPolicy::kRollback) {
  ClusterOptions options;
  options.threads = 2;
  options.recovery.on_ps_loss = on_ps_loss;
  return Must(Cluster::InProcess(ps, workers, options));
}

// A table and a dense layer on 120 ratings.
struct Program {
  Program(const Cluster& cluster, const std::string& csv, const Consistency& consistency)
      : strategy(cluster, {.consistency = consistency}) {
    data = Must(strategy.CreatePerWorkerDataset(
        Csv(csv).Categorical("user").Numeric("x").Label("rating").Shuffle(3).Batch(16).Epochs(3)));
    TableOptions table;
    table.dim = 4;
    table.rows = 20;
    table.initializer = NormalInit(0.1, 5);
    table.optimizer = Adam{.learning_rate = 0.02};
    const EmbeddingTable users = Must(strategy.CreateTable("users", table));
    VariableOptions dense;
    dense.shape = Shape{5, 1};
    dense.initializer = GlorotUniform(9);
    dense.optimizer = Adam{.learning_rate = 0.02};
    weights = Must(strategy.CreateVariable("weights", dense));
    counter = Must(strategy.CreateVariable("counter", {.shape = {}, .dtype = DType::kI64}));
    step = Must(strategy.Define("step", data, [&](FunctionBuilder& g) {
      Output x = g.Reshape(g.Column("x"), Shape{kUnknownDim, 1});
      Output in = g.Concat({g.Lookup(users, g.Column("user")), x}, 1);
      Output y = g.Reshape(g.MatMul(in, g.Read(weights)), Shape{kUnknownDim});
      Output loss = g.Mean(g.Square(g.Sub(y, g.Column("label"))));
      g.Minimize(loss);
      g.AssignAdd(counter, g.Constant(Tensor::Scalar<int64_t>(1)));
      g.Result("loss", loss);
    }));
  }
  // The loss of each batch.
  std::vector<float> Train(int64_t replicas) {
    ClusterCoordinator coordinator(strategy);
    std::vector<RemoteValue> values;
    while (true) {
      const std::vector<Ticket> tickets = data.NextTickets(replicas);
      if (tickets.empty()) break;
      sizes.push_back(tickets.size());
      for (RemoteValue& v : coordinator.ScheduleStep(step, tickets)) values.push_back(v);
    }
    Must(coordinator.Join());
    std::vector<float> losses;
    for (const RemoteValue& v : values) losses.push_back(Must(coordinator.Fetch<float>(v, "loss")));
    return losses;
  }
  ParameterServerStrategy strategy;
  PerWorkerDataset data;
  Variable weights, counter;
  RemoteFunction step;
  std::vector<size_t> sizes;  // of steps
};

TEST_CASE("synchronous steps give the same losses to the bit on any number of workers and PS",
          "[api][sync]") {
  const DataFiles dir;
  const std::string csv = testing::WriteRatings(dir);
  const Consistency sync{.mode = ConsistencyMode::kSync};
  std::vector<float> wanted;
  for (const auto& [ps, workers] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 3}}) {
    INFO(ps << " PS, " << workers << " workers");
    Program program(Start(ps, workers), csv, sync);
    const std::vector<float> losses = program.Train(3);
    REQUIRE(losses.size() == 24);
    CHECK(program.sizes == std::vector<size_t>{3, 3, 2, 3, 3, 2, 3, 3, 2});
    CHECK(Must(program.strategy.Read(program.counter)).data<int64_t>()[0] == 24);
    if (wanted.empty()) wanted = losses;
    CHECK(losses == wanted);
  }
  CHECK(wanted.back() < 0.8f * wanted.front());  // it learns
}

TEST_CASE("updates in the order of the batches give the same losses to the bit, and more updates",
          "[api][sync]") {
  const DataFiles dir;
  const std::string csv = testing::WriteRatings(dir);
  const Consistency in_order{.mode = ConsistencyMode::kSync, .reduce = GradientReduction::kNone};
  std::vector<float> wanted;
  for (const auto& [ps, workers] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 3}}) {
    INFO(ps << " PS, " << workers << " workers");
    Program program(Start(ps, workers), csv, in_order);
    const std::vector<float> losses = program.Train(3);
    REQUIRE(losses.size() == 24);
    CHECK(Must(program.strategy.Read(program.counter)).data<int64_t>()[0] == 24);
    if (wanted.empty()) wanted = losses;
    CHECK(losses == wanted);
  }
  // Three moves of Adam in place of one with their mean.
  Program mean(Start(1, 1), csv, {.mode = ConsistencyMode::kSync});
  const std::vector<float> averaged = mean.Train(3);
  for (size_t i = 0; i < 3; ++i) CHECK(averaged[i] == wanted[i]);  // of the initial values
  CHECK(wanted.back() < averaged.back());
}

TEST_CASE("a synchronous step is one update, also where it has one closure", "[api][sync]") {
  const DataFiles dir;
  const std::string csv = testing::WriteRatings(dir);
  Program one(Start(1, 2), csv, {.mode = ConsistencyMode::kSync});
  const std::vector<float> steps = one.Train(1);
  // One after another is the same.
  Program bounded(Start(1, 2), csv, {.mode = ConsistencyMode::kBounded, .max_staleness = 0});
  ClusterCoordinator coordinator(bounded.strategy);
  std::vector<RemoteValue> values;
  while (auto ticket = bounded.data.NextTicket()) {
    values.push_back(coordinator.Schedule(bounded.step, *ticket));
  }
  Must(coordinator.Join());
  REQUIRE(values.size() == steps.size());
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK(Must(coordinator.Fetch<float>(values[i], "loss")) == steps[i]);
  }
}

TEST_CASE("functions that change nothing are no steps, and those of no step are refused",
          "[api][sync]") {
  const DataFiles dir;
  const std::string csv = testing::WriteRatings(dir);
  Program sync(Start(1, 2), csv, {.mode = ConsistencyMode::kSync});
  const RemoteFunction reads = Must(sync.strategy.Define(
      "reads", [&](FunctionBuilder& g) { g.Result("counter", g.Read(sync.counter)); }));
  ClusterCoordinator coordinator(sync.strategy);
  coordinator.ScheduleStep(sync.step, sync.data.NextTickets(4));
  Must(coordinator.Join());
  CHECK(Must(coordinator.Fetch<int64_t>(coordinator.Schedule(reads), "counter")) == 4);
  CHECK(coordinator.ScheduleStep(sync.step, {})[0].Get().status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK_FALSE(coordinator.Join().ok());

  Program async(Start(1, 1), csv, {});
  ClusterCoordinator other(async.strategy);
  const auto refused = other.ScheduleStep(async.step, async.data.NextTickets(2));
  REQUIRE(refused.size() == 2);
  CHECK(refused[1].Get().status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK_FALSE(other.Join().ok());

  Program replays(Start(1, 1, PsLossPolicy::kReplay), csv, {.mode = ConsistencyMode::kSync});
  ClusterCoordinator third(replays.strategy);
  const auto lost = third.ScheduleStep(replays.step, replays.data.NextTickets(2));
  CHECK(lost[0].Get().status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK_FALSE(third.Join().ok());
}

TEST_CASE("a closure that fails for good ends its step and all that follows, with its own error",
          "[api][sync]") {
  ParameterServerStrategy strategy(Start(1, 2), {.consistency = {.mode = ConsistencyMode::kSync}});
  const Variable w =
      Must(strategy.CreateVariable("w", {.shape = Shape{1}, .optimizer = Sgd{.learning_rate = 1}}));
  const RemoteFunction step = Must(strategy.Define("step", [&](FunctionBuilder& g) {
    g.Minimize(g.Sum(g.Mul(g.Read(w), g.Argument("by", DType::kF32, Shape{-1}))));
  }));
  const RemoteFunction fails = Must(strategy.Define("fails", [&](FunctionBuilder& g) {
    // Rows that are not there.
    const Output rows = g.Op("Gather", {g.Read(w), g.Argument("ids", DType::kI64, Shape{-1})});
    g.Minimize(g.Sum(rows));
  }));
  ClusterCoordinator coordinator(strategy);
  const Tensor one = Tensor::FromVector<float>({1});
  Must(coordinator.Schedule(step, {one}).Get().status());
  const RemoteValue bad = coordinator.Schedule(fails, {Tensor::FromVector<int64_t>({9})});
  const absl::Status status = bad.Get().status();
  INFO(status.ToString());
  CHECK_FALSE(status.ok());
  CHECK(GetDetail(status)->cause == ErrorCause::kApplication);
  CHECK(coordinator.Join() == status);
  const absl::Status after = coordinator.Schedule(step, {one}).Get().status();
  INFO(after.ToString());
  CHECK(after.message().find("a synchronous step cannot be completed") != std::string::npos);
  CHECK_FALSE(coordinator.Join().ok());
}

TEST_CASE("the batches of a step are of one epoch, and each is handed out once", "[api][sync]") {
  const DataFiles dir;
  const std::string csv = testing::WriteRatings(dir);
  Program program(Start(1, 1), csv, {.mode = ConsistencyMode::kSync});
  std::set<std::pair<int64_t, int64_t>> seen;
  while (true) {
    const std::vector<Ticket> tickets = program.data.NextTickets(5);
    if (tickets.empty()) break;
    for (const Ticket& ticket : tickets) {
      CHECK(ticket.epoch == tickets[0].epoch);
      CHECK(seen.insert({ticket.epoch, ticket.begin}).second);
    }
  }
  CHECK(seen.size() == 24);
}

// Trains on all batches, those again that a step did without; returns how many there were of those.
int64_t TrainAll(Program* program, const Consistency& consistency) {
  ClusterCoordinator coordinator(program->strategy);
  std::vector<Ticket> back;
  int64_t surplus = 0;
  while (true) {
    std::vector<Ticket> step = std::exchange(back, {});
    const auto most = consistency.batches() + consistency.backup - std::ssize(step);
    const std::vector<Ticket> fresh = program->data.NextTickets(most);
    step.insert(step.end(), fresh.begin(), fresh.end());
    if (step.empty()) break;
    const std::vector<RemoteValue> values = coordinator.ScheduleStep(program->step, step);
    REQUIRE(values.size() == step.size());
    for (size_t i = 0; i < step.size(); ++i) {
      const absl::Status status = values[i].Get().status();
      if (status.ok()) continue;
      INFO(status.ToString());
      REQUIRE(absl::IsCancelled(status));
      REQUIRE(GetDetail(status)->cause == ErrorCause::kSurplus);
      back.push_back(step[i]);
      ++surplus;
    }
  }
  Must(coordinator.Join());  // what a step does without is no error
  CHECK(coordinator.failed() == 0);
  return surplus;
}

TEST_CASE("each closure of a synchronous step may have arguments of its own", "[api][sync]") {
  const Cluster cluster = Start(1, 2);
  ParameterServerStrategy strategy(
      cluster, {.consistency = {.mode = ConsistencyMode::kSync, .replicas = 2}});
  VariableOptions options;
  options.initializer = Zeros();
  options.optimizer = Sgd{.learning_rate = 1};
  const Variable weight = Must(strategy.CreateVariable("weight", options));
  const RemoteFunction step = Must(strategy.Define("step", [&](FunctionBuilder& f) {
    const Output x = f.Argument("x", DType::kF32, Shape{});
    f.Minimize(f.Mul(f.Read(weight), x));
    f.Result("x", x);
  }));
  ClusterCoordinator coordinator(strategy);
  const std::vector<Ticket> tickets(2);
  const Tensor one = Tensor::Scalar<float>(1), five = Tensor::Scalar<float>(5);
  const std::vector<RemoteValue> values =
      coordinator.ScheduleStep(step, tickets, StepOptions{.arguments_each = {{one}, {five}}});
  CHECK(Must(coordinator.Fetch<float>(values[0], "x")) == 1);
  CHECK(Must(coordinator.Fetch<float>(values[1], "x")) == 5);
  CHECK(Must(strategy.Read(weight)).data<float>()[0] == -3);  // their mean
  for (const StepOptions& wrong :
       {StepOptions{.arguments_each = {{one}}},
        StepOptions{.arguments = {one}, .arguments_each = {{one}, {one}}},
        StepOptions{.arguments_each = {{one}, {}}}}) {
    ClusterCoordinator other(strategy);
    CHECK(absl::IsInvalidArgument(other.ScheduleStep(step, tickets, wrong)[0].Get().status()));
  }
}

TEST_CASE("what a step with backups did without may be scheduled again, and all is used once",
          "[api][sync][backup]") {
  const DataFiles dir;
  const std::string csv = testing::WriteRatings(dir);
  const Consistency backups{.mode = ConsistencyMode::kSync, .replicas = 2, .backup = 1};
  for (const int workers : {1, 3}) {
    INFO(workers);
    const Cluster cluster = Start(2, workers);
    Program program(cluster, csv, backups);
    CheckpointOptions options;
    options.directory = dir.Path(absl::StrCat("checkpoints", workers));
    CheckpointManager checkpoints(options);
    Must(checkpoints.Start(cluster));
    CHECK(TrainAll(&program, backups) >= 8);  // one of three, in most steps
    CHECK(Must(program.strategy.Read(program.counter)).data<int64_t>()[0] == 24);
    // A batch that was given back is counted where it is used.
    Must(checkpoints.Save());
    CheckpointManager written(options);
    Must(written.Find());
    CHECK(written.manifest().steps == 24);
  }
}

TEST_CASE("groups that are asynchronous to each other and microbatches use each batch once",
          "[api][sync][free]") {
  const DataFiles dir;
  const std::string csv = testing::WriteRatings(dir);
  for (const Consistency& consistency :
       {Consistency{.mode = ConsistencyMode::kHybrid, .group_size = 2},
        Consistency{.mode = ConsistencyMode::kHybrid, .group_size = 2, .accumulate = 2},
        Consistency{.accumulate = 4},
        Consistency{.mode = ConsistencyMode::kBounded, .max_staleness = 1, .accumulate = 2}}) {
    INFO(consistency.batches());
    Program program(Start(2, 3), csv, consistency);
    const std::vector<float> losses = program.Train(consistency.batches());
    REQUIRE(losses.size() == 24);
    const auto middle = losses.begin() + 12;
    CHECK(std::accumulate(middle, losses.end(), 0.0f) <
          std::accumulate(losses.begin(), middle, 0.0f));
    CHECK(Must(program.strategy.Read(program.counter)).data<int64_t>()[0] == 24);
  }
}

TEST_CASE("a function that trains is no single closure where updates are of several batches",
          "[api][sync][free]") {
  const DataFiles dir;
  const std::string csv = testing::WriteRatings(dir);
  for (const Consistency& consistency :
       {Consistency{.mode = ConsistencyMode::kHybrid, .group_size = 2},
        Consistency{.accumulate = 4},
        Consistency{.mode = ConsistencyMode::kSync, .replicas = 2, .accumulate = 2}}) {
    INFO(consistency.batches());
    Program program(Start(1, 1), csv, consistency);
    const RemoteFunction counts = Must(program.strategy.Define("counts", [&](FunctionBuilder& f) {
      f.AssignAdd(program.counter, f.Constant(Tensor::Scalar<int64_t>(1)));
    }));
    ClusterCoordinator coordinator(program.strategy, {.on_error = ErrorPolicy::kIgnore});
    const std::vector<Ticket> tickets = program.data.NextTickets(consistency.batches());
    for (const RemoteValue& refused :
         {coordinator.Schedule(program.step, tickets[0]),
          coordinator.Schedule(program.step, ScheduleOptions{.ticket = tickets[0]})}) {
      const absl::Status status = refused.Get().status();
      CHECK(absl::IsFailedPrecondition(status));
      CHECK(absl::StrContains(status.message(), "function 'step' trains"));
      CHECK(absl::StrContains(status.message(), "ScheduleStep"));
    }
    Must(coordinator.Schedule(counts).Get().status());
    for (const RemoteValue& value : coordinator.ScheduleStep(program.step, tickets)) {
      Must(value.Get().status());
    }
    CHECK(Must(program.strategy.Read(program.counter)).data<int64_t>()[0] ==
          1 + std::ssize(tickets));
  }
}

TEST_CASE("microbatches one after another are a batch that is as large", "[api][sync][free]") {
  const DataFiles dir;
  const std::string csv = testing::WriteRatings(dir);
  const Consistency micro{.accumulate = 4};
  Program program(Start(1, 1), csv, micro);
  Program sync(Start(1, 1), csv, {.mode = ConsistencyMode::kSync});
  ClusterCoordinator coordinator(program.strategy), other(sync.strategy);
  for (int s = 0; s < 3; ++s) {
    Must(coordinator.ScheduleStep(program.step, program.data.NextTickets(4))[3].Get().status());
    Must(other.ScheduleStep(sync.step, sync.data.NextTickets(4))[3].Get().status());
  }
  const Tensor one = Must(program.strategy.Read(program.weights)),
               two = Must(sync.strategy.Read(sync.weights));
  for (int64_t i = 0; i < one.num_elements(); ++i) {
    CHECK(one.data<float>()[i] == two.data<float>()[i]);
  }
}

TEST_CASE("a step that has not begun by its deadline is cancelled whole", "[api][sync]") {
  const DataFiles dir;
  Program program(Start(1, 2), testing::WriteRatings(dir), {.mode = ConsistencyMode::kSync});
  ClusterCoordinator coordinator(program.strategy, {.on_error = ErrorPolicy::kIgnore});
  const std::vector<Ticket> tickets = program.data.NextTickets(4);
  for (const RemoteValue& value :
       coordinator.ScheduleStep(program.step, tickets, {.deadline = -absl::InfiniteDuration()})) {
    CHECK(value.Get().status().code() == absl::StatusCode::kDeadlineExceeded);
  }
  CHECK(Must(program.strategy.Read(program.counter)).data<int64_t>()[0] == 0);
  for (const RemoteValue& value :
       coordinator.ScheduleStep(program.step, tickets, {.deadline = absl::Hours(1)})) {
    Must(value.Get().status());
  }
  CHECK(Must(program.strategy.Read(program.counter)).data<int64_t>()[0] == 4);
}

TEST_CASE("an optimizer may have a way of its own with late gradients", "[api]") {
  const Cluster cluster = Start(1, 1);
  const Consistency late{.staleness_rate = StalenessRate::kRoot, .delay_compensation = 0.04};
  ParameterServerStrategy strategy(cluster, {.consistency = late});
  const auto optimizer = [](ParameterServerStrategy* s, const char* name, OptimizerSpec of) {
    TableOptions options{.rows = 2, .dim = 2, .optimizer = std::move(of)};
    return Must(s->CreateTable(name, options)).info().shards[0].variable().optimizer();
  };
  const auto all = optimizer(&strategy, "all", Sgd{});
  CHECK(all.staleness_rate() == "root");
  CHECK(all.delay_compensation() == 0.04);
  const auto own =
      optimizer(&strategy, "own",
                WithDelayCompensation(WithStalenessRate(Sgd{}, StalenessRate::kInverse), 0.5));
  CHECK(own.staleness_rate() == "inverse");
  CHECK(own.delay_compensation() == 0.5);
  const auto without =
      optimizer(&strategy, "without",
                WithDelayCompensation(WithStalenessRate(Sgd{}, StalenessRate::kNone), 0));
  CHECK(without.staleness_rate() == "none");
  CHECK(without.delay_compensation() == 0);

  ParameterServerStrategy sync(cluster, {.consistency = {.mode = ConsistencyMode::kSync}});
  const absl::Status refused =
      sync.CreateTable("t", {.rows = 2, .dim = 2, .optimizer = WithDelayCompensation(Sgd{}, 0.5)})
          .status();
  CHECK(refused.message() ==
        "variable 't': delay_compensation of its optimizer: only where an update is of one batch "
        "and applied as it comes; wanted 0, found 0.5");
}

TEST_CASE("a consistency that makes no sense is refused before anything is made with it", "[api]") {
  const Cluster cluster = Start(1, 1);
  const struct {
    Consistency consistency;
    const char* message;
  } kWrong[] = {
      {{.mode = ConsistencyMode::kBounded, .max_staleness = -1},
       "Consistency::max_staleness: wanted 0 to 9223372036854775807, found -1"},
      {{.mode = ConsistencyMode::kSync, .replicas = 0},
       "Consistency::replicas: wanted 1 to 4096, found 0"},
      {{.mode = ConsistencyMode::kSync, .backup = -1},
       "Consistency::backup: wanted 0 to 4096, found -1"},
      {{.mode = ConsistencyMode::kHybrid, .group_size = 5000},
       "Consistency::group_size: wanted 1 to 4096, found 5000"},
      {{.replicas = 3}, "Consistency::replicas: only with the mode kSync"},
      {{.mode = ConsistencyMode::kHybrid, .backup = 2},
       "Consistency::backup: only with the mode kSync"},
      {{.group_size = 2}, "Consistency::group_size: only with the mode kHybrid"},
      {{.mode = static_cast<ConsistencyMode>(9)}, "Consistency::mode: there is no 9"},
      {{.accumulate = 0}, "Consistency::accumulate: wanted 1 to 4096, found 0"},
      {{.mode = ConsistencyMode::kHybrid, .group_size = 100, .accumulate = 100},
       "Consistency: an update has at most 4096 batches, found 10000"},
      {{.delay_compensation = -0.5},
       "Consistency::delay_compensation: wanted at least 0, found -0.5"},
      {{.mode = ConsistencyMode::kSync, .delay_compensation = 0.5},
       "Consistency::delay_compensation: only where an update is of one batch and applied as it "
       "comes; wanted 0, found 0.5"}};
  for (const auto& [consistency, message] : kWrong) {
    ParameterServerStrategy strategy(cluster, {.consistency = consistency});
    const absl::Status variable = strategy.CreateVariable("v", {.shape = Shape{1}}).status();
    CHECK(variable.code() == absl::StatusCode::kInvalidArgument);
    CHECK(variable.message() == message);
    TableOptions table;
    table.rows = table.dim = 2;
    CHECK(strategy.CreateTable("t", table).status().message() == message);
    const auto defined = strategy.Define(
        "f", [](FunctionBuilder& f) { f.Result("one", f.Constant(Tensor::Scalar<int64_t>(1))); });
    CHECK(defined.status().message() == message);
  }
}

}  // namespace
}  // namespace coxswain
