// Where in their files the row groups of a data set lie, as far as its columns are read: what an
// object store is asked for before a group is wanted. A file's footer says so. It is read anyway
// when the first block of the file is parsed; what it says is kept.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "runtime/data/data_file.h"

namespace coxswain::data {

struct StreamedSpec;  // parsed_block.h

class GroupRanges {
 public:
  // Finds the groups of a file that is not known yet, which may ask the store for its footer.
  // `file`: its number in the index. Errors: those of DataFormat::GroupRanges.
  absl::Status Learn(const StreamedSpec& data, int file);
  // None where the file is not known, or has no such group.
  std::vector<ByteRange> Of(int file, int64_t group) const;

 private:
  mutable absl::Mutex mu_;
  std::map<int, std::vector<std::vector<ByteRange>>> files_ ABSL_GUARDED_BY(mu_);  // by number
};

// Whether blocks of the data set are row groups in object stores.
bool HasRemoteGroups(const StreamedSpec& data);

// Asks object stores for what some blocks are parsed of, in their order, as far as there is room;
// what was asked for before and is not of these is let go.
void ReadBlocksAhead(const StreamedSpec& data, const std::vector<int64_t>& blocks);

}  // namespace coxswain::data
