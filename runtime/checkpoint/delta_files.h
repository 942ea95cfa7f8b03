// The files that have a shard's rows: one with all of them and, where a checkpoint is incremental,
// deltas to it, which follow one another. A delta has the rows that have changed since the file
// before it: a tensor "row" i64 [n] of their positions, ascending, and n rows of each other tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/checkpoint/safetensors_reader.h"

namespace coxswain::checkpoint {

constexpr char kDeltaRows[] = "row";

// Whether these are rows of [begin, end), ascending. Errors: DataLoss, naming `path`.
absl::Status CheckDeltaRows(const std::string& path, absl::Span<const int64_t> rows, int64_t begin,
                            int64_t end);

// Reads such files as the rows that they make up together, in memory that does not grow with them.
// Thread-safe.
class RowFiles {
 public:
  struct File {
    std::string path;
    uint64_t bytes = 0;  // as they were saved
    uint32_t crc32 = 0;
    bool has_crc32 = false;
    int64_t rows = 0;  // of a delta
  };
  // `rows`: how many they make up, where there are deltas; a hash table grows.
  // Errors, which name the file: NotFound; DataLoss; those of SafetensorsReader.
  static absl::StatusOr<RowFiles> Open(const File& whole, absl::Span<const File> deltas,
                                       int64_t rows);

  const std::string& path() const { return whole_.path(); }
  // A tensor that has a value of each row, with the shape of all rows; null when there is none.
  const SafetensorsEntry* Find(const std::string& tensor) const;
  // Rows [begin, begin + count) of a tensor with `width` bytes a row. Errors: NotFound for the
  // tensor; OutOfRange; DataLoss.
  absl::Status Read(const std::string& tensor, size_t width, int64_t begin, int64_t count,
                    char* out) const;
  // Reads all of the files. Errors: DataLoss for one that is not as it was saved.
  absl::Status Verify() const;

 private:
  struct Delta {
    SafetensorsReader file;
    int64_t rows = 0;
  };

  explicit RowFiles(SafetensorsReader whole) : whole_(std::move(whole)) {}
  // Where in the list of its rows those from `row` on begin.
  static absl::StatusOr<int64_t> LowerBound(const Delta& delta, int64_t row);
  static absl::Status Overlay(const Delta& delta, const SafetensorsEntry& wanted, size_t width,
                              int64_t begin, int64_t count, char* out);

  SafetensorsReader whole_;
  std::vector<Delta> deltas_;
  std::vector<SafetensorsEntry> entries_;  // with deltas: of all rows
  std::vector<File> saved_;                // all of them
};

}  // namespace coxswain::checkpoint
