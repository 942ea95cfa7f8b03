// The values of groups for the rows of a batch, out of a group file: as HistoryColumn and
// KnownColumn (runtime/data/history.h) have them of data in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coxswain/tensor.h"
#include "runtime/data/history.h"
#include "runtime/data/stream/group_file.h"

namespace coxswain::data {

// Thread model: one thread.
struct HistoryGather {
  // `most_bytes`: that the values of a row may take, and those of a batch.
  HistoryGather(const GroupFile& from, int64_t most_bytes)
      : file(from), most(0), bytes(most_bytes) {}

  // Makes the columns .values and .offsets. Errors: those of GroupFile; ResourceExhausted for a
  // group or a batch with more values than fit, or a batch with 2^31 values.
  absl::Status Fill(Tensor* values, Tensor* offsets);

  const GroupFile& file;
  std::string feature;  // for messages
  std::vector<GroupedRow> rows;
  int64_t most;  // values of a row; 0: all
  const int64_t bytes;
  bool ordered = false;          // only those before the row, of which the last ones are taken
  bool sorts = false;            // the file has them in another order than that of their ids
  const int64_t* own = nullptr;  // of each row the value that is left out; null: none is
  ValuesOfQueries* own_of_queries = nullptr;  // where rows are those of queries: these are left out
  std::function<uint64_t(int64_t row)> sample_key;  // with `most`, where they have no order

 private:
  absl::Status ReadRow(size_t row);
  // Whether the values of the batch up to this row fit.
  absl::Status CheckBatch(size_t row) const;

  std::vector<int64_t> all_;    // of the batch
  std::vector<int64_t> group_;  // of a row
};

}  // namespace coxswain::data
