#include "ps_server/shard_store.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/testing/ps_specs.h"
#include "tests/testing/shards.h"

namespace coxswain::ps {
namespace {

using Kind = graph::Update::Kind;
using testing::AsFloats;
using testing::Ids;
using testing::OptimizerOf;
using testing::RandomTensor;
using testing::StepOf;
using testing::UpdateOf;
using testing::ValuesOf;
using testing::VariableOf;
using testing::WholeOf;

// Shard 1: a table; shard 2: a dense variable; shard 3: a counter.
void Fill(ShardStore* store) {
  REQUIRE(store->Add(WholeOf(VariableOf("users", {20, 4}, true, OptimizerOf("adagrad")), 1)).ok());
  REQUIRE(store->Add(WholeOf(VariableOf("w", {3, 2}, false, OptimizerOf("adam")), 2)).ok());
  REQUIRE(store->Add(WholeOf(VariableOf("n", {1}, false, {}, DType::kI64), 3)).ok());
}

void StageAll(SegmentTransaction* segment, uint64_t seed, uint32_t key = 0) {
  for (graph::Update update :
       {UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{2, 4}, seed), Ids({3, 19})),
        UpdateOf(Kind::kDense, 2, RandomTensor(Shape{3, 2}, seed)),
        UpdateOf(Kind::kAssignAdd, 3, Ids({1}))}) {
    update.key = key;
    REQUIRE(segment->Stage(std::move(update)).ok());
  }
}

CommitResult Push(ShardStore* store, ClosureId closure, uint32_t step = 0, uint32_t key = 0) {
  SegmentTransaction transaction(store);
  StageAll(&transaction, closure * 100 + step * 10 + key, key);
  return transaction.Commit(StepOf(closure, step));
}

std::vector<std::vector<float>> ValuesIn(const ShardStore& store) {
  std::vector<std::vector<float>> values;
  for (ShardId id : {1, 2}) {
    const Shard* shard = store.Get(id).value();
    for (int p = 0; p < shard->parts(); ++p) {
      values.push_back(AsFloats(shard->ReadRows(0, shard->rows(), p).value()));
    }
  }
  const Tensor count = store.Get(3).value()->Read().value();
  values.push_back({static_cast<float>(*count.data<int64_t>())});
  return values;
}

}  // namespace

TEST_CASE("updates delivered again and again, in any order, count once") {
  ShardStore once, often;
  Fill(&once);
  Fill(&often);
  std::mt19937_64 random(3);
  int64_t duplicates = 0;
  for (ClosureId closure = 1; closure <= 60; ++closure) {
    CHECK(Push(&once, closure).applied == 3);
    CHECK(Push(&often, closure).applied == 3);
    for (uint64_t again = random() % 3; again > 0; --again) {
      const CommitResult result = Push(&often, 1 + random() % closure);
      CHECK(result.applied == 0);
      CHECK(result.duplicates == 3);
      ++duplicates;
    }
    if (closure % 7 == 0) often.SetLowWater(closure - 3);
  }
  CHECK(ValuesIn(often) == ValuesIn(once));
  for (const ShardStats& stats : often.Stats()) {
    CHECK(stats.applied == 60);
    CHECK(stats.duplicates == duplicates);
  }
  CHECK(often.GetLedger(1).value()->size() == 60 - 52);
}

TEST_CASE("one bad update and nothing of its segment is applied") {
  ShardStore store;
  Fill(&store);
  Push(&store, 1);
  const auto before = ValuesIn(store);
  const std::vector<graph::Update> bad = {
      UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{1, 4}, 1), Ids({20})),
      UpdateOf(Kind::kDense, 2, RandomTensor(Shape{2, 2}, 1)),
      UpdateOf(Kind::kDense, 3, Ids({1})),
      UpdateOf(Kind::kAssign, 4, Ids({1})),
  };
  for (const graph::Update& update : bad) {
    for (bool first : {true, false}) {
      SegmentTransaction segment(&store);
      if (!first) StageAll(&segment, 5);
      const absl::Status status = segment.Stage(update);
      CHECK(status.code() ==
            (update.shard == 4 ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument));
      if (first) StageAll(&segment, 5);
      CHECK(segment.failed());
      const CommitResult result = segment.Commit(StepOf(2));
      CHECK(result.applied + result.duplicates + result.gone == 0);
    }
  }
  CHECK(ValuesIn(store) == before);
  CHECK(store.Get(1).value()->applied() == 1);
  CHECK(Push(&store, 2).applied == 3);  // the ledger did not take the failed attempts
}

TEST_CASE("without a commit nothing changes, and reads do not see what is staged") {
  ShardStore store;
  Fill(&store);
  const auto before = ValuesIn(store);
  {
    SegmentTransaction segment(&store);
    StageAll(&segment, 1);
    CHECK(ValuesOf<float>(segment.Read(2).value()) == std::vector<float>(6, 0));
    CHECK(ValuesOf<float>(segment.Gather(1, Ids({3, 3})).value()) == std::vector<float>(8, 0));
    CHECK(segment.Read(9).status().code() == absl::StatusCode::kNotFound);
    CHECK(segment.Gather(9, Ids({1})).status().code() == absl::StatusCode::kNotFound);
    CHECK(segment.Gather(1, Ids({-1})).status().code() == absl::StatusCode::kInvalidArgument);
  }
  CHECK(ValuesIn(store) == before);
}

TEST_CASE("two attempts that each reach other shards give every shard one update") {
  ShardStore store;
  Fill(&store);
  SegmentTransaction first(&store), second(&store);
  REQUIRE(first.Stage(UpdateOf(Kind::kDense, 2, RandomTensor(Shape{3, 2}, 1))).ok());
  StageAll(&second, 2);
  CHECK(first.Commit(StepOf(7)).applied == 1);
  const CommitResult result = second.Commit(StepOf(7));
  CHECK(result.applied == 2);
  CHECK(result.duplicates == 1);
  for (const ShardStats& stats : store.Stats()) CHECK(stats.applied == 1);
}

TEST_CASE("all updates of a segment to one shard count as one, and steps and keys as several") {
  ShardStore store;
  Fill(&store);
  SegmentTransaction segment(&store);
  StageAll(&segment, 1);
  StageAll(&segment, 2);
  CHECK(segment.Commit(StepOf(1)).applied == 3);
  CHECK(store.Get(1).value()->applied() == 1);
  CHECK(*store.Get(3).value()->Read().value().data<int64_t>() == 2);
  CHECK(Push(&store, 1, 0, 1).applied == 3);
  CHECK(Push(&store, 1, 1, 0).applied == 3);
  CHECK(Push(&store, 1, 1, 0).duplicates == 3);
  CHECK(store.Get(1).value()->applied() == 3);
}

TEST_CASE("an attempt cut into other segments brings each update once") {
  // Keys 0, 1 and 2 of every shard; the first attempt gets as far as key 0.
  ShardStore store, once;
  Fill(&store);
  Fill(&once);
  CHECK(Push(&store, 1, 0, 0).applied == 3);
  {
    SegmentTransaction all(&store);
    for (uint32_t key : {0u, 1u, 2u}) StageAll(&all, 100 + key, key);
    const CommitResult result = all.Commit(StepOf(1));
    CHECK(result.applied == 3);
    CHECK(result.duplicates == 0);
  }
  for (uint32_t key : {0u, 1u, 2u}) CHECK(Push(&store, 1, 0, key).duplicates == 3);
  {
    SegmentTransaction all(&store);
    for (uint32_t key : {2u, 1u}) StageAll(&all, 100 + key, key);
    CHECK(all.Commit(StepOf(1)).duplicates == 3);
  }
  CHECK(Push(&once, 1, 0, 0).applied == 3);
  SegmentTransaction rest(&once);
  for (uint32_t key : {1u, 2u}) StageAll(&rest, 100 + key, key);
  CHECK(rest.Commit(StepOf(1)).applied == 3);
  CHECK(ValuesIn(store) == ValuesIn(once));
  CHECK(store.Get(1).value()->applied() == 2);  // one per segment that applied anything
  CHECK(store.GetLedger(1).value()->Serialize() == "0 1:0/0,0/1,0/2");
}

TEST_CASE("a shard put in place of another is not taken for it") {
  ShardStore store;
  Fill(&store);
  SegmentTransaction before(&store);
  StageAll(&before, 1);
  checkpoint::Ledger ledger;
  REQUIRE(ledger.Insert(9, 0, 0));
  const proto::ShardSpec spec = store.Get(2).value()->spec();
  store.Put(Shard::Create(spec).value(), ledger);
  const CommitResult result = before.Commit(StepOf(3));
  CHECK(result.applied == 2);
  CHECK(result.gone == 1);
  CHECK(Push(&store, 9).duplicates == 1);
  store.Put(Shard::Create(WholeOf(VariableOf("late", {2}, false, {}), 4)).value(), {});
  CHECK(store.Ids() == std::vector<ShardId>{1, 2, 3, 4});
}

TEST_CASE("a sparse update of no rows counts as the step's update") {
  ShardStore store;
  Fill(&store);
  const auto before = ValuesIn(store);
  SegmentTransaction segment(&store);
  const Tensor none = Tensor::Zeros(DType::kF32, Shape{0, 4});
  REQUIRE(segment.Stage(UpdateOf(Kind::kSparse, 1, none, Ids({}))).ok());
  CHECK(segment.Commit(StepOf(1)).applied == 1);
  CHECK(ValuesIn(store) == before);
  CHECK(store.Get(1).value()->applied() == 1);
  CHECK(store.Get(1).value()->gradient_steps() == 1);
}

TEST_CASE("a shard that went away before the commit is reported, not silently dropped") {
  ShardStore store;
  Fill(&store);
  SegmentTransaction segment(&store), other(&store);
  StageAll(&segment, 1);
  StageAll(&other, 1);
  REQUIRE(store.Remove(1).ok());
  const CommitResult result = segment.Commit(StepOf(1));
  CHECK(result.applied == 2);
  CHECK(result.gone == 1);
  // Made anew, perhaps with another shape: updates checked against the old one do not fit.
  REQUIRE(store.Add(WholeOf(VariableOf("users", {5, 2}, true, OptimizerOf("sgd")), 1)).ok());
  CHECK(other.Commit(StepOf(2)).gone == 1);
  CHECK(store.Get(1).value()->applied() == 0);
}

TEST_CASE("a shard restored with its ledger drops what it had and takes what it lacked") {
  ShardStore store;
  Fill(&store);
  for (ClosureId closure = 1; closure <= 5; ++closure) Push(&store, closure);
  store.SetLowWater(3);
  const ShardStore::Cut cut = store.Snapshot(1).value();
  Push(&store, 6);
  ShardStore restored;
  const proto::ShardSpec spec = store.Get(1).value()->spec();
  REQUIRE(restored.Add(spec, Shard::Fill::kZeros).ok());
  Shard* shard = restored.Get(1).value();
  for (int p = 0; p < shard->parts(); ++p) {
    REQUIRE(shard->WriteRows(0, cut.snapshot->ReadRows(0, 20, p).value(), p).ok());
  }
  REQUIRE(shard->RestoreCounters(cut.snapshot->applied(), cut.snapshot->gradient_steps()).ok());
  *restored.GetLedger(1).value() = checkpoint::Ledger::Parse(cut.ledger).value();
  for (ClosureId closure = 1; closure <= 6; ++closure) {
    SegmentTransaction segment(&restored);
    REQUIRE(segment
                .Stage(UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{2, 4}, closure * 100),
                                Ids({3, 19})))
                .ok());
    CHECK(segment.Commit(StepOf(closure)).applied == (closure == 6 ? 1 : 0));
  }
  CHECK(ValuesOf<float>(shard->Read().value()) ==
        ValuesOf<float>(store.Get(1).value()->Read().value()));
  CHECK(shard->applied() == 6);
}

TEST_CASE("shards are added once, listed by id and removed") {
  ShardStore store;
  Fill(&store);
  const absl::Status again = store.Add(WholeOf(VariableOf("other", {2}, false, {}), 2));
  CHECK(again.code() == absl::StatusCode::kAlreadyExists);
  CHECK_THAT(std::string(again.message()), Catch::Contains("'w'") && Catch::Contains("'other'"));
  CHECK(store.Add(WholeOf(VariableOf("t", {}, true, {}), 8)).code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(store.Ids() == std::vector<ShardId>{1, 2, 3});
  const std::vector<ShardStats> stats = store.Stats();
  REQUIRE(stats.size() == 3);
  CHECK(stats[0].variable == "users");
  CHECK(stats[0].rows == 20);
  CHECK(stats[0].bytes == 20 * (32 + 8));  // 4 weights and 4 accumulators, padded to a cache line
  CHECK(stats[1].bytes == 3 * 6 * 4);
  CHECK(store.Remove(2).ok());
  CHECK(store.Remove(2).code() == absl::StatusCode::kNotFound);
  CHECK(store.Get(2).status().code() == absl::StatusCode::kNotFound);
  CHECK(store.GetLedger(2).status().code() == absl::StatusCode::kNotFound);
  CHECK(store.Snapshot(2).status().code() == absl::StatusCode::kNotFound);
  CHECK(store.size() == 2);
}

TEST_CASE("a step that fetches and adds again gets the number that it had, and adds once") {
  ShardStore store;
  Fill(&store);
  const auto fetch = [&](ClosureId closure, uint32_t step, bool commits = true) {
    SegmentTransaction segment(&store);
    const auto before = segment.FetchAdd(UpdateOf(Kind::kAssignAdd, 3, Ids({1})), closure, step);
    REQUIRE(before.ok());
    if (commits) segment.Commit(StepOf(closure, step));
    return before->data<int64_t>()[0];
  };
  CHECK(fetch(1, 0) == 0);
  CHECK(fetch(1, 1) == 1);
  CHECK(fetch(2, 0, /*commits=*/false) == 2);  // its segment failed, and nobody has the number
  CHECK(fetch(3, 0) == 2);
  CHECK(fetch(2, 0) == 3);
  CHECK(fetch(1, 0) == 0);
  CHECK(fetch(1, 1) == 1);
  CHECK(fetch(2, 0) == 3);
  // What is over is forgotten; only somebody who comes too late asks for it.
  store.SetLowWater(3);
  CHECK(fetch(1, 0) == 4);
  CHECK(fetch(3, 0) == 2);
  CHECK(store.Get(3).value()->Read().value().data<int64_t>()[0] == 4);
}

TEST_CASE("a shard that went back gives a step that it has applied the number that it had") {
  ShardStore store;
  Fill(&store);
  const auto fetch = [](ShardStore* from, ClosureId closure, bool commits = true) {
    SegmentTransaction segment(from);
    const auto before = segment.FetchAdd(UpdateOf(Kind::kAssignAdd, 3, Ids({1})), closure, 0);
    REQUIRE(before.ok());
    if (commits) segment.Commit(StepOf(closure));
    return before->data<int64_t>()[0];
  };
  for (ClosureId closure = 1; closure <= 4; ++closure) fetch(&store, closure);
  store.SetLowWater(3);
  fetch(&store, 6);
  fetch(&store, 5, /*commits=*/false);
  const ShardStore::Cut cut = store.Snapshot(3).value();
  // 5 was not applied, and has no number.
  CHECK(cut.fetched == "3:0/0=0200000000000000 4:0/0=0300000000000000 6:0/0=0400000000000000");
  CHECK(store.Snapshot(1)->fetched.empty());
  ShardStore restored;
  auto shard = Shard::Create(store.Get(3).value()->spec(), Shard::Fill::kZeros).value();
  REQUIRE(shard->WriteRows(0, cut.snapshot->ReadRows(0, 1, 0).value(), 0).ok());
  restored.Put(std::move(shard), checkpoint::Ledger::Parse(cut.ledger).value(), 0, 0,
               FetchedNumbers::Parse(cut.fetched).value());
  CHECK(fetch(&restored, 5) == 5);
  CHECK(fetch(&restored, 3) == 2);
  CHECK(fetch(&restored, 6) == 4);
  CHECK(fetch(&restored, 7) == 6);
  CHECK(restored.Get(3).value()->Read().value().data<int64_t>()[0] == 7);
  // As without a restore.
  restored.SetLowWater(7);
  CHECK(restored.Snapshot(3)->fetched == "7:0/0=0600000000000000");
}

TEST_CASE("fetched numbers that are not understood are refused") {
  CHECK(FetchedNumbers::Parse("").value().empty());
  const FetchedNumbers numbers = FetchedNumbers::Parse("1:0/0=00ff 1:2/3=0a0B").value();
  CHECK(*numbers.Find(1, 2, 3) == "\n\v");
  CHECK(numbers.Find(1, 2, 2) == nullptr);
  CHECK(numbers.AllHave(2));
  CHECK_FALSE(numbers.AllHave(1));
  for (const char* wrong :
       {" ", "1:0/0=", "1:0/0=0", "1:0/0=0g", "1:0/0", "1:0=00", "1/0=00", "-1:0/0=00", "1:0/+0=00",
        "1:0/4294967296=00", "1:0/0=00 1:0/0=01", "1:0/0=00  2:0/0=00", "1:0/0=00 "}) {
    INFO(wrong);
    CHECK(absl::IsInvalidArgument(FetchedNumbers::Parse(wrong).status()));
  }
}

}  // namespace coxswain::ps
