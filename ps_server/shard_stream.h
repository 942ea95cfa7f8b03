// The content of a shard's file, from its beginning to its end, as a snapshot has it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ps_server/shard_snapshot.h"
#include "runtime/checkpoint/safetensors.h"

namespace coxswain::ps {

// Thread model: the shard's event loop.
class ShardStream {
 public:
  // Consecutive bytes of one part.
  struct Piece {
    int part = -1;       // -1: of something else
    int64_t offset = 0;  // of the part, as the file has it
    int64_t bytes = 0;
  };

  // A file of all rows.
  explicit ShardStream(std::shared_ptr<const ShardSnapshot> snapshot);
  // A delta: these rows of a table, ascending.
  ShardStream(std::shared_ptr<const ShardSnapshot> snapshot, std::vector<int64_t> rows);

  // What the file has, see shard_file.h.
  std::vector<checkpoint::SafetensorsEntry> Entries() const;
  bool begun() const { return tensor_ > 0 || offset_ > 0; }
  int64_t left() const { return left_; }
  // The next `n` bytes, at most left(), and what they are, in their order.
  std::vector<Piece> Read(int64_t n, char* to);
  // The shard's row that is row `row` of the file.
  int64_t RowOf(int64_t row) const { return rows_ ? (*rows_)[static_cast<size_t>(row)] : row; }

 private:
  int64_t BytesOf(int tensor) const;
  void Copy(int tensor, int64_t begin, int64_t n, char* to) const;

  std::shared_ptr<const ShardSnapshot> snapshot_;
  std::optional<std::vector<int64_t>> rows_;
  int tensor_ = 0;      // what comes next: from this byte
  int64_t offset_ = 0;  // of it on
  int64_t left_ = 0;
};

}  // namespace coxswain::ps
