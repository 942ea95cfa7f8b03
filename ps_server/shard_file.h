// A shard's files in a checkpoint: safetensors with one tensor a part (see shard_parts.h), rows
// without padding. One file has all rows. Of a table there may be deltas to it, in order: each has
// the local rows that were touched since the one before, as a tensor "row", ascending, and the
// parts of these rows. Of a hash table each has also all ids that wait; those of the last one
// count.
//
// What else is of the shard (its specification, ledger and counters, and the files' sizes and
// checksums) is in proto::SavedShard.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "protos/control.pb.h"
#include "ps_server/shard.h"
#include "runtime/checkpoint/ledger.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/env/file_system.h"

namespace coxswain::ps {

// "shard-00007.safetensors".
std::string ShardFileName(ShardId id);
// "shard-00007.delta-2.safetensors"; counted from 1.
std::string DeltaFileName(ShardId id, int number);

// Whether a file of a shard can have this name: one of the two.
bool IsShardFileName(absl::string_view name);

// The tensors of a file of all rows, in the order of the parts; of a hash table also the ids that
// wait. In a delta the rows come first.
std::vector<checkpoint::SafetensorsEntry> ShardFileEntries(
    const Shard& shard, const std::optional<proto::HashTableState>& hash);
// The same from what it takes. `rows`: how many of a table, or none for what the layout has.
std::vector<checkpoint::SafetensorsEntry> FileEntries(const PartPlan& plan,
                                                      const ShardLayout& layout,
                                                      std::optional<int64_t> rows,
                                                      std::optional<int64_t> waiting);
std::vector<checkpoint::SafetensorsEntry> DeltaEntries(const PartPlan& plan,
                                                       const ShardLayout& layout, int64_t rows,
                                                       std::optional<int64_t> waiting);
// What the file says of itself to other readers.
std::map<std::string, std::string> ShardFileMetadata(const proto::ShardSpec& spec);

struct LoadedShard {
  std::unique_ptr<Shard> shard;
  checkpoint::Ledger ledger;
  int64_t pulled = 0, pushed = 0;  // see SavedShard.rows_pulled
};

// Reads a shard as it was saved. `saved.file` and those of its deltas are whole paths. Takes time:
// not for a loop. Errors, which name the file: NotFound; DataLoss when it cannot be read, or when
// size, checksum, tensors, rows, counters or ledger are not what was saved; those of Shard::Create.
absl::StatusOr<LoadedShard> LoadShard(env::FileSystem* files, const proto::SavedShard& saved);

}  // namespace coxswain::ps
