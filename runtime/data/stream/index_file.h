// Indexes of data sets as files of a cache directory: made once, and used again while the files of
// the data set are the same.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/stream/index_builder.h"
#include "runtime/env/file_system.h"

namespace coxswain::data {

// Where the index of a checked spec is, in StreamOptions.cache_directory or the user's own
// ($XDG_CACHE_HOME/coxswain, ~/.cache/coxswain); empty where there is no such directory.
std::string IndexPath(const proto::DatasetSpec& spec);

absl::Status WriteIndex(env::FileSystem* files, const std::string& path,
                        const proto::DatasetIndex& index);
// Errors: NotFound; DataLoss for a file that is damaged.
absl::StatusOr<proto::DatasetIndex> ReadIndex(env::FileSystem* files, const std::string& path);

// The index is of this spec, and its files are as they were; on another machine (`same_machine`
// false) those of blocks in object stores are left to who reads the blocks, see checked_files.h.
// Errors: FailedPrecondition; those of CheckUnchanged.
absl::Status CheckIndex(const proto::DatasetSpec& spec, const proto::DatasetIndex& index,
                        bool same_machine);

// Removes the saved index of a checked spec, which reading has shown to be of other content. False:
// there is none.
bool RemoveIndex(const proto::DatasetSpec& spec, env::FileSystem* files);

// What of an index a worker needs; null for none.
std::shared_ptr<const proto::DatasetIndex> ForWorkers(
    const std::shared_ptr<const proto::DatasetIndex>& index);

// The index of a checked spec that can be streamed: the saved one where it still fits, else a new
// one, which is saved. That it cannot be saved is logged and no error. Errors: those of BuildIndex.
absl::StatusOr<std::shared_ptr<const proto::DatasetIndex>> FindOrMakeIndex(
    const proto::DatasetSpec& spec, env::FileSystem* files, const IndexOptions& options = {});

}  // namespace coxswain::data
