#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <vector>

#include "coordinator/core/plan_table.h"
#include "runtime/graph/builder.h"
#include "tests/testing/fake_shards.h"
#include "tests/testing/registry.h"

namespace coxswain::core {
namespace {

// Adds its argument to each of the shards.
std::shared_ptr<const graph::Function> AddTo(const std::vector<ShardId>& shards) {
  graph::GraphBuilder b("add", &testing::ClusterOps());
  const Output one = b.Argument("one", DType::kI64, Shape{1});
  for (const ShardId shard : shards) {
    b.Target("AssignAddVariable", {one}, testing::ShardOf(static_cast<int64_t>(shard)));
  }
  if (shards.empty()) b.Result("one", one);
  auto function = b.Finish();
  INFO(function.status().ToString());
  REQUIRE(function.ok());
  return std::make_shared<const graph::Function>(*std::move(function));
}

PlanTable::PsOf AllOn(int ps) {
  return [ps](ShardId) { return ps; };
}

TEST_CASE("a plan knows what it updates, by shard", "[plan_table]") {
  PlanTable plans(2);
  REQUIRE(plans.Add(1, AddTo({3, 4, 3}), std::vector<proto::ArgumentSource>(1), 0, AllOn(0)).ok());
  REQUIRE(plans.Add(2, AddTo({}), std::vector<proto::ArgumentSource>(1), 0, AllOn(0)).ok());
  CHECK(plans.Updates(1));
  CHECK_FALSE(plans.Updates(2));
  CHECK_FALSE(plans.Updates(3));
  CHECK(plans.KeysOf(1, 3).size() == 2);
  CHECK(plans.KeysOf(1, 4).size() == 1);
  CHECK(plans.KeysOf(1, 5).empty());
  CHECK(plans.KeysOf(9, 3).empty());
  CHECK(plans.FunctionName(1) == "add");
}

TEST_CASE("plans know which shards they fetch and add to", "[plan_table]") {
  PlanTable plans(2);
  const std::vector<proto::ArgumentSource> sources(1);
  REQUIRE(plans.Add(1, AddTo({3, 4}), sources, 0, AllOn(0)).ok());
  CHECK_FALSE(plans.AnyFetch());
  CHECK(plans.FetchedShards().empty());
  graph::GraphBuilder b("fetch", &testing::ClusterOps());
  auto of = testing::ReadOf(5, Shape{1});
  of["dtype"] = DType::kI64;
  b.Result("number", b.Op("FetchAddVariable", {b.Argument("one", DType::kI64, Shape{1})}, of));
  auto function = b.Finish();
  INFO(function.status());
  REQUIRE(function.ok());
  const auto fetch = std::make_shared<const graph::Function>(*std::move(function));
  for (const PlanId id : {2, 3, 3}) REQUIRE(plans.Add(id, fetch, sources, 0, AllOn(0)).ok());
  CHECK(plans.FetchedShards() == std::set<ShardId>{5});
  plans.Remove(2);
  plans.Remove(1);
  CHECK(plans.AnyFetch());
  plans.Remove(3);
  plans.Remove(3);
  CHECK_FALSE(plans.AnyFetch());
  CHECK(plans.FetchedShards().empty());
}

TEST_CASE("only those PS hear of a plan that have a part of it, also after shards have moved",
          "[plan_table]") {
  PlanTable plans(2);
  REQUIRE(plans.Add(1, AddTo({3}), std::vector<proto::ArgumentSource>(1), 0, AllOn(0)).ok());
  CHECK(plans.ForPs(1, 0));
  CHECK_FALSE(plans.ForPs(1, 1));
  CHECK(plans.AllForPs(0).size() == 1);
  CHECK(plans.AllForPs(1).empty());
  REQUIRE(plans.PlaceAgain(AllOn(1)).ok());
  CHECK_FALSE(plans.ForPs(1, 0));
  CHECK(plans.ForPs(1, 1));
  REQUIRE(plans.AllForWorker().size() == 1);
  CHECK(plans.AllForWorker()[0].register_plan().plan() == 1);
}

TEST_CASE("a plan that is expected and let go is expected no more", "[plan_table]") {
  PlanTable plans(1);
  plans.Expect(1);
  plans.Expect(2);
  plans.LetGo(1);
  CHECK_FALSE(plans.expected(1));
  CHECK_FALSE(plans.let_go(1));
  REQUIRE(plans.Add(2, AddTo({}), std::vector<proto::ArgumentSource>(1), 0, AllOn(0)).ok());
  CHECK_FALSE(plans.expected(2));
}

TEST_CASE("a plan that cannot be placed is none", "[plan_table]") {
  PlanTable plans(1);
  CHECK_FALSE(plans.Add(1, AddTo({3}), std::vector<proto::ArgumentSource>(1), 0, AllOn(-1)).ok());
  CHECK_FALSE(plans.Has(1));
  CHECK(plans.AllForWorker().empty());
}

TEST_CASE("a plan that was let go stays until it is removed", "[plan_table]") {
  PlanTable plans(1);
  REQUIRE(plans.Add(1, AddTo({3}), std::vector<proto::ArgumentSource>(1), 0, AllOn(0)).ok());
  CHECK_FALSE(plans.let_go(1));
  plans.LetGo(1);
  plans.LetGo(2);  // there is none
  CHECK(plans.let_go(1));
  CHECK_FALSE(plans.let_go(2));
  CHECK(plans.Has(1));
  plans.Remove(1);
  CHECK_FALSE(plans.Has(1));
  CHECK_FALSE(plans.let_go(1));
}

}  // namespace
}  // namespace coxswain::core
