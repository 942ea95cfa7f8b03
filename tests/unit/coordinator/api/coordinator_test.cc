#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/api/task_statuses.h"
#include "coordinator/api/variable_info.h"
#include "protos/control.pb.h"
#include "runtime/base/status.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"
#include "tests/testing/gate.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using testing::Floats;
using testing::Gate;
using testing::Must;
using testing::MustStart;
using testing::Same;
using testing::ToVector;

VariableOptions CounterOptions() {
  VariableOptions options;
  options.shape = Shape{1};
  options.dtype = DType::kI64;
  return options;
}

// Adds 1 to the counter.
RemoteFunction DefineIncrement(ParameterServerStrategy* strategy, const Variable& counter) {
  return Must(strategy->Define("increment", [&](FunctionBuilder& g) {
    g.AssignAdd(counter, g.Constant(Tensor::FromVector<int64_t>({1})));
  }));
}

// x -> row `id` of a constant table of 3 rows: an id of 3 or more fails.
RemoteFunction DefinePick(ParameterServerStrategy* strategy) {
  return Must(strategy->Define("pick", [&](FunctionBuilder& g) {
    Output ids = g.Argument("ids", DType::kI64, Shape{kUnknownDim});
    g.Result("picked", g.Gather(g.Constant(Floats({10, 20, 30})), ids));
  }));
}

std::vector<Tensor> IdArgument(int64_t id) { return {Tensor::FromVector<int64_t>({id})}; }

TEST_CASE("Schedule returns at once and the futures are ready after Join", "[api]") {
  Cluster cluster = MustStart(1, 2, 2, /*threads=*/1);
  ParameterServerStrategy strategy(cluster);
  const Variable counter = Must(strategy.CreateVariable("counter", CounterOptions()));
  const RemoteFunction increment = DefineIncrement(&strategy, counter);
  ClusterCoordinator coordinator(strategy);
  CHECK(coordinator.Done());
  Must(coordinator.Join());  // nothing was scheduled
  Gate gate(cluster);
  std::vector<RemoteValue> values;
  for (int i = 0; i < 10; ++i) values.push_back(coordinator.Schedule(increment));
  // Nothing can have run, and all of them are scheduled.
  for (const RemoteValue& v : values) CHECK_FALSE(v.Ready());
  CHECK_FALSE(coordinator.Done());
  gate.Open();
  Must(coordinator.Join());
  CHECK(coordinator.Done());
  for (const RemoteValue& v : values) {
    CHECK(v.Ready());
    CHECK(v.Get().ok());
  }
  CHECK(ToVector<int64_t>(Must(strategy.Read(counter))) == std::vector<int64_t>{10});
  Must(coordinator.Join());
}

TEST_CASE("a future of no closure says so", "[api]") {
  const RemoteValue none;
  CHECK_FALSE(none.Ready());
  CHECK(none.Get().status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("a worker is kept as many closures deep as asked for", "[api]") {
  Cluster cluster = MustStart(1, 1, /*in_flight=*/3, /*threads=*/1);
  ParameterServerStrategy strategy(cluster);
  const Variable counter = Must(strategy.CreateVariable("counter", CounterOptions()));
  const RemoteFunction increment = DefineIncrement(&strategy, counter);
  ClusterCoordinator coordinator(strategy);
  Gate gate(cluster);
  for (int i = 0; i < 8; ++i) coordinator.Schedule(increment);
  std::string running;
  for (const proto::TaskStatus& task : TaskStatuses(cluster)) {
    if (task.job() == "worker") running = task.running();
  }
  INFO(running);
  CHECK(absl::StartsWith(running, "3 closures running"));
  gate.Open();
  Must(coordinator.Join());
  const DispatcherStats stats = coordinator.stats();
  CHECK(stats.scheduled == 8);
  CHECK(stats.completed == 8);
  CHECK(stats.retried == 0);
}

TEST_CASE("an error of a closure reaches its future and Join, once", "[api]") {
  Cluster cluster = MustStart(1, 2);
  ParameterServerStrategy strategy(cluster);
  const RemoteFunction pick = DefinePick(&strategy);
  ClusterCoordinator coordinator(strategy);
  for (int round = 0; round < 100; ++round) {
    INFO("round " << round);
    const RemoteValue bad = coordinator.Schedule(pick, IdArgument(3));
    const absl::Status status = bad.Get().status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), "'pick'"));
    CHECK(absl::StrContains(status.message(), "Gather"));
    const auto detail = GetDetail(status);
    REQUIRE(detail.has_value());
    CHECK(detail->cause == ErrorCause::kApplication);
    CHECK(absl::StartsWith(detail->task, "/job:worker/task:"));
    const absl::Status joined = coordinator.Join();
    CHECK(joined == status);
    Must(coordinator.Join());  // it was reported
    // What is scheduled after Join is not cancelled for what came before.
    const RemoteValue good = coordinator.Schedule(pick, IdArgument(1));
    const auto results = Must(good.Get());
    CHECK(ToVector<float>(results[0]) == std::vector<float>{20});
    Must(coordinator.Join());
  }
}

TEST_CASE("closures behind a failed one are cancelled until Join has reported it", "[api]") {
  Cluster cluster = MustStart(1, 1, /*in_flight=*/1, /*threads=*/1);
  ParameterServerStrategy strategy(cluster);
  TableOptions options;
  options.rows = 4;
  options.dim = 1;
  const EmbeddingTable table = Must(strategy.CreateTable("t", options));
  const RemoteFunction lookup = Must(strategy.Define("lookup", [&](FunctionBuilder& g) {
    g.Result("row", g.Lookup(table, g.Argument("id", DType::kI64, Shape{1})));
  }));
  ClusterCoordinator coordinator(strategy);
  std::vector<RemoteValue> behind;
  RemoteValue bad;
  {
    Gate gate(cluster);
    bad = coordinator.Schedule(lookup, IdArgument(4));
    for (int i = 0; i < 5; ++i) behind.push_back(coordinator.Schedule(lookup, IdArgument(1)));
  }
  CHECK_FALSE(bad.Get().ok());
  int cancelled = 0;
  for (const RemoteValue& v : behind) {
    const absl::Status status = v.Get().status();
    if (status.ok()) continue;  // it had started
    ++cancelled;
    CHECK(status.code() == absl::StatusCode::kCancelled);
    const auto detail = GetDetail(status);
    CHECK((detail && detail->cause == ErrorCause::kCancelled));
  }
  CHECK(cancelled >= 4);
  const RemoteValue late = coordinator.Schedule(lookup, IdArgument(1));
  CHECK(late.Get().status().code() == absl::StatusCode::kCancelled);
  CHECK(coordinator.Join() == bad.Get().status());
  CHECK(coordinator.Schedule(lookup, IdArgument(1)).Get().ok());
}

TEST_CASE("Cancel drops what is queued and gives up what runs", "[api]") {
  Cluster cluster = MustStart(1, 1, /*in_flight=*/1, /*threads=*/1);
  ParameterServerStrategy strategy(cluster);
  const Variable counter = Must(strategy.CreateVariable("counter", CounterOptions()));
  const RemoteFunction increment = DefineIncrement(&strategy, counter);
  ClusterCoordinator coordinator(strategy);
  Gate gate(cluster);
  std::vector<RemoteValue> values;
  for (int i = 0; i < 4; ++i) values.push_back(coordinator.Schedule(increment));
  coordinator.Cancel();
  for (int i = 1; i < 4; ++i) {
    CHECK(values[i].Get().status().code() == absl::StatusCode::kCancelled);
  }
  gate.Open();
  // The one that was handed out is done or not done at all, as its future says.
  const int64_t done = values[0].Get().ok() ? 1 : 0;
  CHECK(coordinator.Join().code() == absl::StatusCode::kCancelled);
  CHECK(ToVector<int64_t>(Must(strategy.Read(counter))) == std::vector<int64_t>{done});
}

TEST_CASE("a queue bound of 2 is kept over hundreds of closures", "[api]") {
  Cluster cluster = MustStart(1, 2);
  ParameterServerStrategy strategy(cluster);
  const Variable counter = Must(strategy.CreateVariable("counter", CounterOptions()));
  const RemoteFunction increment = DefineIncrement(&strategy, counter);
  CoordinatorOptions options;
  options.queue_size = 2;
  ClusterCoordinator coordinator(strategy, options);
  std::atomic<int64_t> over{0};
  coordinator.set_observer([&](const Ticket&, const auto&) { ++over; });
  int64_t most = 0;
  for (int64_t i = 1; i <= 400; ++i) {
    coordinator.Schedule(increment);
    most = std::max(most, i - over.load());
  }
  CHECK(most <= 2);
  Must(coordinator.Join());
  CHECK(over == 400);
  CHECK(ToVector<int64_t>(Must(strategy.Read(counter))) == std::vector<int64_t>{400});
}

TEST_CASE("500 closures on 3 workers that add 1 make 500", "[api]") {
  Cluster cluster = MustStart(2, 3);
  ParameterServerStrategy strategy(cluster);
  const Variable counter = Must(strategy.CreateVariable("counter", CounterOptions()));
  const Variable other = Must(strategy.CreateVariable("other", CounterOptions()));
  CHECK(counter.info().shards[0].ps() != other.info().shards[0].ps());
  const RemoteFunction both = Must(strategy.Define("both", [&](FunctionBuilder& g) {
    Output one = g.Constant(Tensor::FromVector<int64_t>({1}));
    g.AssignAdd(counter, one);
    g.AssignAdd(other, g.Add(one, g.Argument("n", DType::kI64, Shape{1})));
  }));
  ClusterCoordinator coordinator(strategy);
  int64_t sum = 0;
  for (int64_t i = 0; i < 500; ++i) {
    coordinator.Schedule(both, IdArgument(i));
    sum += 1 + i;
  }
  Must(coordinator.Join());
  CHECK(ToVector<int64_t>(Must(strategy.Read(counter))) == std::vector<int64_t>{500});
  CHECK(ToVector<int64_t>(Must(strategy.Read(other))) == std::vector<int64_t>{sum});
  // Each shard has taken each closure's update once.
  std::map<std::string, uint64_t> applied;
  for (const proto::TaskStatus& task : TaskStatuses(cluster)) {
    for (const proto::ShardStatus& shard : task.shards()) {
      applied[shard.variable()] += shard.updates_applied();
    }
  }
  CHECK(applied == std::map<std::string, uint64_t>{{"counter", 500}, {"other", 500}});
}

TEST_CASE("a function may have any results: several, nested by name, repeated, constant", "[api]") {
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  VariableOptions options;
  options.shape = Shape{2};
  options.initializer = Ones();
  const Variable v = Must(strategy.CreateVariable("v", options));
  const RemoteFunction f = Must(strategy.Define("f", [&](FunctionBuilder& g) {
    Output x = g.Argument("x", DType::kF32, Shape{kUnknownDim, 2});
    Output n = g.Argument("n", DType::kI64, Shape{});
    Output y = g.Add(x, g.Read(v));
    g.Result("stats/mean", g.Mean(y));
    g.Result("stats/rows/sum", g.Sum(y, {1}));
    g.Result("input", x);
    g.Result("n", n);
    g.Result("y", y);
    g.Result("y again", y);
    g.Result("constant", g.Constant(Floats({1, 2, 3})));
    g.Result("v", g.Read(v));
  }));
  ClusterCoordinator coordinator(strategy);
  const Tensor x = Tensor::FromVector<float>({1, 2, 3, 4}, Shape{2, 2}).value();
  const RemoteValue value = coordinator.Schedule(f, {x, Tensor::Scalar<int64_t>(9)});
  const std::vector<Tensor> results = Must(coordinator.Fetch(value));
  REQUIRE(results.size() == 8);
  const Tensor y = Tensor::FromVector<float>({2, 3, 4, 5}, Shape{2, 2}).value();
  CHECK(Same(results[0], Tensor::Scalar(3.5f)));
  CHECK(Same(results[1], Floats({5, 9})));
  CHECK(Same(results[2], x));
  CHECK(Same(results[3], Tensor::Scalar<int64_t>(9)));
  CHECK(Same(results[4], y));
  CHECK(Same(results[5], y));
  CHECK(Same(results[6], Floats({1, 2, 3})));
  CHECK(Same(results[7], Floats({1, 1})));
  CHECK(Must(coordinator.Fetch<float>(value, "stats/mean")) == 3.5f);
  CHECK(Must(coordinator.Fetch<int64_t>(value, "n")) == 9);
  CHECK(Same(Must(coordinator.Fetch(value, "y")), y));
  CHECK(f.results() == std::vector<std::string>{"stats/mean", "stats/rows/sum", "input", "n", "y",
                                                "y again", "constant", "v"});
  CHECK(coordinator.Fetch<float>(value, "n").status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(coordinator.Fetch<float>(value, "y").status().message()),
             Contains("wanted one f32"));  // it has several
  const absl::Status unknown = coordinator.Fetch<float>(value, "mean").status();
  CHECK(absl::IsNotFound(unknown));
  CHECK_THAT(std::string(unknown.message()),
             Contains("has no result 'mean'; it has: stats/mean, stats/rows/sum, input, n, y"));
  CHECK(absl::IsFailedPrecondition(coordinator.Fetch(RemoteValue(), "y").status()));
}

TEST_CASE("arguments that do not fit the function are an error that says what was wanted",
          "[api]") {
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  const RemoteFunction pick = DefinePick(&strategy);
  ClusterCoordinator coordinator(strategy);
  const auto error = [&](std::vector<Tensor> arguments) {
    const absl::Status status = coordinator.Schedule(pick, std::move(arguments)).Get().status();
    coordinator.Join().IgnoreError();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  CHECK(absl::StrContains(error({}), "wanted 1 arguments, found 0"));
  CHECK(absl::StrContains(error({Floats({1}), Floats({1})}), "wanted 1 arguments, found 2"));
  CHECK(absl::StrContains(error({Floats({1})}), "'ids'"));
  CHECK(absl::StrContains(error({Tensor::Scalar<int64_t>(1)}), "i64[?]"));
}

TEST_CASE("mistakes in a definition are errors that name what is wrong", "[api]") {
  Cluster cluster = MustStart(2, 1);
  ParameterServerStrategy strategy(cluster);
  VariableOptions options;
  options.shape = Shape{4, 2};
  options.partitioner = FixedShards(2);
  const Variable sharded = Must(strategy.CreateVariable("sharded", options));
  const auto error = [&](const ParameterServerStrategy::Build& build) {
    const auto f = strategy.Define("f", build);
    REQUIRE_FALSE(f.ok());
    INFO(f.status().ToString());
    CHECK(f.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(f.status().message());
  };
  const Output none;
  CHECK(
      absl::StrContains(error([&](auto& g) { g.FetchAdd(sharded, none); }), "2 shards, wanted 1"));
  CHECK(absl::StrContains(error([&](auto& g) { g.Minimize(g.Sum(g.Read(sharded))); }),
                          "depends on no variable"));
  CHECK(absl::StrContains(error([&](auto& g) { g.Column("user"); }), "'user'"));
  CHECK(absl::StrContains(error([&](auto& g) { g.MatMul(g.Read(sharded), g.Read(sharded)); }),
                          "MatMul"));
  CHECK(strategy.CreateVariable("sharded", options).status().code() ==
        absl::StatusCode::kAlreadyExists);
  options.partitioner = [](DType, const Shape&) { return int64_t{0}; };
  CHECK(strategy.CreateVariable("none", options).status().code() ==
        absl::StatusCode::kInvalidArgument);
  options.partitioner = [](DType, const Shape&) { return int64_t{5}; };
  CHECK(absl::StrContains(strategy.CreateVariable("many", options).status().message(), "5 shards"));
  TableOptions table;
  table.rows = 3;
  table.dim = 1;
  table.wire_dtype = DType::kI64;
  CHECK(absl::StrContains(strategy.CreateTable("t", table).status().message(), "found i64"));
  table.wire_dtype = DType::kF32;
  table.rows = 65537;  // a lookup has an output for each shard
  table.partitioner = MaxSize(/*max_shard_bytes=*/1, /*max_shards=*/0);
  CHECK(absl::StrContains(strategy.CreateTable("t", table).status().message(),
                          "65537 shards of 65537 rows; wanted at most 65536"));
  // After all that, the cluster is as good as new.
  CHECK(strategy.Define("g", [&](auto& g) { g.Result("s", g.Sum(g.Read(sharded))); }).ok());
}

TEST_CASE("a variable with any partitioner is read and assigned whole", "[api]") {
  Cluster cluster = MustStart(3, 1);
  ParameterServerStrategy strategy(cluster);
  ClusterCoordinator coordinator(strategy);
  const std::vector<Partitioner> partitioners = {nullptr,        FixedShards(1), FixedShards(2),
                                                 FixedShards(3), FixedShards(5), FixedShards(99),
                                                 MinSize(16, 4), MaxSize(20),    MaxSize(8, 2)};
  int number = 0;
  for (const Partitioner& partitioner : partitioners) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{7, 3}, Shape{4, 2, 2}}) {
      for (DType dtype : {DType::kF32, DType::kF64}) {
        INFO("partitioner " << number << ", shape " << shape.ToString());
        VariableOptions options;
        options.shape = shape;
        options.dtype = dtype;
        options.partitioner = partitioner;
        const std::string name = absl::StrCat("v", ++number);
        const Variable v = Must(strategy.CreateVariable(name, options));
        CHECK(Same(Must(strategy.Read(v)), Tensor::Zeros(dtype, shape)));
        Tensor value(dtype, shape);
        for (int64_t i = 0; i < value.num_elements(); ++i) {
          if (dtype == DType::kF32) value.mutable_data<float>()[i] = static_cast<float>(i) + 0.5f;
          if (dtype == DType::kF64) value.mutable_data<double>()[i] = static_cast<double>(i) - 0.25;
        }
        Must(strategy.Assign(v, value));
        CHECK(Same(Must(strategy.Read(v)), value));
        if (dtype == DType::kF64) continue;
        const RemoteFunction read =
            Must(strategy.Define(name, [&](FunctionBuilder& g) { g.Result("value", g.Read(v)); }));
        CHECK(Same(Must(coordinator.Schedule(read).Get())[0], value));
        CHECK_FALSE(strategy.Assign(v, Tensor::Zeros(DType::kI32, shape)).ok());
        CHECK_FALSE(strategy.Assign(v, Tensor::Zeros(dtype, Shape{9, 9})).ok());
      }
    }
  }
}

TEST_CASE("an epoch's tickets name each example once, on any number of workers", "[api]") {
  constexpr int64_t kRows = 100, kBatch = 7, kEpochs = 3;
  const DataFiles dir;
  std::string csv = "id,label\n";
  for (int64_t i = 0; i < kRows; ++i) absl::StrAppend(&csv, i, ",", i % 2, "\n");
  const std::string path = dir.Write("data.csv", csv);
  Cluster cluster = MustStart(2, 3);
  ParameterServerStrategy strategy(cluster);
  PerWorkerDataset data = Must(strategy.CreatePerWorkerDataset(
      Csv(path).Numeric("id").Label("label").Shuffle(7).Batch(kBatch).Epochs(kEpochs)));
  CHECK(data.steps_per_epoch() == 15);
  TableOptions options;
  options.rows = kRows;
  options.dim = 1;
  options.partitioner = FixedShards(1);
  const EmbeddingTable visits = Must(strategy.CreateTable("visits", options));
  const RemoteFunction visit = Must(strategy.Define("visit", data, [&](FunctionBuilder& g) {
    Output ids = g.Cast(g.Column("id"), DType::kI64);
    Output ones = g.Reshape(g.Op("OnesLike", {g.Column("id")}), Shape{kUnknownDim, 1});
    g.ScatterAdd(visits, ids, ones);
    g.Result("ids", ids);
    g.Result("label", g.Column("label"));
  }));
  ClusterCoordinator coordinator(strategy);
  std::map<int64_t, std::vector<RemoteValue>> by_epoch;
  while (auto ticket = data.NextTicket()) {
    by_epoch[ticket->epoch].push_back(coordinator.Schedule(visit, *ticket));
  }
  Must(coordinator.Join());
  REQUIRE(by_epoch.size() == kEpochs);
  std::vector<std::vector<int64_t>> orders;
  for (const auto& [epoch, values] : by_epoch) {
    INFO("epoch " << epoch);
    CHECK(values.size() == 15);
    std::vector<int64_t> order;
    for (const RemoteValue& v : values) {
      const auto results = Must(v.Get());
      const auto ids = ToVector<int64_t>(results[0]);
      const auto labels = ToVector<float>(results[1]);
      REQUIRE(ids.size() == labels.size());
      for (size_t i = 0; i < ids.size(); ++i) {
        CHECK(labels[i] == static_cast<float>(ids[i] % 2));  // rows stay together
        order.push_back(ids[i]);
      }
    }
    orders.push_back(order);
    std::sort(order.begin(), order.end());
    REQUIRE(order.size() == kRows);
    for (int64_t i = 0; i < kRows; ++i) CHECK(order[static_cast<size_t>(i)] == i);
  }
  CHECK(orders[0] != orders[1]);  // a new order each epoch
  CHECK(Same(Must(strategy.Read(visits)),
             Tensor::FromVector(std::vector<float>(kRows, kEpochs), Shape{kRows, 1}).value()));
}

TEST_CASE("a packed closure goes through its ticket in steps", "[api]") {
  const DataFiles dir;
  std::string csv = "id\n";
  for (int i = 0; i < 50; ++i) absl::StrAppend(&csv, i, "\n");
  Cluster cluster = MustStart(1, 2);
  ParameterServerStrategy strategy(cluster);
  PerWorkerDataset data = Must(strategy.CreatePerWorkerDataset(
      Csv(dir.Write("data.csv", csv)).Numeric("id").Batch(10).Epochs(1)));
  const Variable steps = Must(strategy.CreateVariable("steps", CounterOptions()));
  VariableOptions sum_options;
  sum_options.shape = Shape{};
  const Variable sum = Must(strategy.CreateVariable("sum", sum_options));
  const RemoteFunction f = Must(strategy.Define("f", data, [&](FunctionBuilder& g) {
    g.AssignAdd(steps, g.Constant(Tensor::FromVector<int64_t>({1})));
    g.AssignAdd(sum, g.Sum(g.Column("id")));
    g.Result("last", g.Max(g.Column("id")));
  }));
  ClusterCoordinator coordinator(strategy);
  std::vector<RemoteValue> values;
  while (auto ticket = data.NextTicket()) values.push_back(coordinator.Schedule(f, *ticket, 5));
  Must(coordinator.Join());
  CHECK(values.size() == 5);
  CHECK(ToVector<int64_t>(Must(strategy.Read(steps))) == std::vector<int64_t>{25});
  CHECK(ToVector<float>(Must(strategy.Read(sum))) == std::vector<float>{49 * 50 / 2});
  CHECK(Must(coordinator.Fetch<float>(values[1], "last")) == 19);  // of the last step
}

}  // namespace
}  // namespace coxswain
