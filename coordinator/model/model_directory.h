// Where a model is saved: what may be replaced there, and whether it will be possible.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/model/saved_manifest.h"

namespace coxswain::model {

// The directory that is meant: absolute, of a link what it leads to.
// Errors: InvalidArgument for a link to nothing.
absl::StatusOr<std::string> ResolveModelDirectory(const std::string& directory);

// Whether a saved model (or inputs) may take the place of what is there: nothing, an empty
// directory, or a saved model (inputs) and nothing beside it.
// Errors: FailedPrecondition, naming the file that is something else.
absl::Status CheckReplaceable(const std::string& directory, const ManifestKind& kind = kSavedModel);

// Before training: whether a model of about `bytes` (0: not known) can be saved there after it.
// Tries what saving does, a directory and a file beside it and the rename, and leaves nothing.
// Errors: as CheckReplaceable; FailedPrecondition for the working directory or one above it, and
// for a mount point; ResourceExhausted where the room does not suffice; PermissionDenied.
absl::Status CheckCanSave(const std::string& directory, int64_t bytes);

}  // namespace coxswain::model
