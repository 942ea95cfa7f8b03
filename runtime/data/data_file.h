// A file of data, wherever it is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::data {

// Some bytes of a file.
struct ByteRange {
  int64_t offset = 0, bytes = 0;
  bool operator==(const ByteRange&) const = default;
};

// A file of this machine, or one of an object store. Errors: those of RandomAccessFile::Open and of
// OpenRemoteFile.
absl::StatusOr<std::unique_ptr<env::RandomAccessFile>> OpenDataFile(const std::string& path);

// Whether the file is gone, or has another number of bytes; false where that cannot be told.
bool IsOfOtherSize(const std::string& path, int64_t bytes);

}  // namespace coxswain::data
