// Reads the rows of a checkpoint's table from the files of its shards: all of them, those of a
// delta, or some. Nothing in the files is trusted; every error names the file.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coordinator/model/table_version.h"
#include "coxswain/tensor.h"
#include "runtime/checkpoint/delta_files.h"

namespace coxswain::model {

// A table as a checkpoint has it.
struct TableFiles {
  struct Shard {
    std::shared_ptr<const checkpoint::RowFiles> rows;  // the same files, open
    checkpoint::RowFiles::File whole;
    std::vector<checkpoint::RowFiles::File> deltas;
    int64_t places = 0;
  };
  std::string name;
  std::string path;    // of the checkpoint, for messages
  std::string tensor;  // that has the rows
  DType dtype = DType::kF32;
  int64_t row_elements = 1;
  TableLayout layout;
  std::vector<Shard> shards;
};

// Some rows of a shard.
struct RowBlock {
  std::vector<int64_t> places;
  std::string rows;
  // Of a hash table: ids, and which places have a row (a count above 0).
  std::vector<int64_t> ids;
  std::vector<int32_t> counts;
};

using TakeBlock = absl::FunctionRef<absl::Status(const RowBlock&)>;

// Calls `take` with all rows of a shard, in blocks of about 4 MiB.
absl::Status ReadAllRows(const TableFiles& files, size_t shard, TakeBlock take);
// The same with the rows of one of the shard's deltas, after its size and checksum were verified.
absl::Status ReadDeltaRows(const TableFiles& files, size_t shard, size_t delta, TakeBlock take);
// The same with the rows of these places, which are ascending.
absl::Status ReadPlaces(const TableFiles& files, size_t shard, absl::Span<const int64_t> places,
                        TakeBlock take);

}  // namespace coxswain::model
