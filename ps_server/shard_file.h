// A shard's file in a checkpoint: safetensors with one tensor a part (see shard_parts.h), rows
// without padding. What else is of the shard (its specification, ledger and counters, and the
// file's size and checksum) is in proto::SavedShard.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/control.pb.h"
#include "ps_server/shard.h"
#include "runtime/checkpoint/ledger.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/env/file_system.h"

namespace coxswain {

// "shard-00007.safetensors".
std::string ShardFileName(ShardId id);

// The tensors of a shard's file, in the order of its parts; of a hash table also the ids that wait.
std::vector<SafetensorsEntry> ShardFileEntries(
    const Shard& shard, const std::optional<proto::HashTableState>& hash = std::nullopt);
// What the file says of itself to other readers.
std::map<std::string, std::string> ShardFileMetadata(const proto::ShardSpec& spec);

struct LoadedShard {
  std::unique_ptr<Shard> shard;
  Ledger ledger;
  int64_t pulled = 0, pushed = 0;  // see SavedShard.rows_pulled
};

// Reads a shard as it was saved. `saved.file` is the whole path. Takes time: not for a loop.
// Errors, which name the file: NotFound; DataLoss when it cannot be read, or when size, checksum,
// tensors, counters or ledger are not what was saved; those of Shard::Create.
absl::StatusOr<LoadedShard> LoadShard(FileSystem* files, const proto::SavedShard& saved);

}  // namespace coxswain
