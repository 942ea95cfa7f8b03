// The tables of a job's checkpoints in memory. Loading a newer checkpoint costs memory for the rows
// that differ from the checkpoint that was loaded last, and reading for what is new on disk:
//
//   A file that was loaded before, as a link, is not read again. Where a shard's files are those of
//   a checkpoint that was loaded before and further deltas, only the deltas are read: the other
//   rows that may differ are those that have changed in memory since that checkpoint, and these are
//   remembered for the last few. So nothing needs to be known of the history of the two, and
//   checkpoints that build on the last but one, or come after a job went back, need no other way.
//
//   A shard with other files is read whole, block by block, and compared with what is in memory.
//
// See row_slots.h for the memory, table_version.h for the result.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/model/row_slots.h"
#include "coordinator/model/shared_maps.h"
#include "coordinator/model/table_draft.h"
#include "coordinator/model/table_files.h"
#include "coordinator/model/table_version.h"
#include "coxswain/tensor.h"

namespace coxswain::model {

// Thread-safe; one table is loaded at a time.
class CheckpointTables {
 public:
  CheckpointTables() = default;
  CheckpointTables(const CheckpointTables&) = delete;
  CheckpointTables& operator=(const CheckpointTables&) = delete;

  // The table's rows. Files are verified against their checksums when they are first read. After an
  // error the versions that were handed out, and what the next one is compared with, are as before.
  // Errors: NotFound; DataLoss; ResourceExhausted.
  absl::StatusOr<std::shared_ptr<const TableVersion>> Load(const TableFiles& files);

  // Bytes of the files that were read since this object was created.
  uint64_t bytes_read() const;
  // Bytes of memory of all versions that are held, by this object or by those who use them.
  int64_t bytes_held() const;

 private:
  // A checkpoint that was loaded before: its files, and the places that differ in the next one.
  struct Past {
    std::vector<std::string> files;  // identities: the whole file and then the deltas
    std::vector<int64_t> changed;
  };
  struct Shard {
    std::vector<std::string> files;  // of `newest`
    std::deque<Past> past;           // oldest first
  };
  struct Table {
    std::string tensor;
    DType dtype = DType::kInvalid;
    std::shared_ptr<const TableLayout> layout;
    std::shared_ptr<RowSlots> memory;
    std::shared_ptr<const TableVersion> newest;
    std::vector<Shard> shards;
  };
  // What has to be read of a shard: deltas from the `first_delta`-th on, and places.
  struct Changes {
    size_t first_delta = 0;
    std::vector<int64_t> places;  // in any order
  };

  static bool Fits(const Table& table, const TableFiles& files);
  Table StartAnew(const TableFiles& files) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static std::optional<Changes> ChangesOf(const Shard& shard,
                                          const std::vector<std::string>& files);
  absl::Status ReadShard(const TableFiles& files, size_t shard, const Shard& known,
                         const std::vector<std::string>& names, TableDraft* draft)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ReadAll(const TableFiles& files, size_t shard, const Shard& known,
                       const std::vector<std::string>& names, TableDraft* draft)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void MoveOn(std::vector<std::string> files, std::vector<int64_t> changed, int64_t places,
                     Shard* shard);

  mutable absl::Mutex mutex_;
  const std::shared_ptr<SharedBytes> map_bytes_ = std::make_shared<SharedBytes>();
  std::map<std::string, Table> tables_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<const RowSlots>> memories_ ABSL_GUARDED_BY(mutex_);  // ever made
  uint64_t bytes_read_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace coxswain::model
