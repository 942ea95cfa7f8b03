#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "coordinator/core/cluster_layout.h"

namespace coxswain::core {
namespace {

using Shards = std::set<ShardId>;

proto::ShardSpec Spec(ShardId id, int ps, int64_t rows = 10) {
  proto::ShardSpec shard;
  shard.set_id(id);
  shard.set_rows(rows);
  shard.set_ps(ps);
  return shard;
}

RestorePoint PointWith(const std::vector<proto::ShardSpec>& shards) {
  RestorePoint point;
  point.manifest.number = 3;
  point.path = "/dir/3";
  for (const auto& shard : shards) *point.manifest.shards.emplace_back().mutable_shard() = shard;
  return point;
}

// Shards 1 and 2 on PS 0, 3 on PS 1; PS 2 has none.
ClusterLayout Three() {
  ClusterLayout layout;
  const auto created = layout.Create({Spec(1, 0), Spec(2, 0), Spec(3, 1)}, nullptr, {0, 1, 2});
  REQUIRE(created.ok());
  layout.Created(*created, true);
  return layout;
}

TEST_CASE("shards that are created exist at once, and no more when that fails",
          "[cluster_layout]") {
  ClusterLayout layout = Three();
  const auto again = layout.Create({Spec(8, 0), Spec(3, 0)}, nullptr, {0, 1, 2});
  CHECK(absl::IsAlreadyExists(again.status()));
  CHECK(layout.PsOf(8) == -1);
  const auto created = layout.Create({Spec(8, 0), Spec(9, 1)}, nullptr, {0, 1, 2});
  REQUIRE(created.ok());
  CHECK(created->requests.size() == 2);
  CHECK(layout.creating());
  CHECK(layout.PsOf(9) == 1);
  layout.Created(*created, false);
  CHECK_FALSE(layout.creating());
  CHECK(layout.PsOf(9) == -1);
  CHECK(layout.PsOf(3) == 1);
}

TEST_CASE("shards that the checkpoint has are restored from it, of the same shape only",
          "[cluster_layout]") {
  ClusterLayout layout;
  const RestorePoint point = PointWith({Spec(1, 5)});
  const auto created = layout.Create({Spec(1, 0), Spec(2, 0)}, &point, {0});
  REQUIRE(created.ok());
  const auto& requests = created->requests.at(0);
  REQUIRE(requests.size() == 2);
  CHECK(requests[0].create_shards().shards(0).id() == 2);
  CHECK(requests[1].restore_shards().shards(0).shard().id() == 1);
  CHECK(requests[1].restore_shards().shards(0).shard().ps() == 0);
  CHECK(created->from.at(1) == 3);
  CHECK(created->from.at(2) == 0);
  const auto other = ClusterLayout().Create({Spec(1, 0, /*rows=*/11)}, &point, {0});
  CHECK(absl::IsInvalidArgument(other.status()));
}

TEST_CASE("only a PS with shards is missed", "[cluster_layout]") {
  ClusterLayout layout = Three();
  CHECK_FALSE(layout.Lost(2));
  CHECK(layout.absent(2));
  CHECK(layout.Lost(0));
  CHECK_FALSE(layout.absent(0));
  CHECK(layout.going_back() == Shards{1, 2});
  layout.Intact(0);
  CHECK(layout.going_back().empty());
  CHECK(ClusterLayout().Lost(0));  // nothing is anywhere yet: it may get some
}

TEST_CASE("new shards go to no PS that was given up", "[cluster_layout]") {
  ClusterLayout layout = Three();
  layout.Lost(2);
  const auto created = layout.Create({Spec(4, 2)}, nullptr, {0, 1, 2});
  REQUIRE(created.ok());
  CHECK(layout.PsOf(4) == 0);
}

TEST_CASE("the shards of a PS that is given up come back elsewhere, the others stay",
          "[cluster_layout]") {
  ClusterLayout layout = Three();
  layout.Lost(0);
  layout.Missed(1);
  layout.BeginRecovery({1, 2}, {0}, /*all=*/false, {});
  CHECK(layout.absent(0));
  CHECK_FALSE(layout.absent(2));
  CHECK(layout.shards().On(0).empty());
  CHECK(layout.going_back() == Shards{1, 2});
  const uint64_t restore = layout.BeginRestore();
  CHECK(layout.generation() == 1);
  CHECK_FALSE(layout.missed(1));
  const RestorePoint point = PointWith({Spec(1, 0), Spec(2, 0), Spec(3, 0)});
  int kept = 0, restored = 0;
  for (const int ps : {1, 2}) {
    const auto requests = layout.RestoreRequests(ps, point);
    REQUIRE(!requests.empty());
    CHECK(requests[0].setup_ps().generation() == 1);
    kept += requests[0].setup_ps().keep_size();
    for (const auto& request : requests) restored += request.restore_shards().shards_size();
  }
  CHECK(kept == 1);
  CHECK(restored == 2);
  layout.BeginRestore();
  CHECK_FALSE(layout.IsCurrent(restore));
  layout.Restored();
  CHECK(layout.going_back().empty());
}

TEST_CASE(
    "shards that others were to take stay with their own PS when that is back before they have",
    "[cluster_layout]") {
  ClusterLayout layout = Three();
  layout.Lost(0);
  layout.BeginRecovery({1}, {0}, /*all=*/false, {});
  CHECK(layout.shards().On(1) == std::vector<ShardId>{1, 2, 3});
  CHECK(layout.takes(1));
  CHECK_FALSE(layout.takes(0));
  layout.Lost(1);  // say, its memory did not suffice
  layout.BeginRecovery({1}, {0}, /*all=*/false, {});
  CHECK(layout.shards().On(1) == std::vector<ShardId>{1, 2, 3});
  layout.Lost(1);
  layout.BeginRecovery({0, 1}, {}, /*all=*/false, {});
  CHECK(layout.shards().On(0) == std::vector<ShardId>{1, 2});
  CHECK(layout.shards().On(1) == std::vector<ShardId>{3});
  CHECK(layout.going_back() == Shards{1, 2, 3});
  CHECK_FALSE(layout.takes(1));
  CHECK_FALSE(layout.absent(0));
  layout.Restored();
  // What others have taken is theirs.
  layout.Lost(0);
  layout.BeginRecovery({1}, {0}, /*all=*/false, {});
  layout.Restored();
  CHECK_FALSE(layout.takes(1));
  layout.Lost(1);
  layout.BeginRecovery({0, 1}, {}, /*all=*/false, {});
  CHECK(layout.shards().On(1) == std::vector<ShardId>{1, 2, 3});
}

TEST_CASE("a PS that is given up for what it cannot read keeps the shards that it has",
          "[cluster_layout]") {
  ClusterLayout layout = Three();
  layout.Lost(0);
  layout.BeginRecovery({1, 2}, {0}, /*all=*/false, {});
  const std::vector<ShardId> taken = layout.shards().On(1);
  REQUIRE(taken.size() > 1);  // 3, and one of the lost ones at least
  layout.BeginRecovery({2}, {0, 1}, /*all=*/false, {});
  CHECK(layout.shards().On(1) == std::vector<ShardId>{3});
  CHECK(layout.shards().On(2) == std::vector<ShardId>{1, 2});
  CHECK(layout.going_back() == Shards{1, 2});
  CHECK_FALSE(layout.absent(1));
  CHECK(layout.absent(0));
}

TEST_CASE("what a PS has no memory for goes to others, and its own shards stay",
          "[cluster_layout]") {
  ClusterLayout layout = Three();
  layout.Lost(0);
  layout.BeginRecovery({1, 2}, {0}, /*all=*/true, {});
  REQUIRE(layout.shards().On(1).size() > 1);
  layout.BeginRecovery({1, 2}, {0}, /*all=*/true, {}, /*full=*/{1});
  CHECK(layout.shards().On(1) == std::vector<ShardId>{3});
  CHECK(layout.shards().On(2) == std::vector<ShardId>{1, 2});
  CHECK_FALSE(layout.takes(1));
  CHECK(layout.takes(2));
  layout.BeginRecovery({0, 1, 2}, {}, /*all=*/true, {}, /*full=*/{1, 2});
  CHECK(layout.shards().On(0) == std::vector<ShardId>{1, 2});
}

TEST_CASE("all shards go back together, and those that are being made are made anew",
          "[cluster_layout]") {
  ClusterLayout layout = Three();
  const auto created = layout.Create({Spec(9, 1)}, nullptr, {0, 1, 2});
  REQUIRE(created.ok());
  layout.Lost(0);
  layout.BeginRecovery({0, 1, 2}, {}, /*all=*/false, {});
  CHECK(layout.going_back() == Shards{1, 2, 9});
  layout.BeginRecovery({0, 1, 2}, {}, /*all=*/true, {});
  CHECK(layout.going_back() == Shards{1, 2, 3, 9});
  layout.BeginRestore();
  const auto requests = layout.RestoreRequests(1, PointWith({Spec(3, 1)}));
  REQUIRE(requests.size() == 3);  // set up, restore 3, create 9
  CHECK(requests[2].create_shards().shards(0).id() == 9);
}

TEST_CASE("shards move that the checkpoint has, to PS that are there, and can move back",
          "[cluster_layout]") {
  ClusterLayout layout = Three();
  layout.Lost(2);
  const checkpoint::Manifest manifest = PointWith({Spec(1, 0), Spec(3, 1)}).manifest;
  const auto from = layout.Moves({{1, 2}, {2, 1}, {3, 1}, {4, 0}}, {0, 1, 2}, manifest);
  CHECK(from == std::map<ShardId, int>{{1, 0}});
  CHECK(layout.Moves({{1, 2}}, {0, 1}, manifest).empty());
  layout.BeginMoves({{1, 2}}, from, {0, 1, 2});
  CHECK(layout.PsOf(1) == 2);
  CHECK(layout.going_back() == Shards{1});
  CHECK_FALSE(layout.absent(2));
  layout.UndoMoves(from);
  CHECK(layout.PsOf(1) == 0);
  CHECK(layout.going_back() == Shards{1});  // it is to come back there
  CHECK(layout.KeepRequest(0).setup_ps().keep_size() == 2);
}

}  // namespace
}  // namespace coxswain::core
