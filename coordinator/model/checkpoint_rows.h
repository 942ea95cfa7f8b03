// The rows of a checkpoint's tables in memory: those of a whole file, and beside them those of its
// deltas. A file that several checkpoints have, as links, is in memory once.
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
  Tensor values;              // as they are stored; a row follows the other
  std::vector<int64_t> rows;  // of a delta: which these are, ascending
};

// Files that are in memory, for as long as some checkpoint's rows need them. Thread-safe.
class CheckpointFiles {
 public:
  // Read, and held against its checksum, unless some checkpoint has it in memory already: a link
  // to it is the same file. `shape`: of the variable; the number of rows is the file's.
  // Errors: NotFound; DataLoss.
  absl::StatusOr<std::shared_ptr<const LoadedRows>> Load(const checkpoint::RowFiles::File& file,
                                                         bool delta, DType dtype,
                                                         const Shape& shape);
  // Bytes of files that were read, since it was made.
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
    int64_t begin = 0;  // the position of its first row, where shards follow one another
    std::shared_ptr<const LoadedRows> whole;
    std::vector<std::shared_ptr<const LoadedRows>> deltas;  // in their order
  };
  // `interleaved`: position p is row p / n of shard p % n; `mix`: the same of the position's place.
  CheckpointRows(std::vector<Shard> shards, size_t row_bytes, bool interleaved,
                 std::optional<RowMix> mix);

  // The row's bytes; zeros where no file has it.
  const char* Row(int64_t position) const;
  // Rows that stand beside those of the whole files.
  int64_t changed() const;

 private:
  struct Placed {
    Shard shard;
    int64_t rows = 0;                                 // of the whole file
    absl::flat_hash_map<int64_t, const char*> newer;  // rows of the deltas
  };

  std::vector<Placed> shards_;
  const size_t row_bytes_;
  const bool interleaved_;
  const std::optional<RowMix> mix_;
  const std::string zeros_;
};

}  // namespace coxswain::model
