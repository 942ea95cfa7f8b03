// What a file was when it was indexed, and whether it still is.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/dataset_index.pb.h"

namespace coxswain::data {

// Size, time of the last change, and a hash of pieces of the content: of all of a small file, of a
// few dozen pages of a large one; of an object store, the hash that the store has. Errors: those of
// OpenDataFile.
absl::StatusOr<proto::IndexedFile> IdentifyFile(const std::string& path);

// The time of the last change, as in IndexedFile.modified_ns. Errors: NotFound; those of stat.
absl::StatusOr<int64_t> ModifiedNs(const std::string& path);

// Whether the file is the one that was indexed; on another machine (`same_machine` false) the time
// says nothing. Errors: FailedPrecondition "ratings.csv: changed since it was indexed: wanted ...,
// found ..."; those of IdentifyFile.
absl::Status CheckUnchanged(const std::string& path, const proto::IndexedFile& indexed,
                            bool same_machine);

// The error of a file that has other bytes or another size than it had.
absl::Status ChangedError(const std::string& path, const proto::IndexedFile& indexed);
// Whether the error is one of these, also where a worker has sent it.
bool IsChangedError(const absl::Status& status);

}  // namespace coxswain::data
