// Checks of the directory for a saved model: whether it may be replaced, and whether saving will be
// possible.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/model/saved_manifest.h"
#include "runtime/env/file_system.h"

namespace coxswain::model {

// The files that belong to the model (or the inputs) in a directory, relative to it; empty when
// there is none.
std::set<std::string> FilesOfModel(env::FileSystem* files, const std::string& directory,
                                   const ManifestKind& kind = kSavedModel);

// The absolute path of the directory; for a link, that of its target. Errors: InvalidArgument for a
// link to nothing.
absl::StatusOr<std::string> ResolveModelDirectory(const std::string& directory);

// Whether a saved model (or inputs) may replace `directory`: it must not exist, be an empty
// directory, or hold a saved model (or inputs) and nothing else. Errors: FailedPrecondition, naming
// another file in it.
absl::Status CheckReplaceable(const std::string& directory, const ManifestKind& kind = kSavedModel);

// Whether a save of a model or of inputs makes a file of this name, relative to its directory; also
// of one that it was killed over.
bool IsSavedFile(const std::string& name);

// Before training: whether a model of about `bytes` (0: not known) can be saved there afterwards.
// Tries the operations of saving (a directory and a file beside it, and the rename) and removes all
// traces. Errors: as CheckReplaceable; FailedPrecondition for the working directory or one above
// it, and for a mount point; ResourceExhausted when there is not enough space; PermissionDenied.
absl::Status CheckCanSave(const std::string& directory, int64_t bytes);

}  // namespace coxswain::model
