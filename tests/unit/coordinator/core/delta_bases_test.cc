// Which checkpoint the next one builds on.
#include "coordinator/core/delta_bases.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "tests/testing/checkpoints.h"

namespace coxswain::core {
namespace {

void Add(DeltaBases* bases, uint64_t number, const RowWrites& writes = {}) {
  bases->Add(SampleManifest(number), "/dir/" + checkpoint::CheckpointName(number), writes);
}

// The number of the checkpoint that a shard's base is in.
std::optional<uint64_t> BaseOf(const DeltaBases& bases, ShardId shard) {
  const proto::SavedShard* base = bases.Find(shard);
  if (base == nullptr) return std::nullopt;
  const std::string path = base->file().substr(0, base->file().rfind('/'));
  return checkpoint::ParseCheckpointName(path.substr(path.rfind('/') + 1));
}

TEST_CASE("two checkpoints that follow one another have no base in common", "[checkpoint]") {
  DeltaBases bases(/*keep=*/3);
  CHECK_FALSE(BaseOf(bases, 1));
  Add(&bases, 4);
  CHECK_FALSE(BaseOf(bases, 1));  // the second is whole, too
  Add(&bases, 5);
  CHECK(BaseOf(bases, 1) == 4);
  CHECK(bases.Find(1)->file() == "/dir/checkpoint-000004/shard-00001.safetensors");
  CHECK(bases.Find(1)->applied() == 120);
  CHECK(bases.Find(1)->ledger().empty());
  CHECK_FALSE(BaseOf(bases, 9));
  Add(&bases, 7);  // 6 failed
  CHECK(BaseOf(bases, 1) == 5);
  Add(&bases, 8);
  CHECK(BaseOf(bases, 1) == 7);
  bases.Clear();  // 9 may be there, built on 7
  CHECK_FALSE(BaseOf(bases, 1));
  Add(&bases, 10);
  CHECK_FALSE(BaseOf(bases, 1));
  Add(&bases, 11);
  CHECK(BaseOf(bases, 1) == 10);
}

TEST_CASE("where one checkpoint is kept, the next builds on it", "[checkpoint]") {
  DeltaBases bases(/*keep=*/1);
  Add(&bases, 4);
  CHECK(BaseOf(bases, 1) == 4);
  Add(&bases, 5);
  CHECK(BaseOf(bases, 1) == 5);
}

TEST_CASE("a shard that went back builds on nothing that came later", "[checkpoint]") {
  DeltaBases bases(/*keep=*/2);
  for (const uint64_t number : {1, 2, 3}) Add(&bases, number);
  bases.WentBack({1, 2}, 3);
  CHECK(BaseOf(bases, 1) == 2);
  bases.WentBack({1}, 2);
  CHECK_FALSE(BaseOf(bases, 1));
  CHECK(BaseOf(bases, 2) == 2);
  Add(&bases, 5);  // 4 was given up
  CHECK(BaseOf(bases, 1) == 2);
  CHECK(BaseOf(bases, 2) == 3);
  bases.WentBack({1, 2, 3}, 0);
  Add(&bases, 6);
  CHECK_FALSE(BaseOf(bases, 1));
  Add(&bases, 7);
  CHECK(BaseOf(bases, 3) == 6);
}

TEST_CASE("what is written from outside is in no checkpoint that was begun before",
          "[checkpoint]") {
  DeltaBases bases(/*keep=*/1);
  Add(&bases, 1);
  RowWrites writes;
  writes.Sent(1, 3);
  bases.Written(1);
  CHECK_FALSE(BaseOf(bases, 1));
  CHECK(BaseOf(bases, 2) == 1);
  Add(&bases, 2, writes);  // it was under way
  CHECK_FALSE(BaseOf(bases, 1));
  CHECK(BaseOf(bases, 2) == 2);
  Add(&bases, 3, writes);
  CHECK(BaseOf(bases, 1) == 3);
}

}  // namespace
}  // namespace coxswain::core
