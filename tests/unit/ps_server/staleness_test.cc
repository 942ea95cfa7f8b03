// How late gradients are: what is counted, and what it does to their rate.
#include "ps_server/staleness.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "ps_server/shard_store.h"
#include "runtime/graph/builder.h"
#include "tests/testing/hash_specs.h"
#include "tests/testing/ps_daemon.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/shards.h"

namespace coxswain::ps {
namespace {

using Kind = graph::Update::Kind;
using testing::AsFloats;
using testing::Ids;
using testing::OptimizerOf;
using testing::StepOf;
using testing::UpdateOf;
using testing::VariableOf;
using testing::WholeOf;

constexpr ShardId kTable = 1, kDense = 2;
const std::vector<ShardId> kBoth = {kTable, kDense};

// The rate is 1, so that an update is the gradient.
void Fill(ShardStore* store, const std::string& staleness_rate = "") {
  proto::OptimizerSpec sgd = OptimizerOf("sgd", 1);
  sgd.set_staleness_rate(staleness_rate);
  REQUIRE(store->Add(WholeOf(VariableOf("t", {4, 1}, true, sgd), kTable)).ok());
  REQUIRE(store->Add(WholeOf(VariableOf("w", {1}, false, sgd), kDense)).ok());
}

void Read(ShardStore* store, const ReadStamp& stamp) {
  SegmentTransaction segment(store);
  segment.CountStaleness(stamp, &kBoth);
  REQUIRE(segment.Gather(kTable, Ids({0, 2})).ok());
  REQUIRE(segment.Read(kDense).ok());
}

// A gradient of -1 for rows 0 and 2, and for the dense variable.
CommitResult Push(ShardStore* store, const ReadStamp& stamp) {
  SegmentTransaction segment(store);
  segment.CountStaleness(stamp, &kBoth);
  const Tensor rows = Tensor::FromVector<float>({-1, -1}, Shape{2, 1}).value();
  REQUIRE(segment.Stage(UpdateOf(Kind::kSparse, kTable, rows, Ids({0, 2}))).ok());
  REQUIRE(segment.Stage(UpdateOf(Kind::kDense, kDense, Tensor::FromVector<float>({-1}))).ok());
  return segment.Commit(StepOf(stamp.closure, stamp.step));
}

StalenessCounts CountsOf(const ShardStore& store, ShardId shard) {
  for (const ShardStats& stats : store.Stats()) {
    if (stats.id == shard) return stats.staleness;
  }
  return {};
}

float Value(const ShardStore& store) {
  return AsFloats(store.Get(kDense).value()->ReadRows(0, 1).value())[0];
}

TEST_CASE("staleness goes into buckets of powers of two, and the last one takes the rest",
          "[staleness]") {
  CHECK(StalenessCounts::BucketOf(0) == 0);
  CHECK(StalenessCounts::BucketOf(1) == 1);
  CHECK(StalenessCounts::BucketOf(2) == 2);
  CHECK(StalenessCounts::BucketOf(3) == 2);
  CHECK(StalenessCounts::BucketOf(4) == 3);
  CHECK(StalenessCounts::BucketOf(16383) == 14);
  CHECK(StalenessCounts::BucketOf(16384) == 15);
  CHECK(StalenessCounts::BucketOf(int64_t{1} << 62) == 15);
  StalenessCounts counts;
  for (const int64_t staleness : {0, 3, 3, 17}) counts.Add(staleness);
  CHECK(counts.counts[0] == 1);
  CHECK(counts.counts[2] == 2);
  CHECK(counts.counts[5] == 1);
  CHECK(counts.sum == 23);
  CHECK(counts.most == 17);
}

TEST_CASE("a gradient is as late as its shard took updates since it was read", "[staleness]") {
  ShardStore store;
  Fill(&store);
  for (const ClosureId closure : {1, 2, 3, 4}) Read(&store, {closure, 1, 0});
  CHECK(Push(&store, {1, 1, 0}).staleness == 0);
  CHECK(Push(&store, {3, 1, 0}).staleness == 1);
  Read(&store, {5, 1, 0});
  CHECK(Push(&store, {2, 1, 0}).staleness == 2);
  CHECK(Push(&store, {5, 1, 0}).staleness == 1);
  CHECK(Push(&store, {4, 1, 0}).staleness == 4);
  for (const ShardId shard : kBoth) {
    const StalenessCounts counts = CountsOf(store, shard);
    CHECK(counts.counts[0] == 1);
    CHECK(counts.counts[1] == 2);
    CHECK(counts.counts[2] == 1);
    CHECK(counts.counts[3] == 1);
    CHECK(counts.sum == 8);
    CHECK(counts.most == 4);
  }
}

TEST_CASE("an attempt's gradient is measured by its own reading, and duplicates are not counted",
          "[staleness]") {
  ShardStore store;
  Fill(&store);
  Read(&store, {9, 1, 0});
  for (const ClosureId closure : {1, 2, 3}) {
    Read(&store, {closure, 1, 0});
    Push(&store, {closure, 1, 0});
  }
  Read(&store, {9, 2, 0});  // it runs again
  Read(&store, {9, 1, 0});  // and the old attempt goes on
  CHECK(Push(&store, {9, 2, 0}).staleness == 0);
  CHECK(Push(&store, {9, 1, 0}).duplicates == 2);
  CHECK(CountsOf(store, kTable).counts[0] == 4);
  // One whose reading this store has not seen is applied, and not counted.
  CHECK(Push(&store, {10, 1, 0}).staleness == -1);
  CHECK(store.Get(kTable).value()->applied() == 5);
  CHECK(CountsOf(store, kTable).counts[0] == 4);
}

// A gradient of -1 for these rows or ids.
void PushRows(ShardStore* store, ClosureId closure, const std::vector<int64_t>& ids,
              bool read = true) {
  const ReadStamp stamp{closure, 1, 0};
  const std::vector<ShardId> table = {kTable};
  if (read) {
    SegmentTransaction reading(store);
    reading.CountStaleness(stamp, &table);
    REQUIRE(reading.Gather(kTable, Ids(ids)).ok());
  }
  SegmentTransaction segment(store);
  segment.CountStaleness(stamp, &table);
  const auto n = static_cast<int64_t>(ids.size());
  const std::vector<float> minus(ids.size(), -1);
  const Tensor rows = Tensor::FromVector<float>(minus, Shape{n, 1}).value();
  REQUIRE(segment.Stage(UpdateOf(Kind::kSparse, kTable, rows, Ids(ids))).ok());
  REQUIRE(segment.Commit(StepOf(stamp.closure, stamp.step)).applied == 1);
}

TEST_CASE("of a late gradient's rows those are counted that had changed since they were read",
          "[staleness]") {
  ShardStore store;
  Fill(&store);
  PushRows(&store, 1, {0, 3});
  Read(&store, {9, 1, 0});  // rows 0 and 2
  CHECK(CountsOf(store, kTable).rows == 2);
  CHECK(CountsOf(store, kTable).rows_changed == 0);
  PushRows(&store, 2, {1, 2});
  PushRows(&store, 3, {2, 3});
  CHECK(CountsOf(store, kTable).rows_changed == 0);  // each was read just before
  CHECK(Push(&store, {9, 1, 0}).staleness == 2);     // row 2 has changed, row 0 has not
  CHECK(CountsOf(store, kTable).rows == 8);
  CHECK(CountsOf(store, kTable).rows_changed == 1);
  CHECK(CountsOf(store, kDense).rows == 0);
  PushRows(&store, 4, {0, 1}, /*read=*/false);  // its reading was not seen
  CHECK(CountsOf(store, kTable).rows == 8);
}

TEST_CASE("a row that a late gradient makes has not changed since it was read", "[staleness]") {
  ShardStore store;
  const proto::VariableSpec table = testing::HashTableOf("t", 1, OptimizerOf("sgd", 1));
  REQUIRE(store.Add(testing::HashShardsOf(table, 1, kTable)[0]).ok());
  const std::vector<ShardId> updated = {kTable};
  SegmentTransaction reading(&store);
  reading.CountStaleness({9, 1, 0}, &updated);
  REQUIRE(reading.Gather(kTable, Ids({5, 6})).ok());
  PushRows(&store, 1, {6, 7});
  PushRows(&store, 9, {5, 6}, /*read=*/false);
  CHECK(CountsOf(store, kTable).rows == 4);
  CHECK(CountsOf(store, kTable).rows_changed == 1);
}

TEST_CASE("the steps of a packed closure are measured one by one", "[staleness]") {
  ShardStore store;
  Fill(&store);
  Read(&store, {1, 1, 0});
  Push(&store, {1, 1, 0});
  Read(&store, {1, 1, 1});
  Read(&store, {2, 1, 0});
  Push(&store, {2, 1, 0});
  CHECK(Push(&store, {1, 1, 1}).staleness == 1);
}

TEST_CASE("readings without an update are forgotten when their closure is over", "[staleness]") {
  ReadMarks marks;
  for (const ClosureId closure : {1, 2, 3}) marks.Note({closure, 1, 0}, 7);
  CHECK(marks.size() == 3);
  marks.SetLowWater(3);
  CHECK(marks.size() == 1);
  CHECK_FALSE(marks.Take({2, 1, 0}).has_value());
  CHECK(marks.Take({3, 1, 0})->applied == 7);
  CHECK(marks.size() == 0);
}

TEST_CASE("a late gradient's rate is divided by its staleness, or by the root of it",
          "[staleness]") {
  for (const auto& [rate, factor] :
       {std::pair{"", 1.0}, {"none", 1.0}, {"inverse", 0.25}, {"root", 0.5}}) {
    INFO(rate);
    ShardStore store;
    Fill(&store, rate);
    Read(&store, {9, 1, 0});
    for (const ClosureId closure : {1, 2, 3, 4}) {  // not late, or by one: the whole rate
      Read(&store, {closure, 1, 0});
      Push(&store, {closure, 1, 0});
    }
    REQUIRE(Value(store) == 4);
    CHECK(Push(&store, {9, 1, 0}).staleness == 4);
    CHECK(Value(store) == 4 + factor);
    CHECK(AsFloats(store.Get(kTable).value()->ReadRows(0, 4).value())[2] == 4 + factor);
  }
  CHECK(RateFactor(LateRate::kInverse, 1) == 1);
  CHECK(RateFactor(LateRate::kRoot, 2) == 1 / std::sqrt(2.0));
  ShardStore store;
  proto::OptimizerSpec wrong = OptimizerOf("sgd", 1);
  wrong.set_staleness_rate("cubic");
  const absl::Status status = store.Add(WholeOf(VariableOf("w", {1}, false, wrong), 1));
  CHECK(status.message().find("unknown staleness_rate 'cubic'") != std::string::npos);
}

TEST_CASE("a late gradient is compensated for what its rows have become since it was read",
          "[staleness]") {
  ShardStore store;
  proto::OptimizerSpec sgd = OptimizerOf("sgd", 1);
  sgd.set_delay_compensation(0.5);
  REQUIRE(store.Add(WholeOf(VariableOf("t", {4, 1}, true, sgd), kTable)).ok());
  REQUIRE(store.Add(WholeOf(VariableOf("w", {1}, false, sgd), kDense)).ok());
  Read(&store, {9, 1, 0});
  for (const ClosureId closure : {1, 2}) {  // not late: rows 0 and 2, and w, become 1 and 2
    Read(&store, {closure, 1, 0});
    Push(&store, {closure, 1, 0});
  }
  REQUIRE(Value(store) == 2);
  // The gradient -1 becomes -1 + 0.5 * 1 * (2 - 0) = 0; row 1, which was not read, keeps its own.
  SegmentTransaction segment(&store);
  segment.CountStaleness({9, 1, 0}, &kBoth);
  const Tensor rows = Tensor::FromVector<float>({-1, -1}, Shape{2, 1}).value();
  REQUIRE(segment.Stage(UpdateOf(Kind::kSparse, kTable, rows, Ids({0, 1}))).ok());
  REQUIRE(segment.Stage(UpdateOf(Kind::kDense, kDense, Tensor::FromVector<float>({-2}))).ok());
  CHECK(segment.Commit(StepOf(9)).staleness == 2);
  const auto table = AsFloats(store.Get(kTable).value()->ReadRows(0, 4).value());
  CHECK(table[0] == 2);
  CHECK(table[1] == 1);
  CHECK(Value(store) == 0);  // -2 + 0.5 * 4 * 2 = 2
  proto::OptimizerSpec wrong = OptimizerOf("sgd", 1);
  wrong.set_delay_compensation(-1);
  CHECK_FALSE(store.Add(WholeOf(VariableOf("x", {1}, false, wrong), 3)).ok());
}

TEST_CASE("a synchronous step's gradients are not late, and are counted one by one",
          "[staleness]") {
  ShardStore store;
  Fill(&store);
  const SyncStep step{.first = 1, .count = 2};
  for (const ClosureId closure : {1, 2}) Read(&store, {closure, 1, 0});
  for (const ClosureId closure : {1, 2}) {
    SegmentTransaction segment(&store);
    segment.CountStaleness({closure, 1, 0}, &kBoth);
    REQUIRE(segment.Stage(UpdateOf(Kind::kDense, kDense, Tensor::FromVector<float>({-1}))).ok());
    REQUIRE(segment.Hold(step, StepOf(closure)).ok());
  }
  CHECK(CountsOf(store, kDense).counts[0] == 0);  // nothing is applied yet
  for (const ClosureId closure : {1, 2}) REQUIRE(store.HeldEverywhere(step, StepOf(closure)).ok());
  CHECK(CountsOf(store, kDense).counts[0] == 2);
  CHECK(CountsOf(store, kDense).most == 0);
}

TEST_CASE("a parameter server says how late the gradients of frames were, if it is asked",
          "[staleness]") {
  testing::PsDaemon ps(0, 2);
  REQUIRE(ps.Create({WholeOf(VariableOf("w", {1}, false, OptimizerOf("sgd", 1)), kDense)}).ok());
  graph::GraphBuilder b("step", &testing::ClusterOps());
  const Output w = b.Op("ReadVariable", {}, testing::ReadOf(kDense, Shape{1}));
  b.Target("ApplyDense", {b.Op("Mul", {w, w})}, testing::ShardOf(kDense));
  auto function = b.Finish();
  REQUIRE(function.ok());
  REQUIRE(ps.Register(1, *function).ok());
  auto worker = ps.ConnectWorker(0);
  const std::vector<Tensor> gradient = {Tensor::FromVector<float>({1})};
  for (const ClosureId closure : {1, 2, 3}) {
    CHECK(testing::PsDaemon::Push(worker.get(), ps.Frame(1, closure, {}, 0)).ok());
  }
  for (const ClosureId closure : {1, 2, 3}) {
    CHECK(testing::PsDaemon::Push(worker.get(), ps.Frame(1, closure, gradient, 1)).ok());
  }
  CHECK(ps.Status().shards(0).staleness_size() == 0);
  proto::ControlRequest request;
  request.mutable_status()->set_staleness(true);
  const auto reply = ps.Call(request);
  REQUIRE(reply.ok());
  const proto::ShardStatus& shard = reply->task_status().shards(0);
  CHECK(std::vector<uint64_t>(shard.staleness().begin(), shard.staleness().end()) ==
        std::vector<uint64_t>{1, 1, 1});
  CHECK(shard.staleness_sum() == 3);
  CHECK(shard.staleness_most() == 2);
}

}  // namespace
}  // namespace coxswain::ps
