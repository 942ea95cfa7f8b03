// Makes a group file of a streamed data set: reads the columns concerned of all blocks, and sorts
// what is in them, by the group and then by the row, in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "runtime/data/stream/parsed_block.h"

namespace coxswain::data {

struct GroupFileOutput {
  int file = -1;     // empty
  std::string path;  // for messages
  // Called when it is known how large it becomes.
  std::function<absl::Status(int64_t bytes)> make_room;
};

// The file depends on the data set and the target alone. Memory: half of dataset.memory, and a
// block. Errors: those of ParseBlock, such as FailedPrecondition for a file that has changed since
// it was indexed; those of ScratchFile; ResourceExhausted when the disk is full.
absl::Status MakeGroupFile(const StreamedSpec& data, const GroupTarget& target, uint64_t key,
                           const GroupFileOutput& output);

}  // namespace coxswain::data
