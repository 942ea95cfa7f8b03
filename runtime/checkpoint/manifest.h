// What a checkpoint is: a directory with one safetensors file per shard and a manifest.json that
// names them with their checksums, written last and made visible by renaming the directory. A
// directory of checkpoints holds "checkpoint-000001", "checkpoint-000002", ... Each has all that it
// needs: what has not changed since an older one is there as a link to its file, and of a table may
// be an older file with deltas, see delta_files.h.
//
// Each shard's file is a consistent cut of its rows, optimizer slots, ledger and counters;
// different shards may be cut at different moments. `closures` are all that some shard may lack:
// after a restore they run again, under their old ids, and the shards that have them drop them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coxswain/tensor.h"
#include "protos/control.pb.h"
#include "runtime/base/ids.h"
#include "runtime/base/sync_step.h"
#include "runtime/checkpoint/crc32.h"
#include "runtime/data/scheduled_examples.h"
#include "runtime/data/ticket.h"
#include "runtime/env/file_system.h"

namespace coxswain::checkpoint {

struct CheckpointClosure {
  ClosureId id = 0;
  std::string function;  // its name: plans have other numbers in another session
  bool has_ticket = false;
  Ticket ticket;
  uint32_t steps = 1;
  uint64_t seed = 0;
  // It ran when every closure below this id was complete, and does so again.
  ClosureId after = 0;
  SyncStep sync;  // that it belongs to, if to any; without `after`
  std::vector<Tensor> arguments;
};

// How far the training has come in a data set: the examples of all closures below next_closure.
struct DatasetProgress {
  DatasetId dataset = 0;
  uint64_t fingerprint = 0;  // of the data
  data::ScheduledExamples scheduled;
};

struct Manifest {
  uint64_t number = 0;  // of the checkpoint, counting up
  std::string job;      // name of the job; may be empty
  Epoch epoch = 0;      // of the session that wrote it
  absl::Time written;
  // Every closure below `low_water` is in all shards; `next_closure` is the first that was not
  // scheduled yet. What lies between and is not in `closures` changed nothing.
  ClosureId low_water = 1;
  ClosureId next_closure = 1;
  int64_t steps = 0;  // training steps below next_closure: the data position, for people
  std::vector<proto::SavedShard> shards;    // `file` relative to the checkpoint's directory
  std::vector<CheckpointClosure> closures;  // by ascending id
  std::vector<DatasetProgress> data;        // by ascending id; older manifests have none
  // A JSON object of whoever runs the job; it comes back without its white space, an empty text as
  // "{}", and a text that is none as it was.
  std::string job_state;

  int64_t bytes() const;          // of all shard files
  int64_t written_bytes() const;  // of those that are no links to an older checkpoint's
};

// A file of a shard: the first has all rows, the others are deltas to it.
struct ShardFile {
  std::string file;  // as in SavedShard
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
  int64_t rows = 0;  // of a delta
};
std::vector<ShardFile> FilesOf(const proto::SavedShard& shard);
// The same shard with the whole paths of its files, which are in this directory.
proto::SavedShard WithPaths(proto::SavedShard shard, const std::string& directory);

// The manifest as JSON text, with a checksum of its own.
std::string ToJson(const Manifest& manifest);
// Errors: DataLoss naming `path` when it is torn, altered or of another format.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text, const std::string& path);

// "checkpoint-000042".
std::string CheckpointName(uint64_t number);
// The number in exactly such a name.
std::optional<uint64_t> ParseCheckpointName(absl::string_view name);

struct CheckpointEntry {
  uint64_t number = 0;
  std::string path;
  absl::StatusOr<Manifest> manifest = absl::UnknownError("not read");
};
// Newest first, with what is wrong with those that cannot be read. A directory that is not there
// has none. Errors: when it cannot be listed.
absl::StatusOr<std::vector<CheckpointEntry>> ListCheckpoints(env::FileSystem* files,
                                                             const std::string& directory);

// Of the checkpoint in directory `path`. Errors: DataLoss, also when it is not there.
absl::StatusOr<Manifest> ReadManifest(env::FileSystem* files, const std::string& path);

// Whether every file is there and has its size; reads none. Errors: DataLoss naming the file.
absl::Status CheckSizes(env::FileSystem* files, const std::string& path, const Manifest& manifest);

// Size and checksum of every file. Errors: DataLoss naming the first file that is torn or altered.
absl::Status VerifyCheckpoint(env::FileSystem* files, const std::string& path,
                              const Manifest& manifest);

// The newest checkpoint that verifies; `skipped` gets what is wrong with newer ones.
// Errors: NotFound when there is none at all; DataLoss when none of those there is good.
absl::StatusOr<CheckpointEntry> NewestGoodCheckpoint(env::FileSystem* files,
                                                     const std::string& directory,
                                                     std::vector<absl::Status>* skipped);

// Removes what is older than the `keep` (at least 1) newest ones whose manifest is good and whose
// files have their sizes, and what unfinished ones left ("checkpoint-*.tmp"); nothing else. Damaged
// ones that are newer stay until they are old. The newest good checkpoint is never removed: when
// something is to go, checkpoints are verified from the newest on until one is good, which reads
// all its bytes. No such reading for `known_good`, the number of one that was written just now.
// Not to be called on a loop.
absl::Status PruneCheckpoints(env::FileSystem* files, const std::string& directory, int keep,
                              uint64_t known_good = 0);

}  // namespace coxswain::checkpoint
