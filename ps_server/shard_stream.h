// The content of a shard's file, from beginning to end, produced from a snapshot.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "ps_server/shard_snapshot.h"
#include "runtime/checkpoint/safetensors.h"

namespace coxswain::ps {

// Thread model: the shard's event loop.
class ShardStream {
 public:
  // Consecutive bytes of one part.
  struct Piece {
    int part = -1;       // -1: not a part
    int64_t offset = 0;  // in the part, as in the file
    int64_t bytes = 0;
  };

  // A file of all rows.
  explicit ShardStream(std::shared_ptr<const ShardSnapshot> snapshot);
  // A delta: these rows of a table, ascending.
  ShardStream(std::shared_ptr<const ShardSnapshot> snapshot, std::vector<int64_t> rows);

  // The tensors of the file, see shard_file.h.
  std::vector<checkpoint::SafetensorsEntry> Entries() const;
  bool begun() const { return tensor_ > 0 || offset_ > 0; }
  int64_t left() const { return left_; }
  // Reads the next `n` bytes, at most left(); returns their pieces in order. Errors: of a GPU that
  // the rows are on.
  absl::StatusOr<std::vector<Piece>> Read(int64_t n, char* to);
  // The shard's row for row `row` of the file.
  int64_t RowOf(int64_t row) const { return rows_ ? (*rows_)[static_cast<size_t>(row)] : row; }

 private:
  int64_t BytesOf(int tensor) const;
  absl::Status Copy(int tensor, int64_t begin, int64_t n, char* to) const;

  std::shared_ptr<const ShardSnapshot> snapshot_;
  std::optional<std::vector<int64_t>> rows_;
  int tensor_ = 0;      // the next tensor to read
  int64_t offset_ = 0;  // and the next byte in it
  int64_t left_ = 0;
};

}  // namespace coxswain::ps
