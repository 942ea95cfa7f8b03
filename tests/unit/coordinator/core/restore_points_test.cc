#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "coordinator/core/restore_points.h"

namespace coxswain::core {
namespace {

checkpoint::Manifest Checkpoint(uint64_t number, ClosureId low_water = 1) {
  checkpoint::Manifest manifest;
  manifest.number = number;
  manifest.low_water = low_water;
  return manifest;
}

proto::SavedShard Saved(ShardId id) {
  proto::SavedShard saved;
  saved.mutable_shard()->set_id(id);
  return saved;
}

RestorePoints::Need Anything() {
  RestorePoints::Need need;
  need.covers = [](ClosureId) { return true; };
  need.variable = [](ShardId shard) { return "v" + std::to_string(shard); };
  return need;
}

uint64_t Chosen(const RestorePoints& points, const RestorePoints::Need& need) {
  const auto point = points.Choose(need);
  INFO(point.status().ToString());
  REQUIRE(point.ok());
  return (*point)->manifest.number;
}

TEST_CASE("shards go back to the newest checkpoint, and to the one before where that is bad",
          "[restore_points]") {
  RestorePoints points;
  CHECK(Chosen(points, Anything()) == 0);  // the initial values
  for (const uint64_t number : {3, 4, 6}) CHECK(points.Add(Checkpoint(number), ""));
  CHECK_FALSE(points.Add(Checkpoint(6), ""));
  CHECK(points.size() == 2);
  CHECK(points.oldest().manifest.number == 4);
  CHECK(Chosen(points, Anything()) == 6);
  points.MarkBad(6);
  CHECK(Chosen(points, Anything()) == 4);
  points.MarkBad(4);
  CHECK(Chosen(points, Anything()) == 0);
  CHECK(points.Find(4).bad);
  CHECK(points.Find(77).manifest.number == 0);
}

TEST_CASE("a job that was resumed has no initial values", "[restore_points]") {
  RestorePoints points;
  CHECK(points.first_values() == nullptr);
  points.Resume(Checkpoint(5), "/dir/5");
  REQUIRE(points.first_values() != nullptr);
  CHECK(points.first_values()->path == "/dir/5");
  points.MarkBad(5);
  const absl::Status none = points.Choose(Anything()).status();
  CHECK(absl::IsDataLoss(none));
  CHECK(none.message() == "checkpoint 5 could not be read");
}

TEST_CASE("a value that only the resumed checkpoint had is missed once that is not kept",
          "[restore_points]") {
  RestorePoints points;
  checkpoint::Manifest resumed = Checkpoint(5);
  resumed.shards = {Saved(1), Saved(2)};
  points.Resume(resumed, "/dir/5");
  proto::ShardSpec shard;
  shard.set_id(2);
  shard.mutable_variable()->set_name("late");
  CHECK(points.CheckFirstValue(shard).ok());
  checkpoint::Manifest next = Checkpoint(6);
  next.shards = {Saved(1)};
  points.Add(next, "/dir/6");
  CHECK(points.CheckFirstValue(shard).ok());  // 5 is kept
  next.number = 7;
  points.Add(next, "/dir/7");
  const absl::Status missed = points.CheckFirstValue(shard);
  CHECK(missed.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(absl::StrContains(missed.message(), "variable 'late': its value is in checkpoint 5"));
  shard.set_id(3);
  CHECK(points.CheckFirstValue(shard).ok());  // it never had one
}

TEST_CASE("a checkpoint is too old where the closures since then are not known any more",
          "[restore_points]") {
  RestorePoints points;
  points.Add(Checkpoint(1, 10), "");
  points.Add(Checkpoint(2, 20), "");
  RestorePoints::Need need = Anything();
  need.covers = [](ClosureId first) { return first >= 25; };
  const absl::Status none = points.Choose(need).status();
  CHECK(absl::StrContains(none.message(), "checkpoint 2 is too old"));
  CHECK(absl::StrContains(none.message(), "checkpoint 1 is too old"));
  CHECK_FALSE(absl::StrContains(none.message(), "there is no checkpoint"));
  need.runs_again = false;  // what they did is lost, and that is accepted
  CHECK(Chosen(points, need) == 2);
}

TEST_CASE("what was written by hand must be in the checkpoint, if its shard goes back",
          "[restore_points]") {
  RestorePoints points;
  points.Add(Checkpoint(2), "");
  RestorePoints::Need need = Anything();
  need.safe_from = {{7, 3}};
  CHECK(Chosen(points, need) == 2);
  need.goes_back = {7};
  CHECK(absl::StrContains(points.Choose(need).status().message(), "shard 7 of variable 'v7'"));
  points.Add(Checkpoint(3), "");
  CHECK(Chosen(points, need) == 3);
  need.safe_from = {{7, 4}};  // both that are kept lack it, which is said once
  CHECK(points.Choose(need).status().message() ==
        "shard 7 of variable 'v7' was assigned a value that is in no checkpoint");
}

TEST_CASE(
    "shards do not go back to a checkpoint from before they got their values from an older one",
    "[restore_points]") {
  RestorePoints points;
  checkpoint::Manifest resumed = Checkpoint(5), without = Checkpoint(6), with = Checkpoint(7);
  resumed.shards = with.shards = {Saved(4), Saved(9)};
  without.shards = {Saved(4)};  // 9 is created when it is written
  points.Resume(resumed, "");
  points.Add(without, "");
  RestorePoints::Need need = Anything();
  need.goes_back = {4};
  CHECK(Chosen(points, need) == 6);
  need.goes_back = {4, 9};
  CHECK(Chosen(points, need) == 5);
  need.goes_back = {4, 9, 10};  // 10 has never been in any
  CHECK(Chosen(points, need) == 5);
  points.MarkBad(5);
  CHECK(absl::StrContains(points.Choose(need).status().message(),
                          "checkpoint 6 was written before variable 'v9' got its values, from "
                          "checkpoint 5"));
  points.Add(with, "");
  CHECK(Chosen(points, need) == 7);
}

TEST_CASE("loads are those between two checkpoints, or all where these are little",
          "[restore_points]") {
  RestorePoints points;
  CHECK(points.Loads(0).empty());
  checkpoint::Manifest manifest = Checkpoint(1);
  manifest.shards = {Saved(4)};
  points.Add(manifest, "");
  CHECK(points.Loads(0).count(4) == 1);
  manifest.number = 2;
  manifest.shards = {Saved(4), Saved(9)};
  points.Add(manifest, "");
  CHECK(points.Loads(1e9).size() == 2);
  CHECK(points.Loads(0).size() == 2);
  CHECK(FindSaved(manifest, 9) == &manifest.shards[1]);
  CHECK(FindSaved(manifest, 5) == nullptr);
}

TEST_CASE("a restore point is of the steps that all shards have", "[restore_points]") {
  checkpoint::Manifest manifest = Checkpoint(3);
  manifest.steps = 50;
  manifest.closures.emplace_back().steps = 4;
  RestorePoints points;
  CHECK(points.Add(manifest, ""));
  CHECK(points.newest().manifest.closures.empty());
  CHECK(points.newest().steps == 46);
  RestorePoints resumed;
  resumed.Resume(manifest, "");
  CHECK(resumed.newest().steps == 46);
}

}  // namespace
}  // namespace coxswain::core
