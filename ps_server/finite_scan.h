// Finds weights and slots that are NaN or infinite in the data of a save: after a restore, they
// would soon spread to all weights.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ps_server/shard_snapshot.h"
#include "ps_server/shard_stream.h"

namespace coxswain::ps {

// Scans one file. Thread model: one thread at a time.
class FiniteScan {
 public:
  struct Found {
    int part = 0;
    int64_t row = 0;  // of the file
  };

  // Parts of integers, and shards without an optimizer, are not scanned.
  FiniteScan(const proto::ShardSpec& spec, const ShardSnapshot& snapshot);

  // Scans the next bytes of the file; `data` has the bytes of `piece`. Adds the rows, in their
  // order, that have such values.
  void Look(const ShardStream::Piece& piece, const char* data, std::vector<Found>* found);

 private:
  struct Part {
    DType dtype = DType::kInvalid;
    int64_t width = 1;
  };
  void Add(const Part& part, int number, int64_t element, std::vector<Found>* found) const;

  bool on_ = false;
  std::vector<Part> parts_;
  // The first bytes of an element that is split between two pieces.
  std::array<char, sizeof(double)> begun_{};
};

// Whether the row is in use: a free place of a hash table may hold anything.
bool IsLive(const ShardSnapshot& snapshot, int64_t row);
// The row's id in the whole table.
int64_t IdOf(const ShardSnapshot& snapshot, int64_t row);

}  // namespace coxswain::ps
