// Shards of hash tables whose rows come, change and go, and all of what they hold.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ps_server/shard_file.h"
#include "ps_server/shard_snapshot.h"
#include "runtime/env/file_system.h"
#include "tests/testing/hash_specs.h"
#include "tests/testing/shards.h"

namespace coxswain::testing {

// A shard that has all of a hash table "users".
inline std::unique_ptr<ps::Shard> MakeHash(int64_t dim, const proto::HashTableSpec& hash = {},
                                           const std::string& optimizer = "sgd") {
  return Make(HashShardsOf(HashTableOf("users", dim, OptimizerOf(optimizer), hash), 1)[0]);
}

// All ways in which rows come and go.
inline std::vector<proto::HashTableSpec> KindsOfHashTables() {
  std::vector<proto::HashTableSpec> kinds(6);
  kinds[1].set_min_count(2);
  kinds[2].set_admission_probability(0.3);
  kinds[2].set_ttl_steps(30);
  kinds[3].set_min_count(2);
  kinds[3].set_max_rows(70);
  kinds[3].set_evict("frequency");
  kinds[4].set_ttl_seconds(40);
  kinds[4].set_max_rows(150);
  kinds[5].set_min_count(2);
  kinds[5].set_ttl_steps(20);
  return kinds;
}

// One of a sequence of steps in which ids come, wait, come back and go. `moved` may bring the
// gradient elsewhere.
inline void StepOfHashTable(ps::Shard* shard, uint64_t number,
                            const std::function<Tensor(const Tensor&)>& moved = nullptr) {
  std::mt19937_64 random(number);
  std::vector<int64_t> ids;
  for (int i = 0; i < 25; ++i) {
    ids.push_back(static_cast<int64_t>(random() % (i < 10 ? 60 : 3000)) - 500);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const Tensor gradient =
      RandomTensor(shard->layout().RowsShape(static_cast<int64_t>(ids.size())), number);
  // A restored shard's clock begins with its first update: here with an odd number's time.
  const auto seconds = static_cast<double>(1000 + 2 * ((number + 1) / 2));
  Apply(shard,
        UpdateOf(graph::Update::Kind::kSparse, 1, moved == nullptr ? gradient : moved(gradient),
                 Ids(ids)),
        {number, 0, seconds});
}

// All parts of all places, and what there is beside them.
inline std::map<std::string, std::vector<char>> BytesOf(const ps::ShardSnapshot& snapshot) {
  std::map<std::string, std::vector<char>> bytes;
  for (int t = 0; t < snapshot.tensors(); ++t) {
    std::vector<char>& tensor =
        bytes[t < snapshot.parts() ? snapshot.part(t).name : absl::StrCat("waiting", t)];
    tensor.resize(static_cast<size_t>(snapshot.tensor_bytes(t)));
    REQUIRE(snapshot.CopyBytes(0, snapshot.tensor_bytes(t), t, tensor.data()).ok());
  }
  const std::string state = snapshot.hash()->SerializeAsString();
  bytes["state"].assign(state.begin(), state.end());
  return bytes;
}

// As ShardSaver writes it.
inline proto::SavedShard SaveShard(const ps::Shard& shard, const ps::ShardSnapshot& snapshot,
                                   const std::string& path) {
  const auto files = env::NewRealFileSystem();
  auto writer = checkpoint::SafetensorsWriter::Create(
      files.get(), path,
      ps::FileEntries(shard.plan(), shard.layout(), std::nullopt,
                      snapshot.hash() ? std::optional(snapshot.hash()->waiting()) : std::nullopt),
      {});
  REQUIRE(writer.ok());
  for (int t = 0; t < snapshot.tensors(); ++t) {
    std::vector<char> bytes(static_cast<size_t>(snapshot.tensor_bytes(t)));
    REQUIRE(snapshot.CopyBytes(0, snapshot.tensor_bytes(t), t, bytes.data()).ok());
    REQUIRE((*writer)->Append(bytes.data(), bytes.size()).ok());
  }
  REQUIRE((*writer)->Finish().ok());
  proto::SavedShard saved;
  *saved.mutable_shard() = shard.spec();
  saved.set_file(path);
  saved.set_bytes((*writer)->bytes());
  saved.set_crc32((*writer)->crc32());
  saved.set_ledger("0");
  saved.set_applied(snapshot.applied());
  saved.set_gradient_steps(snapshot.gradient_steps());
  if (snapshot.hash()) *saved.mutable_hash() = *snapshot.hash();
  return saved;
}

}  // namespace coxswain::testing
