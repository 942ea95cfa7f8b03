// Looks for weights and slots that are NaN or infinite in what is being saved: whoever restored
// them would train on nothing else before long.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ps_server/shard_snapshot.h"
#include "ps_server/shard_stream.h"

namespace coxswain::ps {

// Of one file. Thread model: one thread at a time.
class FiniteScan {
 public:
  struct Found {
    int part = 0;
    int64_t row = 0;  // of the file
  };

  // Parts of integers are not looked at, nor anything of a shard without an optimizer.
  FiniteScan(const proto::ShardSpec& spec, const ShardSnapshot& snapshot);

  // The next bytes of the file; `data` has those of `piece`. Adds the rows, in their order, in
  // which it finds some.
  void Look(const ShardStream::Piece& piece, const char* data, std::vector<Found>* found);

 private:
  struct Part {
    DType dtype = DType::kInvalid;
    int64_t width = 1;
  };
  void Add(const Part& part, int number, int64_t element, std::vector<Found>* found) const;

  bool on_ = false;
  std::vector<Part> parts_;
  // The first bytes of an element that two pieces share.
  std::array<char, sizeof(double)> begun_{};
};

// Whether the row has a place in the table: a free place of a hash table may hold anything.
bool IsLive(const ShardSnapshot& snapshot, int64_t row);
// The row's id in the whole table.
int64_t IdOf(const ShardSnapshot& snapshot, int64_t row);

}  // namespace coxswain::ps
