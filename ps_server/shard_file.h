// A shard's files in a checkpoint: safetensors with one tensor per part (see shard_parts.h), rows
// without padding. One file has all rows. A table may also have deltas, in order: each has the
// local rows that were touched since the previous file, as a tensor "row", ascending, and the parts
// of these rows. For a hash table each file also has all waiting ids; those of the last file are
// valid.
//
// The rest of the shard's state (its specification, ledger and counters), and the files' sizes and
// checksums, are in proto::SavedShard.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "protos/control.pb.h"
#include "ps_server/fetched_numbers.h"
#include "ps_server/shard.h"
#include "runtime/checkpoint/ledger.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/env/file_system.h"

namespace coxswain::ps {

// "shard-00007.safetensors".
std::string ShardFileName(ShardId id);
// "shard-00007.delta-2.safetensors"; counted from 1.
std::string DeltaFileName(ShardId id, int number);

// Whether the name is one of these two forms.
bool IsShardFileName(absl::string_view name);

// The tensors of a file of all rows, in the order of the parts; for a hash table also the waiting
// ids. In a delta the rows come first. `rows`: the number of rows of a table; nullopt: the
// layout's.
std::vector<checkpoint::SafetensorsEntry> FileEntries(const PartPlan& plan,
                                                      const ShardLayout& layout,
                                                      std::optional<int64_t> rows,
                                                      std::optional<int64_t> waiting);
std::vector<checkpoint::SafetensorsEntry> DeltaEntries(const PartPlan& plan,
                                                       const ShardLayout& layout, int64_t rows,
                                                       std::optional<int64_t> waiting);
// The file's metadata, for other readers; and FetchedNumbers under this key, where there are any.
inline constexpr char kFetchedMetadata[] = "fetched";
std::map<std::string, std::string> ShardFileMetadata(const proto::ShardSpec& spec);

struct LoadedShard {
  std::unique_ptr<Shard> shard;
  checkpoint::Ledger ledger = {};
  FetchedNumbers fetched = {};
  int64_t pulled = 0, pushed = 0;  // see SavedShard.rows_pulled
};

// Reads a saved shard. `saved.file` and those of its deltas are full paths. May take long, so it
// must not be called on a loop. Errors, which name the file: NotFound; DataLoss when it cannot be
// read, or when size, checksum, tensors, rows, counters, ledger or fetched numbers differ from what
// was saved; those of Shard::Create.
// `devices`: see Shard::Create.
absl::StatusOr<LoadedShard> LoadShard(env::FileSystem* files, const proto::SavedShard& saved,
                                      RowDevices* devices = nullptr);

}  // namespace coxswain::ps
