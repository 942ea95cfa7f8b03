// Slots that were taken over from another job: how many updates are behind them, and writing them.
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "kernels/optimizers/optimizer_info.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "ps_server/shard.h"
#include "tests/testing/hash_specs.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/shards.h"

namespace coxswain::ps {
namespace {

using Catch::Matchers::Contains;
using Kind = graph::Update::Kind;
using testing::Apply;
using testing::HashShardsOf;
using testing::HashTableOf;
using testing::Ids;
using testing::Make;
using testing::OptimizerOf;
using testing::RandomTensor;
using testing::UpdateOf;
using testing::ValuesOf;
using testing::VariableOf;
using testing::WholeOf;

void Step(Shard* shard, uint64_t seed) {
  Apply(shard, UpdateOf(Kind::kDense, shard->id(), RandomTensor(Shape{3, 2}, seed)));
}

proto::OptimizerSpec Earlier(proto::OptimizerSpec spec, double steps) {
  kernels::SetParameter(kernels::kEarlierSteps, steps, &spec);
  return spec;
}

TEST_CASE("optimizers: a shard with another's weights, slots and steps goes on as that one") {
  for (const kernels::OptimizerInfo& info : kernels::AllOptimizers()) {
    CAPTURE(info.kind);
    const proto::OptimizerSpec optimizer = OptimizerOf(info.kind);
    const auto first = Make(WholeOf(VariableOf("v", {3, 2}, false, optimizer)));
    for (uint64_t seed = 1; seed <= 4; ++seed) Step(first.get(), seed);
    const auto next = Make(WholeOf(VariableOf("v", {3, 2}, false, Earlier(optimizer, 4))));
    const auto slots = kernels::SlotsOfKind(info.kind);
    REQUIRE(static_cast<int>(slots.size()) == first->optimizer().slots());
    for (int part = 0; part <= first->optimizer().slots(); ++part) {
      if (part > 0) {
        const kernels::SlotInfo& slot = slots[static_cast<size_t>(part) - 1];
        CHECK(slot.name == first->part(part).name);
        CHECK(slot.per_row == first->part(part).per_row);
      }
      REQUIRE(next->WriteRows(0, first->ReadRows(0, 3, part).value(), part).ok());
    }
    CHECK(next->gradient_steps() == 0);
    CHECK(next->optimizer().earlier_steps() == 4);
    Step(first.get(), 5);
    Step(next.get(), 5);
    for (int part = 0; part <= first->optimizer().slots(); ++part) {
      CHECK(ValuesOf<float>(next->ReadRows(0, 3, part).value()) ==
            ValuesOf<float>(first->ReadRows(0, 3, part).value()));
    }
  }
}

TEST_CASE("optimizers: schedules of the learning rate do not count earlier steps") {
  proto::OptimizerSpec optimizer = OptimizerOf("sgd", 1);
  optimizer.mutable_schedule()->set_kind("piecewise_constant");
  optimizer.mutable_schedule()->add_boundaries(1);
  for (const double factor : {1.0, 0.5}) optimizer.mutable_schedule()->add_factors(factor);
  const auto plain = Make(WholeOf(VariableOf("v", {3, 2}, false, optimizer)));
  const auto later = Make(WholeOf(VariableOf("v", {3, 2}, false, Earlier(optimizer, 100))));
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Step(plain.get(), seed);
    Step(later.get(), seed);
    CHECK(ValuesOf<float>(later->Read().value()) == ValuesOf<float>(plain->Read().value()));
  }
}

TEST_CASE("optimizers: earlier steps that are no number of steps are refused") {
  for (const double steps : {-1.0, 0.5, 1e300}) {
    const auto shard =
        Shard::Create(WholeOf(VariableOf("v", {3, 2}, false, Earlier(OptimizerOf("adam"), steps))));
    CHECK(absl::IsInvalidArgument(shard.status()));
    CHECK_THAT(std::string(shard.status().message()),
               Contains("adam: earlier_steps must be a number of steps"));
  }
}

TEST_CASE("hash table: slots are written by id, of ids that have rows") {
  const auto shard = Make(HashShardsOf(HashTableOf("t", 3, OptimizerOf("adagrad")), 1)[0]);
  REQUIRE(shard->WriteIds(Ids({7, -2}), RandomTensor(Shape{2, 3}, 1)).ok());
  const Tensor slots = RandomTensor(Shape{2, 3}, 2);
  REQUIRE(shard->WritePartOfIds(Ids({-2, 7}), slots, 1).ok());
  const auto read = shard->ReadIds(0, shard->rows(), 1).value();
  REQUIRE(read.ids.dim(0) == 2);
  for (int64_t i = 0; i < 2; ++i) {
    const int64_t at = read.ids.data<int64_t>()[i] == -2 ? 0 : 1;
    for (int64_t c = 0; c < 3; ++c) {
      CHECK(read.rows.data<float>()[i * 3 + c] == slots.data<float>()[at * 3 + c]);
    }
  }
  const absl::Status missing = shard->WritePartOfIds(Ids({7, 8}), slots, 1);
  CHECK(absl::IsInvalidArgument(missing));
  CHECK_THAT(std::string(missing.message()), Contains("id 8 has no row"));
  CHECK(absl::IsInvalidArgument(shard->WritePartOfIds(Ids({7, -2}), slots, 9)));
  const Tensor narrow = RandomTensor(Shape{2, 2}, 3);
  CHECK(absl::IsInvalidArgument(shard->WritePartOfIds(Ids({7, -2}), narrow, 1)));
}

}  // namespace
}  // namespace coxswain::ps
