// The ops on shards, on a fake of what a PS gives them.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/graph/builder.h"
#include "tests/ops/op_case.h"
#include "tests/testing/interpreter.h"

namespace coxswain::testing {
namespace {

using Catch::Contains;

// Two f32 shards: 3 is [4,2] with rows (10 i, 10 i + 1), 5 is a vector [3]. Updates are only noted.
class FakeShards final : public graph::VariableAccess {
 public:
  FakeShards() {
    shards_[3] = F32({4, 2}, {0, 1, 10, 11, 20, 21, 30, 31});
    shards_[5] = F32({3}, {7, 8, 9});
  }

  absl::StatusOr<Tensor> Read(ShardId shard) override {
    const auto it = shards_.find(shard);
    if (it == shards_.end()) return absl::NotFoundError("no such shard");
    return it->second;
  }
  absl::StatusOr<Tensor> Gather(ShardId shard, const Tensor& ids) override {
    auto whole = Read(shard);
    if (!whole.ok()) return whole.status();
    Tensor rows(DType::kF32, Shape{ids.dim(0), whole->dim(1)});
    for (int64_t i = 0; i < ids.dim(0); ++i) {
      const int64_t id = ids.data<int64_t>()[i];
      if (id < 0 || id >= whole->dim(0)) {
        return absl::InvalidArgumentError(absl::StrCat("id ", id, " is out of range"));
      }
      std::memcpy(rows.mutable_data<float>() + i * whole->dim(1),
                  whole->data<float>() + id * whole->dim(1), sizeof(float) * whole->dim(1));
    }
    return rows;
  }
  absl::Status Stage(graph::Update update) override {
    if (!shards_.contains(update.shard)) return absl::NotFoundError("no such shard");
    staged.push_back(std::move(update));
    return absl::OkStatus();
  }

  std::vector<graph::Update> staged;

 private:
  std::map<ShardId, Tensor> shards_;
};

FakeShards* SharedFake() {
  static FakeShards* const fake = new FakeShards;  // the cases below look only at what they read
  return fake;
}

Attrs On(int shard) { return {{"shard", shard}, {"variable", "users"}}; }
Attrs Typed(int shard, Shape shape) {
  Attrs attrs = On(shard);
  attrs["dtype"] = DType::kF32;
  attrs["shape"] = std::move(shape);
  return attrs;
}

InterpretOptions With(graph::VariableAccess* shards) {
  InterpretOptions options;
  options.variables = shards;
  return options;
}

// Runs one node that has no output on `shards`.
absl::Status RunUpdate(const std::string& op, std::vector<Tensor> inputs, const Attrs& attrs,
                       graph::VariableAccess* shards) {
  graph::GraphBuilder builder("update", &AllOps());
  std::vector<Output> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    arguments.push_back(
        builder.Argument(absl::StrCat("x", i), inputs[i].dtype(), inputs[i].shape()));
  }
  builder.Target(op, arguments, attrs);
  auto function = builder.Finish();
  if (!function.ok()) return function.status();
  return Interpret(*function, std::move(inputs), With(shards)).status();
}

TEST_CASE("gradients reach the shard with what multiplies its learning rate") {
  FakeShards shards;
  Attrs attrs = On(3);
  attrs["rate"] = 0.25;
  REQUIRE(RunUpdate("ApplyDense", {F32({2}, {1, 2})}, attrs, &shards).ok());
  REQUIRE(RunUpdate("ApplySparse", {I64({1}, {1}), F32({1, 2}, {1, 2})}, attrs, &shards).ok());
  CHECK(shards.staged[0].rate == 0.25);
  CHECK(shards.staged[1].rate == 0.25);
  for (const double rate : {0.0, -0.5, static_cast<double>(INFINITY), std::nan("")}) {
    attrs["rate"] = rate;
    const absl::Status refused = RunUpdate("ApplyDense", {F32({2}, {1, 2})}, attrs, &shards);
    CHECK(absl::IsInvalidArgument(refused));
    CHECK(absl::StrContains(refused.message(), "'rate'"));
  }
  // A moving average goes no further than to what it is of.
  attrs["rate"] = 0.25;
  REQUIRE(RunUpdate("AssignMovingAverageVariable", {F32({2}, {1, 2})}, attrs, &shards).ok());
  CHECK(shards.staged[2].kind == graph::Update::Kind::kAssignMovingAverage);
  CHECK(shards.staged[2].rate == 0.25);
  attrs["rate"] = 1.5;
  const absl::Status too_far =
      RunUpdate("AssignMovingAverageVariable", {F32({2}, {1, 2})}, attrs, &shards);
  CHECK(absl::StrContains(too_far.message(), "wanted at most 1, found 1.5"));
  // What is assigned has none.
  attrs["rate"] = 0.25;
  CHECK_FALSE(RunUpdate("AssignVariable", {F32({2}, {1, 2})}, attrs, &shards).ok());
}

TEST_CASE("updates reach the shard with their kind, ids and values") {
  const struct {
    const char* op;
    graph::Update::Kind kind;
    bool rows;
  } updates[] = {{"ApplyDense", graph::Update::Kind::kDense, false},
                 {"ApplySparse", graph::Update::Kind::kSparse, true},
                 {"AssignVariable", graph::Update::Kind::kAssign, false},
                 {"AssignAddVariable", graph::Update::Kind::kAssignAdd, false},
                 {"AssignMovingAverageVariable", graph::Update::Kind::kAssignMovingAverage, false},
                 {"ScatterAddVariable", graph::Update::Kind::kScatterAdd, true}};
  for (const auto& u : updates) {
    CAPTURE(u.op);
    FakeShards shards;
    const Tensor ids = I64({2}, {3, 1}), values = F32({2, 2}, {1, 2, 3, 4});
    const absl::Status status =
        RunUpdate(u.op, u.rows ? std::vector<Tensor>{ids, values} : std::vector<Tensor>{values},
                  On(3), &shards);
    INFO(status.message());
    REQUIRE(status.ok());
    REQUIRE(shards.staged.size() == 1);
    const graph::Update& update = shards.staged[0];
    CHECK(update.kind == u.kind);
    CHECK(update.rate == 1);
    CHECK(update.shard == 3);
    CHECK(update.values.ToString() == values.ToString());
    CHECK(update.ids.has_value() == u.rows);
    if (u.rows) CHECK(update.ids.ToString() == ids.ToString());
  }
}

TEST_CASE("an equal update is made twice, not merged") {
  FakeShards shards;
  graph::GraphBuilder builder("twice", &AllOps());
  const Output g = builder.Argument("g", DType::kF32, {3});
  builder.Target("AssignAddVariable", {g}, On(5));
  builder.Target("AssignAddVariable", {g}, On(5));
  auto function = builder.Finish();
  REQUIRE(function.ok());
  REQUIRE(Interpret(*function, {F32({3}, {1, 1, 1})}, With(&shards)).ok());
  CHECK(shards.staged.size() == 2);
}

TEST_CASE("an update carries its number, 0 when it has none") {
  FakeShards shards;
  Attrs attrs = On(5);
  const Tensor value = F32({3}, {1, 1, 1});
  REQUIRE(RunUpdate("AssignVariable", {value}, attrs, &shards).ok());
  attrs["update"] = int64_t{0xffffffff};
  REQUIRE(RunUpdate("AssignVariable", {value}, attrs, &shards).ok());
  REQUIRE(shards.staged.size() == 2);
  CHECK(shards.staged[0].key == 0);
  CHECK(shards.staged[1].key == 0xffffffff);
  for (const AttrValue& bad :
       {AttrValue(-1), AttrValue(int64_t{1} << 32), AttrValue("first"), AttrValue(1.0)}) {
    attrs["update"] = bad;
    const absl::Status status = RunUpdate("AssignVariable", {value}, attrs, &shards);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Contains("'update'"));
  }
}

TEST_CASE("a gradient carries a learning rate, none when it was given none") {
  FakeShards shards;
  const Tensor whole = F32({3}, {1, 1, 1}), ids = I64({1}, {2}), rows = F32({1, 2}, {1, 2});
  REQUIRE(RunUpdate("ApplyDense", {whole}, On(5), &shards).ok());
  REQUIRE(RunUpdate("ApplyDense", {whole, F32({}, {0.5f})}, On(5), &shards).ok());
  REQUIRE(RunUpdate("ApplySparse", {ids, rows, F32({1}, {0})}, On(3), &shards).ok());
  REQUIRE(shards.staged.size() == 3);
  CHECK(shards.staged[0].learning_rate < 0);
  CHECK(shards.staged[1].learning_rate == 0.5);
  CHECK(shards.staged[2].learning_rate == 0);
  CHECK(shards.staged[2].values.ToString() == rows.ToString());
  for (const Tensor& bad :
       {F32({}, {-1}), F32({}, {NAN}), F32({}, {INFINITY}), F32({2}, {1, 1}), I64({}, {1})}) {
    const absl::Status status = RunUpdate("ApplyDense", {whole, bad}, On(5), &shards);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Contains("wanted a learning rate"));
  }
  CHECK_FALSE(RunUpdate("AssignVariable", {whole, F32({}, {1})}, On(5), &shards).ok());
}

TEST_CASE("ids without as many rows are refused") {
  FakeShards shards;
  const Tensor ids = I64({3}, {0, 1, 2}), rows = F32({2, 2}, {1, 2, 3, 4});
  CHECK_THAT(std::string(RunUpdate("ApplySparse", {ids, rows}, On(3), &shards).message()),
             Contains("ids and rows") && Contains("3 and 2"));
  CHECK(shards.staged.empty());
}

TEST_CASE("errors of a shard name the variable") {
  FakeShards shards;
  const absl::Status missing = RunUpdate("ApplyDense", {F32({1}, {1})}, On(9), &shards);
  CHECK(missing.code() == absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(missing.message()), Contains("'users'") && Contains("shard 9"));
  OpCase gather{.op = "GatherShard",
                .label = "",
                .inputs = {I64({1}, {4})},
                .attrs = Typed(3, {4, 2}),
                .variables = [] { return SharedFake(); }};
  CHECK_THAT(ErrorOf(gather, AllOps()), Contains("'users'") && Contains("id 4"));
  gather.attrs = Typed(3, {4, 3});  // the shard has 2 columns
  gather.inputs = {I64({1}, {0})};
  CHECK_THAT(ErrorOf(gather, AllOps()), Contains("[1,3]") && Contains("[1,2]"));
  gather.attrs = On(3);
  CHECK_THAT(ErrorOf(gather, AllOps()), Contains("'dtype' is missing"));
  gather.attrs = Typed(-1, {4, 2});
  CHECK_THAT(ErrorOf(gather, AllOps()), Contains("'shard'") && Contains("found -1"));
}

TEST_CASE("a task without variables says so") {
  const OpCase read{.op = "ReadVariable", .label = "", .inputs = {}, .attrs = Typed(5, {3})};
  CHECK_THAT(ErrorOf(read, AllOps()), Contains("holds no variables"));
}

TEST_CASE("gradients are taken with respect to gathered rows and stop there") {
  FakeShards shards;
  graph::GraphBuilder builder("lookup", &AllOps());
  const Output ids = builder.Argument("ids", DType::kI64, {kUnknownDim});
  const Output rows = builder.Op("GatherShard", {ids}, Typed(3, {4, 2}));
  const Output loss = builder.Op("RowDot", {rows, rows});
  const std::vector<Output> gradients = builder.Gradients({loss}, {rows});
  builder.Target("ApplySparse", {ids, gradients[0]}, On(3));
  builder.Result("loss", loss);
  auto function = builder.Finish();
  INFO(function.status().message());
  REQUIRE(function.ok());
  auto results = Interpret(*function, {I64({2}, {2, 0})}, With(&shards));
  INFO(results.status().message());
  REQUIRE(results.ok());
  CHECK((*results)[0].ToString() == F32({2}, {841, 1}).ToString());
  REQUIRE(shards.staged.size() == 1);
  CHECK(shards.staged[0].values.ToString() == F32({2, 2}, {40, 42, 0, 2}).ToString());
}

TEST_CASE("a whole gradient that travelled in bf16 is applied in f32") {
  FakeShards shards;
  graph::GraphBuilder builder("update", &AllOps());
  builder.Target("ApplyDense", {builder.Argument("gradient", DType::kBF16, Shape{3})}, On(5));
  const auto function = builder.Finish();
  REQUIRE(function.ok());
  REQUIRE(Interpret(*function, {BF16({3}, {1, -2, 0.5f})}, With(&shards)).ok());
  REQUIRE(shards.staged.size() == 1);
  CHECK(shards.staged[0].values.ToString() == F32({3}, {1, -2, 0.5f}).ToString());
}

TEST_CASE("rows and gradients travel in bf16 when asked, and are summed and applied in f32") {
  FakeShards shards;
  Attrs attrs = Typed(3, {4, 2});
  attrs["wire_dtype"] = DType::kBF16;
  graph::GraphBuilder builder("lookup", &AllOps());
  const Output ids = builder.Argument("ids", DType::kI64, {kUnknownDim});
  const Output sent = builder.Op("GatherShard", {ids}, attrs);
  const Output rows = builder.Op("Cast", {sent}, {{"dtype", DType::kF32}});
  const Output third = builder.Op("Mul", {rows, builder.Scalar(1.0f / 3)});
  const std::vector<Output> gradients = builder.Gradients({third}, {sent});
  CHECK(builder.type(gradients[0]).dtype == DType::kBF16);
  builder.Target("ApplySparse", {ids, gradients[0]}, On(3));
  builder.Result("rows", rows);
  auto function = builder.Finish();
  INFO(function.status().message());
  REQUIRE(function.ok());
  auto results = Interpret(*function, {I64({2}, {2, 0})}, With(&shards));
  REQUIRE(results.ok());
  CHECK((*results)[0].ToString() == F32({2, 2}, {20, 21, 0, 1}).ToString());
  const float rounded = BFloat16::FromFloat(1.0f / 3).ToFloat();
  CHECK(rounded != 1.0f / 3);
  REQUIRE(shards.staged.size() == 1);
  CHECK(shards.staged[0].values.ToString() ==
        F32({2, 2}, {rounded, rounded, rounded, rounded}).ToString());

  attrs["wire_dtype"] = DType::kF64;
  graph::GraphBuilder bad("bad", &AllOps());
  bad.Op("GatherShard", {bad.Argument("ids", DType::kI64, {kUnknownDim})}, attrs);
  CHECK_THAT(std::string(bad.Finish().status().message()),
             Contains("'wire_dtype'") && Contains("f32 or bf16") && Contains("f64"));
}

}  // namespace
}  // namespace coxswain::testing
