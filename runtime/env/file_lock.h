// Locks on files of the real file system, see FileSystem::Lock.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/env/file_system.h"

namespace coxswain::env {

absl::StatusOr<std::unique_ptr<FileLock>> LockFile(const std::string& path,
                                                   absl::string_view content);
absl::StatusOr<std::unique_ptr<FileLock>> LockNewFile(const std::string& path,
                                                      absl::string_view content);

}  // namespace coxswain::env
