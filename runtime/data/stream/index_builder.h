// The pass that makes the index of a data set: every row is read once, in order, and none is kept.
// With a split by a column the passes in front of it, too, see index_making.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"

namespace coxswain::data {

class PartReaders;  // index_pass.h

struct IndexOptions {
  // Called now and then, after some bytes: how many of how many.
  std::function<void(int64_t done, int64_t all)> progress;
  // Where there are any, they read data sets of at least so many bytes, in parts of about so many.
  PartReaders* workers = nullptr;
  int64_t least_bytes = int64_t{64} << 20;
  int64_t part_bytes = int64_t{16} << 20;
  // Of the index as a message, which each worker gets; Protobuf has none of 2 GiB.
  int64_t most_bytes = int64_t{1} << 30;
  // While no part comes, so long for the one that all wait for, and what its bytes take at 1 MiB/s.
  absl::Duration patience = absl::Minutes(5);
};

// What identifies the spec of an index: all that it depends on but the files.
uint64_t IndexKey(const proto::DatasetSpec& spec);
// The files of DatasetIndex.files: those of the rows, then those of vocabularies.
std::vector<std::string> IndexedPaths(const proto::DatasetSpec& spec);

class IndexDraft;  // index_draft.h

// Reads the rows of a checked spec in this process, one after the other, into a draft of the same
// spec that has started. Errors: as BuildIndex.
absl::Status ReadHere(const proto::DatasetSpec& spec, const IndexOptions& options,
                      IndexDraft* draft);

// Reads the files of a spec that CheckSpec returned and that can be streamed. Memory: a few blocks,
// and the vocabularies that are learned.
// Errors: those of ReadTable; ResourceExhausted for a vocabulary that does not fit into
// StreamOptions.memory or makes the index too large, and for a shuffle_window that does not fit;
// FailedPrecondition when a file changes meanwhile.
absl::StatusOr<proto::DatasetIndex> BuildIndex(const proto::DatasetSpec& spec,
                                               const IndexOptions& options = {});

}  // namespace coxswain::data
