// The rows of a checkpoint's tables in memory: the rows of a whole file, and separately those of
// its deltas. A file that several checkpoints share, as links, is in memory once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "coxswain/tensor.h"
#include "runtime/base/row_mix.h"
#include "runtime/checkpoint/delta_files.h"

namespace coxswain::model {

// The weights in one file of a shard: all rows, or those of a delta.
struct LoadedRows {
  Tensor values;              // rows as they are stored, one after the other
  std::vector<int64_t> rows;  // for a delta: their positions, ascending
};

// A cache of files in memory, each kept as long as some checkpoint's rows use it. Thread-safe.
class CheckpointFiles {
 public:
  // Reads the file and verifies its checksum, unless a checkpoint already has it in memory; links
  // to the same file count as the same file. `shape` is that of the variable; the number of rows is
  // the file's. Errors: NotFound; DataLoss.
  absl::StatusOr<std::shared_ptr<const LoadedRows>> Load(const checkpoint::RowFiles::File& file,
                                                         bool delta, DType dtype,
                                                         const Shape& shape);
  // Bytes read from files since this object was created.
  uint64_t bytes_read() const;

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, std::weak_ptr<const LoadedRows>> loaded_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_read_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A table's rows by their position, see saved_reader.h. Immutable.
class CheckpointRows {
 public:
  struct Shard {
    int64_t begin = 0;  // the position of its first row, if shards are ranges
    std::shared_ptr<const LoadedRows> whole;
    std::vector<std::shared_ptr<const LoadedRows>> deltas;  // in their order
  };
  // `interleaved`: position p is row p / n of shard p % n; `mix`: the same with the position's
  // place.
  CheckpointRows(std::vector<Shard> shards, size_t row_bytes, bool interleaved,
                 std::optional<RowMix> mix);

  // The row's bytes; zeros if no file has the row.
  const char* Row(int64_t position) const;
  // Number of rows that are held separately, from deltas.
  int64_t changed() const;

 private:
  struct Placed {
    Shard shard;
    int64_t rows = 0;                                 // in the whole file
    absl::flat_hash_map<int64_t, const char*> newer;  // rows of the deltas
  };

  std::vector<Placed> shards_;
  const size_t row_bytes_;
  const bool interleaved_;
  const std::optional<RowMix> mix_;
  const std::string zeros_;
};

}  // namespace coxswain::model
