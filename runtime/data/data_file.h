// A file of data, wherever it is.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::data {

// A file of this machine, or one of an object store. Errors: those of RandomAccessFile::Open and of
// OpenRemoteFile.
absl::StatusOr<std::unique_ptr<env::RandomAccessFile>> OpenDataFile(const std::string& path);

}  // namespace coxswain::data
