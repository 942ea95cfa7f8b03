// Synchronous steps in a store: each is applied once, as one update, with all of its closures.
#include "ps_server/sync_steps.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "ps_server/combine_gradients.h"
#include "ps_server/shard_store.h"
#include "tests/testing/hash_specs.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/shards.h"

namespace coxswain::ps {
namespace {

using Kind = graph::Update::Kind;
using testing::AsFloats;
using testing::HashShardsOf;
using testing::HashTableOf;
using testing::Ids;
using testing::OptimizerOf;
using testing::StepOf;
using testing::UpdateOf;
using testing::VariableOf;
using testing::WholeOf;

constexpr SyncStep kStep{.first = 5, .count = 3, .after = 0, .mean = false};
const std::vector<ClosureId> kClosures = {5, 6, 7};

// Shard 1: a table of 4 rows; 2: a dense variable; 3: a counter. The rate is 1, so that an update
// is the gradient.
void Fill(ShardStore* store, const std::string& optimizer = "sgd") {
  REQUIRE(store->Add(WholeOf(VariableOf("t", {4, 2}, true, OptimizerOf(optimizer, 1)), 1)).ok());
  REQUIRE(store->Add(WholeOf(VariableOf("w", {2}, false, OptimizerOf(optimizer, 1)), 2)).ok());
  REQUIRE(store->Add(WholeOf(VariableOf("n", {1}, false, {}, DType::kI64), 3)).ok());
}

Tensor Floats(std::vector<float> values, Shape shape) {
  return Tensor::FromVector(values, std::move(shape)).value();
}

// What the closure brings: to rows 0 and `closure` % 4, to the dense variable, to the counter.
std::vector<graph::Update> UpdatesOf(ClosureId closure) {
  const float g = static_cast<float>(closure);
  return {UpdateOf(Kind::kSparse, 1, Floats({g, 1, 10 * g, 2}, Shape{2, 2}),
                   Ids({0, 1 + static_cast<int64_t>(closure % 3)})),
          UpdateOf(Kind::kDense, 2, Floats({g, 0.1f * g}, Shape{2})),
          UpdateOf(Kind::kAssignAdd, 3, Ids({1}))};
}

absl::StatusOr<CommitResult> Push(ShardStore* store, ClosureId closure,
                                  const SyncStep& step = kStep) {
  SegmentTransaction segment(store);
  for (graph::Update& update : UpdatesOf(closure)) REQUIRE(segment.Stage(std::move(update)).ok());
  return segment.Hold(step, StepOf(closure));
}

bool Tell(ShardStore* store, ClosureId closure, const SyncStep& step = kStep) {
  const auto applied = store->HeldEverywhere(step, StepOf(closure));
  REQUIRE(applied.ok());
  return applied->has_value();
}

std::vector<float> Values(const ShardStore& store, ShardId id) {
  const Shard* shard = store.Get(id).value();
  return AsFloats(shard->ReadRows(0, shard->rows()).value());
}

TEST_CASE("what is held for a large step does not keep the transport's memory", "[sync]") {
  constexpr int kUpdates = 1000;
  int lent = 0;
  float memory = 3;
  SyncSteps steps;
  const SyncStep step{.first = 1, .count = 1, .after = 0};
  for (int u = 0; u < kUpdates; ++u) {
    ++lent;
    graph::Update update;
    update.shard = 1;
    update.key = static_cast<uint32_t>(u);
    update.values = Tensor(DType::kF32, Shape{1},
                           Buffer::Wrap(&memory, sizeof(memory), Device{}, [&] { --lent; }));
    steps.Hold(step, 1, /*seed=*/0, std::move(update));
  }
  CHECK(lent == static_cast<int>(SyncSteps::kMostLent));
  const auto ready = steps.HeldEverywhere(step, 1, /*seed=*/0);
  REQUIRE(ready.has_value());
  const auto& updates = ready->of.at(1).updates;
  REQUIRE(updates.size() == kUpdates);
  CHECK(updates[0].values.data<float>()[0] == 3);
  CHECK(updates[kUpdates - 1].values.data<float>()[0] == 3);
  // The next one may hold as much again.
  graph::Update more;
  more.values = Floats({1}, Shape{1});
  steps.Hold({.first = 2, .count = 1, .after = 1}, 2, /*seed=*/0, std::move(more));
  CHECK(steps.open() == 1);
}

TEST_CASE("a step is applied when all of it is held everywhere, not before, and not again",
          "[sync]") {
  ShardStore store;
  Fill(&store);
  for (const ClosureId closure : kClosures) CHECK(Push(&store, closure)->applied == 3);
  const std::vector<float> nothing(8, 0);
  CHECK(Values(store, 1) == nothing);  // all of it is here, but perhaps not on another PS
  CHECK_FALSE(Tell(&store, 5));
  CHECK_FALSE(Tell(&store, 7));
  CHECK_FALSE(Tell(&store, 7));  // told again: it counts once
  CHECK(Values(store, 1) == nothing);
  CHECK(store.Get(1).value()->applied() == 0);
  CHECK(store.GetLedger(1).value()->size() == 0);  // what is held is no state

  CHECK(Tell(&store, 6));
  CHECK(Values(store, 2)[0] == -18);
  CHECK(Values(store, 3)[0] == 3);
  CHECK(Values(store, 1)[0] == -18);
  CHECK(Values(store, 1)[1] == -3);
  for (const ShardId shard : {1, 2, 3}) {
    CHECK(store.Get(shard).value()->applied() == 1);
    for (const ClosureId closure : kClosures) {
      CHECK(store.GetLedger(shard).value()->Contains(closure, 0, 0));
    }
  }
  CHECK(store.sync().open() == 0);

  const auto before = Values(store, 1);
  for (const ClosureId closure : kClosures) {
    CHECK(Push(&store, closure)->duplicates == 3);
    CHECK_FALSE(Tell(&store, closure));
  }
  CHECK(Values(store, 1) == before);
  CHECK(store.sync().open() == 0);
}

TEST_CASE("a step that combines nothing applies its closures in their order, and together",
          "[sync]") {
  constexpr SyncStep kEach{.first = 5, .count = 3, .each = true};
  ShardStore store, one_by_one;
  Fill(&store, "adagrad");
  Fill(&one_by_one, "adagrad");
  for (const ClosureId closure : kClosures) {
    SegmentTransaction segment(&one_by_one);
    for (graph::Update& update : UpdatesOf(closure)) REQUIRE(segment.Stage(std::move(update)).ok());
    segment.Commit(StepOf(closure));
  }
  for (const ClosureId closure : {7, 5, 6}) CHECK(Push(&store, closure, kEach)->applied == 3);
  CHECK_FALSE(Tell(&store, 6, kEach));
  CHECK_FALSE(Tell(&store, 5, kEach));
  CHECK(Values(store, 2)[0] == 0);  // none before all
  CHECK(Tell(&store, 7, kEach));
  for (const ShardId shard : {1, 2, 3}) {
    INFO("shard " << shard);
    CHECK(Values(store, shard) == Values(one_by_one, shard));
    CHECK(store.Get(shard).value()->applied() == 3);
    for (const ClosureId closure : kClosures) {
      CHECK(store.GetLedger(shard).value()->Contains(closure, 0, 0));
    }
  }
  const auto before = Values(store, 1);
  for (const ClosureId closure : kClosures) CHECK(Push(&store, closure, kEach)->duplicates == 3);
  CHECK(Values(store, 1) == before);
}

TEST_CASE("a step that combines nothing is not one that does", "[sync]") {
  constexpr SyncStep kEach{.first = 5, .count = 3, .each = true};
  ShardStore store;
  Fill(&store);
  REQUIRE(Push(&store, 5, kEach).ok());
  CHECK(Push(&store, 6).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("a step with backups takes the closures that are chosen, and drops what others bring",
          "[sync][backup]") {
  constexpr SyncStep kTwoOfThree{.first = 5, .count = 2, .backup = 1};
  ShardStore store;
  Fill(&store);
  REQUIRE(Push(&store, 5, kTwoOfThree)->applied == 3);
  REQUIRE(Push(&store, 6, kTwoOfThree)->applied == 3);
  REQUIRE(Push(&store, 7, kTwoOfThree)->applied == 3);
  CHECK_FALSE(Tell(&store, 5, kTwoOfThree));  // no worker decides that
  CHECK_FALSE(Tell(&store, 6, kTwoOfThree));
  CHECK(Values(store, 2)[0] == 0);
  CHECK(store.ApplyChosen(kTwoOfThree, {5, 7}, /*seconds=*/0).ok());
  CHECK(Values(store, 2)[0] == -12);
  CHECK(Values(store, 3)[0] == 2);
  CHECK(store.Get(1).value()->applied() == 1);
  CHECK(store.GetLedger(1).value()->Contains(7, 0, 0));
  CHECK_FALSE(store.GetLedger(1).value()->Contains(6, 0, 0));
  CHECK(store.sync().open() == 0);
  // Told again, and brought late.
  CHECK(store.ApplyChosen(kTwoOfThree, {5, 7}, /*seconds=*/0).ok());
  CHECK(Push(&store, 6, kTwoOfThree)->duplicates == 3);
  CHECK(Values(store, 2)[0] == -12);
  CHECK(store.sync().Applied(5));
  // Its ticket comes again, in another step and under another id.
  constexpr SyncStep kNext{.first = 8, .count = 1, .after = 5};
  REQUIRE(Push(&store, 8, kNext)->applied == 3);
  CHECK(Tell(&store, 8, kNext));
  CHECK(store.Get(1).value()->applied() == 2);
}

TEST_CASE("a choice that cannot be one is refused, and nothing is applied", "[sync][backup]") {
  constexpr SyncStep kTwoOfThree{.first = 5, .count = 2, .backup = 1};
  ShardStore store;
  Fill(&store);
  for (const ClosureId closure : kClosures) REQUIRE(Push(&store, closure, kTwoOfThree).ok());
  const std::vector<std::vector<ClosureId>> wrong = {{}, {5}, {5, 6, 7}, {6, 5}, {5, 5}, {5, 8}};
  for (const std::vector<ClosureId>& chosen : wrong) {
    CHECK(store.ApplyChosen(kTwoOfThree, chosen, /*seconds=*/0).status().code() ==
          absl::StatusCode::kInvalidArgument);
  }
  CHECK(store.ApplyChosen(kStep, {5, 6, 7}, /*seconds=*/0).status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(store.ApplyChosen({.first = 5, .count = 1, .backup = 2}, {5}, /*seconds=*/0)
            .status()
            .code() == absl::StatusCode::kInvalidArgument);
  CHECK(Values(store, 2)[0] == 0);
  CHECK(store.ApplyChosen(kTwoOfThree, {5, 6}, /*seconds=*/0).ok());
}

TEST_CASE("free steps are applied in any order, each once, and none is waited for",
          "[sync][free]") {
  constexpr SyncStep kFirst{.first = 5, .count = 2, .free = true},
      kLater{.first = 7, .count = 2, .free = true};
  ShardStore store;
  Fill(&store);
  for (const ClosureId closure : {5, 6}) REQUIRE(Push(&store, closure, kFirst)->applied == 3);
  for (const ClosureId closure : {7, 8}) REQUIRE(Push(&store, closure, kLater)->applied == 3);
  CHECK_FALSE(Tell(&store, 8, kLater));
  CHECK_FALSE(Tell(&store, 5, kFirst));
  CHECK(Tell(&store, 7, kLater));  // the later one first
  CHECK(Values(store, 2)[0] == -15);
  CHECK(Push(&store, 7, kLater)->duplicates == 3);
  CHECK_FALSE(Tell(&store, 7, kLater));
  CHECK(Tell(&store, 6, kFirst));
  CHECK(Values(store, 2)[0] == -26);
  CHECK(store.Get(1).value()->applied() == 2);
  // When all are over, what is told or brought late makes nothing open again.
  store.SetLowWater(9);
  CHECK(Push(&store, 6, kFirst)->duplicates == 3);
  CHECK_FALSE(Tell(&store, 6, kFirst));
  CHECK(store.sync().open() == 0);
}

TEST_CASE("what an attempt that nobody waits for holds of a free step goes with low water",
          "[sync][free]") {
  constexpr SyncStep kOver{.first = 5, .count = 2, .free = true},
      kOpen{.first = 7, .count = 2, .free = true};
  ShardStore store;
  Fill(&store);
  REQUIRE(Push(&store, 5, kOver).ok());
  REQUIRE(Push(&store, 7, kOpen).ok());
  store.SetLowWater(7);
  CHECK(store.sync().open() == 1);
  REQUIRE(Push(&store, 8, kOpen).ok());
  CHECK_FALSE(Tell(&store, 7, kOpen));
  CHECK(Tell(&store, 8, kOpen));
}

TEST_CASE("what comes twice is held once, and the first one stays", "[sync]") {
  ShardStore once, often;
  Fill(&once, "adam");
  Fill(&often, "adam");
  for (const ClosureId closure : kClosures) {
    REQUIRE(Push(&once, closure).ok());
    REQUIRE(Push(&often, closure).ok());
    SegmentTransaction other(&often);  // of an attempt that read something else
    REQUIRE(other.Stage(UpdateOf(Kind::kDense, 2, Floats({77, 77}, Shape{2}))).ok());
    CHECK(other.Hold(kStep, StepOf(closure))->duplicates == 1);
  }
  for (const ClosureId closure : kClosures) Tell(&once, closure);
  for (const ClosureId closure : kClosures) Tell(&often, closure);
  for (const ShardId shard : {1, 2, 3}) CHECK(Values(often, shard) == Values(once, shard));
}

TEST_CASE("the order in which closures come does not matter to a bit", "[sync]") {
  std::vector<std::vector<float>> wanted;
  std::vector<ClosureId> order = kClosures;
  do {
    ShardStore store;
    Fill(&store, "adagrad");
    for (const ClosureId closure : order) REQUIRE(Push(&store, closure).ok());
    std::vector<ClosureId> told = order;
    std::reverse(told.begin(), told.end());
    for (const ClosureId closure : told) Tell(&store, closure);
    const std::vector<std::vector<float>> found = {Values(store, 1), Values(store, 2)};
    if (wanted.empty()) wanted = found;
    CHECK(found == wanted);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("a step is one step of the optimizer, of the mean where that is wanted", "[sync]") {
  SyncStep mean = kStep;
  mean.mean = true;
  ShardStore store, alone;
  Fill(&store, "adam");
  Fill(&alone, "adam");
  for (const ClosureId closure : kClosures) REQUIRE(Push(&store, closure, mean).ok());
  for (const ClosureId closure : kClosures) Tell(&store, closure, mean);
  SegmentTransaction one(&alone);
  const float dense = (0.1f * 5 + 0.1f * 6 + 0.1f * 7) / 3;
  REQUIRE(one.Stage(UpdateOf(Kind::kDense, 2, Floats({6, dense}, Shape{2}))).ok());
  one.Commit(StepOf(1));
  CHECK(Values(store, 2) == Values(alone, 2));
  CHECK(store.Get(2).value()->gradient_steps() == 1);
  CHECK(Values(store, 3)[0] == 3);  // a counter counts closures all the same
}

TEST_CASE("each closure of a step moves a moving average, one after the other", "[sync]") {
  for (const bool each : {false, true}) {
    ShardStore store;
    REQUIRE(store.Add(WholeOf(VariableOf("v", {1}, false, {}), 1)).ok());
    SyncStep step = kStep;
    step.each = each;
    float wanted = 0;
    for (const ClosureId closure : kClosures) {
      const auto towards = static_cast<float>(closure);
      graph::Update update = UpdateOf(Kind::kAssignMovingAverage, 1, Floats({towards}, Shape{1}));
      update.rate = 0.5;
      SegmentTransaction segment(&store);
      REQUIRE(segment.Stage(std::move(update)).ok());
      REQUIRE(segment.Hold(step, StepOf(closure)).ok());
      wanted += 0.5f * (towards - wanted);
    }
    for (const ClosureId closure : kClosures) Tell(&store, closure, step);
    CHECK(Values(store, 1) == std::vector<float>{wanted});
  }
}

TEST_CASE("a step of one closure gives the bits of an asynchronous one", "[sync]") {
  const SyncStep one{.first = 9, .count = 1, .after = 5, .mean = true};
  ShardStore sync, async;
  Fill(&sync, "adam");
  Fill(&async, "adam");
  REQUIRE(Push(&sync, 9, one).ok());
  CHECK(Tell(&sync, 9, one));
  SegmentTransaction segment(&async);
  for (graph::Update& update : UpdatesOf(9)) REQUIRE(segment.Stage(std::move(update)).ok());
  segment.Commit(StepOf(9));
  for (const ShardId shard : {1, 2, 3}) CHECK(Values(sync, shard) == Values(async, shard));
}

TEST_CASE("gradients of the same row are summed, those of others are kept apart", "[sync]") {
  const graph::Update a =
      UpdateOf(Kind::kSparse, 1, Floats({1, 2, 3, 4}, Shape{2, 2}), Ids({7, 3}));
  const graph::Update b = UpdateOf(Kind::kSparse, 1, Floats({10, 20}, Shape{1, 2}), Ids({3}));
  const graph::Update none = UpdateOf(Kind::kSparse, 1, Floats({}, Shape{0, 2}), Ids({}));
  const graph::Update c = UpdateOf(Kind::kSparse, 1, Floats({5, 6}, Shape{1, 2}), Ids({9}));
  const std::vector<const graph::Update*> all = {&a, &b, &none, &c};
  const graph::Update sum = CombineGradients(all, 1), mean = CombineGradients(all, 4);
  CHECK(testing::ValuesOf<int64_t>(sum.ids) == std::vector<int64_t>{7, 3, 9});
  CHECK(AsFloats(sum.values) == std::vector<float>{1, 2, 13, 24, 5, 6});
  CHECK(AsFloats(mean.values) == std::vector<float>{0.25f, 0.5f, 3.25f, 6, 1.25f, 1.5f});
  const std::vector<const graph::Update*> nothing = {&none, &none};
  CHECK(CombineGradients(nothing, 2).ids.num_elements() == 0);
}

TEST_CASE("a closure that was in a ledger before is dropped, and its step goes on", "[sync]") {
  ShardStore store;
  Fill(&store);
  store.SetLowWater(8);  // all three are over on every shard
  for (const ClosureId closure : kClosures) CHECK(Push(&store, closure)->duplicates == 3);
  CHECK_FALSE(Tell(&store, 5));
  CHECK_FALSE(Tell(&store, 6));
  CHECK(Tell(&store, 7));
  CHECK(store.sync().Applied(5));
  CHECK(Values(store, 3)[0] == 0);
  CHECK(store.Get(3).value()->applied() == 0);
}

TEST_CASE("what is held is forgotten when the PS is set up anew", "[sync]") {
  ShardStore store;
  Fill(&store);
  for (const ClosureId closure : kClosures) REQUIRE(Push(&store, closure).ok());
  Tell(&store, 5);
  store.sync().Clear();
  CHECK(store.sync().open() == 0);
  for (const ClosureId closure : {6, 7}) CHECK_FALSE(Tell(&store, static_cast<ClosureId>(closure)));
  for (const ClosureId closure : kClosures) CHECK(Push(&store, closure).ok());
  CHECK(Tell(&store, 5));
}

TEST_CASE("a peer that says nonsense of a step is refused", "[sync]") {
  ShardStore store;
  Fill(&store);
  REQUIRE(Push(&store, 5).ok());
  const auto refused = [&](const SyncStep& step, ClosureId closure) {
    CHECK(Push(&store, closure, step).status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(store.HeldEverywhere(step, StepOf(closure)).status().code() ==
          absl::StatusCode::kInvalidArgument);
  };
  refused(kStep, 8);
  refused(kStep, 4);
  refused({.first = 5, .count = 4}, 5);                // it had three closures
  refused({.first = 5, .count = 3, .mean = true}, 5);  // and was summed
  refused({.first = 9, .count = 0}, 9);
  refused({.first = 9, .count = kMostReplicas + 1}, 9);
  refused({.first = 9, .count = 1, .after = 9}, 9);
  refused({.first = ~ClosureId{0}, .count = 2}, ~ClosureId{0});
  store.sync().Clear();
  for (size_t i = 0; i < SyncSteps::kMostOpen; ++i) {  // the later ones first
    const auto first = static_cast<ClosureId>(100 - 2 * i);
    REQUIRE(store.HeldEverywhere({.first = first, .count = 2}, StepOf(first)).ok());
  }
  refused({.first = 9, .count = 2}, 9);
}

TEST_CASE("a step is refused while an earlier one is open, and not swallowed by a later one",
          "[sync]") {
  constexpr SyncStep kLater{.first = 8, .count = 1, .after = 5},
      kFree{.first = 9, .count = 1, .free = true};
  const auto is_refused = [](const absl::Status& status) {
    return status.code() == absl::StatusCode::kInternal;
  };
  ShardStore store;
  Fill(&store);
  REQUIRE(Push(&store, 5).ok());
  CHECK(is_refused(Push(&store, 8, kLater).status()));
  CHECK(is_refused(store.HeldEverywhere(kLater, StepOf(8)).status()));
  CHECK(Push(&store, 9, kFree).ok());  // it is applied whenever it comes
  CHECK(Tell(&store, 9, kFree));
  for (const ClosureId closure : {6, 7}) REQUIRE(Push(&store, closure).ok());
  for (const ClosureId closure : {5, 6}) CHECK_FALSE(Tell(&store, closure));
  CHECK(Tell(&store, 7));
  CHECK(Push(&store, 8, kLater).ok());
  CHECK(Tell(&store, 8, kLater));
  CHECK(Push(&store, 6)->duplicates == 3);  // late, of a step that was applied
  CHECK_FALSE(Tell(&store, 6));

  ShardStore overtaken;
  Fill(&overtaken);
  REQUIRE(Push(&overtaken, 8, kLater).ok());
  REQUIRE(Tell(&overtaken, 8, kLater));
  CHECK(is_refused(Push(&overtaken, 5).status()));
  CHECK(is_refused(overtaken.HeldEverywhere(kStep, StepOf(5)).status()));
  overtaken.SetLowWater(8);  // all that come later are late: nobody waits for them
  CHECK(Push(&overtaken, 5)->duplicates == 3);
}

TEST_CASE("a hash table has room for all rows of a step before it is applied", "[sync]") {
  ShardStore store;
  REQUIRE(store.Add(HashShardsOf(HashTableOf("h", 2, OptimizerOf("sgd", 1)), 1)[0]).ok());
  for (const ClosureId closure : kClosures) {
    SegmentTransaction segment(&store);
    const auto id = static_cast<int64_t>(closure << 40);
    REQUIRE(
        segment.Stage(UpdateOf(Kind::kSparse, 1, Floats({1, 1, 2, 2}, Shape{2, 2}), Ids({id, -7})))
            .ok());
    REQUIRE(segment.Hold(kStep, StepOf(closure)).ok());
  }
  CHECK(store.Get(1).value()->hash()->rows() == 0);  // held, not there
  for (const ClosureId closure : kClosures) Tell(&store, closure);
  CHECK(store.Get(1).value()->hash()->rows() == 4);
}

}  // namespace
}  // namespace coxswain::ps
