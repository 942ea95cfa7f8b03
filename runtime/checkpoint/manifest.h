// A checkpoint: a directory with safetensors files for each shard and a manifest.json that names
// them with their checksums, written last and made visible by renaming the directory. A directory
// of checkpoints holds "checkpoint-000001", "checkpoint-000002", ... Each of them is complete:
// files that have not changed since an older checkpoint are hard links to its files, and a table
// may consist of an older file with deltas, see delta_files.h.
//
// Each shard's file is a consistent cut of its rows, optimizer slots, ledger and counters;
// different shards may be cut at different moments. `closures` lists all closures that some shard
// may lack: after a restore they run again, under their old ids, and the shards that have them drop
// them.
#pragma once

#include <cstdint>
#include <functional>
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
  std::string function;  // its name, because numbers of plans differ between sessions
  bool has_ticket = false;
  Ticket ticket;
  uint32_t steps = 1;
  uint64_t seed = 0;
  // The closure ran when every closure below this id was complete, and must do so again.
  ClosureId after = 0;
  SyncStep sync;  // the step that it belongs to, if any; without `after`
  std::vector<Tensor> arguments;
};

// The position of training in a data set: the examples of all closures below next_closure.
struct DatasetProgress {
  DatasetId dataset = 0;
  uint64_t fingerprint = 0;  // of the data
  data::ScheduledExamples scheduled;
};

// Numbers of checkpoints that training does not go on from, although they are older than some that
// it has written since: it went back behind them.
class Abandoned {
 public:
  struct Range {
    uint64_t first = 0, last = 0;
  };
  // All from `first` to `last`; none where that is smaller. Of many there are some in between
  // that were not.
  void Add(uint64_t first, uint64_t last);
  bool Has(uint64_t number) const;
  const std::vector<Range>& ranges() const { return ranges_; }  // ascending, with gaps in between

 private:
  std::vector<Range> ranges_;
};

struct Manifest {
  uint64_t number = 0;  // of the checkpoint, counting up
  std::string job;      // name of the job; may be empty
  Epoch epoch = 0;      // of the session that wrote it
  absl::Time written;
  // All shards have every closure below `low_water`; `next_closure` is the first that was not
  // scheduled yet. Closures in between that are not in `closures` changed nothing.
  ClosureId low_water = 1;
  ClosureId next_closure = 1;
  // Training steps of closures below next_closure, without those that failed, were cancelled or
  // were not needed; and with them, as seeds are counted by it. Older manifests have no position.
  int64_t steps = 0;
  int64_t position = 0;
  std::vector<proto::SavedShard> shards;    // `file` relative to the checkpoint's directory
  std::vector<CheckpointClosure> closures;  // by ascending id
  std::vector<DatasetProgress> data;        // by ascending id; older manifests have none
  Abandoned abandoned;                      // older manifests have none, whatever there was
  // A JSON object of the program that runs the job. It is read back without white space; an empty
  // text is read as "{}", and a text that is not JSON unchanged.
  std::string job_state;

  // Training steps that all shards have: `steps` without those of `closures`. What the values were
  // trained for: a checkpoint that took long to write has many closures that came meanwhile.
  int64_t steps_done() const;
  int64_t bytes() const;          // of all shard files
  int64_t written_bytes() const;  // of files that are not links to an older checkpoint's
};

// A file of a shard: the first has all rows, the others are deltas to it.
struct ShardFile {
  std::string file;  // as in SavedShard
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
  int64_t rows = 0;  // for a delta
};
std::vector<ShardFile> FilesOf(const proto::SavedShard& shard);
// The same shard with full paths of its files, which are in this directory.
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
// Newest first, with the errors of those that cannot be read. A directory that does not exist has
// none. Errors: when it cannot be listed.
absl::StatusOr<std::vector<CheckpointEntry>> ListCheckpoints(env::FileSystem* files,
                                                             const std::string& directory);

// Reads the manifest of the checkpoint in directory `path`. Errors: DataLoss, also when it does not
// exist.
absl::StatusOr<Manifest> ReadManifest(env::FileSystem* files, const std::string& path);

// Checks that every file exists and has the right size; reads no file. Errors: DataLoss naming the
// file.
absl::Status CheckSizes(env::FileSystem* files, const std::string& path, const Manifest& manifest);

// Verifies size and checksum of every file. Errors: DataLoss naming the first file that is torn or
// altered.
absl::Status VerifyCheckpoint(env::FileSystem* files, const std::string& path,
                              const Manifest& manifest);

// Which checkpoint of a directory is used: by a job that goes on, and by whoever reads the newest.
struct ChosenCheckpoint {
  std::optional<CheckpointEntry> good;   // the newest that is good
  std::vector<CheckpointEntry> skipped;  // newer ones, newest first; `manifest` has what is wrong

  // The number of the newest one, good or not; 0: there is none.
  uint64_t newest() const;
  // "not used: <what is wrong>; checkpoint-000007 is used instead", for each that was skipped.
  std::vector<std::string> Notes() const;
  // Why there is no good one. NotFound when there are no checkpoints; DataLoss, with what is wrong
  // with the newest.
  absl::Status WhyNone(const std::string& directory) const;
};
struct ChooseOptions {
  // What else a good one has to be; may be null.
  std::function<absl::Status(const Manifest&)> usable = nullptr;
  uint64_t verified = 0;    // the number of one whose bytes were verified before: its sizes will do
  bool sizes_only = false;  // of all of them: reads no file but manifests
};
// The newest checkpoint whose files verify. One that is removed while it is read, because the job
// goes on and has newer ones, is no damaged one: the directory is looked at again. Errors: when the
// directory cannot be listed; Unavailable when that happens again and again.
absl::StatusOr<ChosenCheckpoint> ChooseCheckpoint(env::FileSystem* files,
                                                  const std::string& directory,
                                                  const ChooseOptions& options = {});

// The good one of it; `skipped` gets the errors of newer ones. Errors: also those of WhyNone.
absl::StatusOr<CheckpointEntry> NewestGoodCheckpoint(env::FileSystem* files,
                                                     const std::string& directory,
                                                     std::vector<absl::Status>* skipped);

// Removes checkpoints that are older than the `keep` (at least 1) newest ones whose manifest is
// good and whose files have their sizes, and remains of unfinished ones ("checkpoint-*.tmp");
// nothing else. Newer damaged ones stay until they are old enough. The newest good checkpoint is
// never removed: before anything is removed, checkpoints are verified from the newest on until one
// is good, which reads all of its bytes. `known_good`, the number of a checkpoint that was just
// written, is not verified again. Must not be called on a loop.
absl::Status PruneCheckpoints(env::FileSystem* files, const std::string& directory, int keep,
                              uint64_t known_good = 0);
// The same, of all checkpoints but the oldest of those that are good. False: fewer than two are,
// and none was removed.
absl::StatusOr<bool> RemoveOldest(env::FileSystem* files, const std::string& directory);

}  // namespace coxswain::checkpoint
