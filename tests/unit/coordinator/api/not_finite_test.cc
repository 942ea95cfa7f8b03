// Numbers that are NaN or infinite are named, are not applied, and come into no checkpoint.
#include "runtime/base/not_finite.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/checkpoint.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain {
namespace {

using Catch::Contains;
using testing::Must;
using testing::MustStart;
using testing::Same;
using testing::ToVector;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

CheckpointOptions In(const DataFiles& files) {
  CheckpointOptions options;
  options.directory = files.Path("checkpoints");
  options.every = absl::ZeroDuration();  // only by Save
  return options;
}

// A table and a variable; a step scales the gradients of both by arguments.
struct Program {
  explicit Program(const Cluster& cluster, const TableOptions& table)
      : strategy(cluster), coordinator(strategy) {
    users = Must(strategy.CreateTable("users", table));
    w = Must(strategy.CreateVariable("w", {.shape = {3}, .optimizer = Sgd{.learning_rate = 1}}));
    step = Must(strategy.Define("step", [&](FunctionBuilder& f) {
      const Output ids = f.Argument("ids", DType::kI64, Shape{4});
      const Output scale = f.Argument("scale", DType::kF32, Shape{4, 1});
      const Output all = f.Argument("all", DType::kF32, Shape{});
      const Output rows = f.Sum(f.Mul(f.Lookup(users, ids), scale));
      f.Minimize(f.Add(rows, f.Mul(f.Sum(f.Read(w)), all)));
    }));
  }
  absl::Status Step(std::vector<float> scale, float all = 1) {
    coordinator.Schedule(step, {Tensor::FromVector<int64_t>({5, 17, 2, 17}),
                                Tensor::FromVector(scale, Shape{4, 1}).value(),
                                Tensor::FromVector<float>({all}, Shape{}).value()});
    return coordinator.Join();
  }

  ParameterServerStrategy strategy;
  ClusterCoordinator coordinator;
  EmbeddingTable users;
  Variable w;
  RemoteFunction step;
};

TableOptions Rows(DType wire = DType::kF32) {
  TableOptions options;
  options.rows = 20;
  options.dim = 2;
  options.optimizer = Sgd{.learning_rate = 1};
  options.wire_dtype = wire;
  options.partitioner = FixedShards(3);
  return options;
}

TEST_CASE("a gradient that is no number is not applied, and names table, id and example",
          "[not_finite]") {
  for (const DType wire : {DType::kF32, DType::kBF16}) {
    const Cluster cluster = MustStart(1, 1);
    Program program(cluster, Rows(wire));
    Must(program.Step({1, 1, 1, 1}));
    const Tensor before = Must(program.strategy.Read(program.users));
    const Tensor w = Must(program.strategy.Read(program.w));
    const absl::Status failed = program.Step({1, 1, kInfinity, 1});
    INFO(failed.ToString());
    CHECK_THAT(std::string(failed.message()), Contains("table 'users', id 2 is infinite"));
    CHECK_THAT(std::string(failed.message()), Contains("the id is in example 2 of the arguments"));
    CHECK(GetDetail(failed)->cause == ErrorCause::kApplication);
    REQUIRE(GetNotFinite(failed).has_value());
    CHECK(GetNotFinite(failed)->variable == "users");
    CHECK(GetNotFinite(failed)->id == 2);
    // One of two examples of a row, and f32 that is too large for the sum.
    const absl::Status sum = program.Step({1, 3e38f, 1, 3e38f});
    CHECK_THAT(std::string(sum.message()), Contains("id 17 is infinite"));
    CHECK_THAT(std::string(sum.message()), Contains("in examples 1, 3 of the arguments"));
    CHECK(Same(Must(program.strategy.Read(program.users)), before));
    CHECK(Same(Must(program.strategy.Read(program.w)), w));
    Must(program.Step({1, 1, 1, 1}));
  }
}

TEST_CASE("a dense variable's gradient that is no number is not applied, and names the variable",
          "[not_finite]") {
  const Cluster cluster = MustStart(1, 1);
  Program program(cluster, Rows());
  const absl::Status failed = program.Step({1, 1, 1, 1}, -kInfinity);
  CHECK_THAT(std::string(failed.message()),
             Contains("the gradient of variable 'w' is minus infinite"));
  CHECK(GetNotFinite(failed)->variable == "w");
  CHECK_FALSE(GetNotFinite(failed)->id.has_value());
  CHECK(ToVector<float>(Must(program.strategy.Read(program.w))) == std::vector<float>{0, 0, 0});
}

TEST_CASE("a table with a row that is no number is not saved, and the program is told which",
          "[not_finite]") {
  TableOptions any_ids;
  any_ids.dim = 2;
  any_ids.hash.emplace();
  any_ids.optimizer = Adagrad{.learning_rate = 1};
  any_ids.partitioner = FixedShards(2);
  TableOptions bf16 = Rows();
  bf16.dtype = DType::kBF16;
  for (const TableOptions& table : {Rows(), any_ids, bf16}) {
    const DataFiles dir;
    const Cluster cluster = MustStart(2, 1);
    Program program(cluster, table);
    CheckpointManager checkpoints(In(dir));
    Must(checkpoints.Start(cluster));
    Must(program.Step({1, 1, 1, 1}));
    Must(checkpoints.Save());
    const VariableInfo& info = program.users.info();
    const Tensor bad(info.dtype, Shape{1, 2});
    std::memset(bad.buffer().data(), 0xff, bad.bytes());  // NaN, whatever the dtype
    if (info.hash()) {
      Must(program.strategy.WriteIds(info, Tensor::FromVector<int64_t>({17}), bad));
    } else {
      for (int shard = 0; shard < 3; ++shard) {
        for (int64_t row = 0; row < info.shards[static_cast<size_t>(shard)].rows(); ++row) {
          if (info.GlobalRow(shard, row) != 17) continue;
          Must(program.strategy.WriteShard(info, shard, row, bad));
        }
      }
    }
    const absl::Status failed = checkpoints.Save();
    INFO(failed.ToString());
    CHECK_THAT(std::string(failed.message()),
               Contains("table 'users', id 17: its weights are NaN or infinite"));
    // It cannot go on, and says which checkpoint can.
    const absl::Status ended = program.Step({1, 1, 1, 1});
    CHECK_THAT(std::string(ended.message()), Contains("checkpoint 1 (step 1) is the last one"));
    CheckpointManager again(In(dir));
    Must(again.Find());
    REQUIRE(again.found());
    CHECK(again.manifest().number == 1);
  }
}

TEST_CASE("what an optimizer makes too large is found when it is saved", "[not_finite]") {
  const DataFiles dir;
  const Cluster cluster = MustStart(1, 1);
  TableOptions table = Rows();
  table.optimizer = Adagrad{.learning_rate = 1};
  Program program(cluster, table);
  CheckpointManager checkpoints(In(dir));
  Must(checkpoints.Start(cluster));
  Must(program.Step({1e30f, 1, 1, 1}));  // finite, but its square is not
  const absl::Status failed = checkpoints.Save();
  CHECK_THAT(std::string(failed.message()),
             Contains("table 'users', id 5: its optimizer's 'accumulator' is NaN or infinite"));
}

TEST_CASE(
    "rows that are no numbers and were evicted, and variables without an optimizer, are saved",
    "[not_finite]") {
  const DataFiles dir;
  const Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  TableOptions options;
  options.dim = 1;
  options.hash.emplace();
  options.optimizer = Sgd{.learning_rate = 1};
  options.partitioner = FixedShards(1);
  const EmbeddingTable table = Must(strategy.CreateTable("t", options));
  const Variable mask = Must(strategy.CreateVariable("mask", {.shape = {2}}));
  Must(strategy.Assign(mask, Tensor::FromVector<float>({0, -kInfinity})));
  Must(strategy.WriteIds(table.info(), Tensor::FromVector<int64_t>({1, 2}),
                         Tensor::FromVector<float>({kInfinity, 1}, Shape{2, 1}).value()));
  Must(strategy.RemoveIds(table.info()));
  CheckpointManager checkpoints(In(dir));
  Must(checkpoints.Start(cluster));
  Must(checkpoints.Save());
}

}  // namespace
}  // namespace coxswain
