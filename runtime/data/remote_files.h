// Files in object stores, "s3://bucket/key", by Apache Arrow's plugin (runtime/data/arrow).
//
// Every call waits for the network. Errors: NotFound for what is not there; PermissionDenied;
// Unavailable when the store does not answer in time, or fails again and again; those of
// LoadArrowPlugin. Messages name the address. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::data {

// The files of an address, as ListFiles has them of a path: of the file, the directory or the
// pattern that it is.
absl::StatusOr<std::vector<std::string>> ListRemoteFiles(const std::string& address);

struct RemoteEntry {
  std::string address;
  bool is_directory = false;
  int64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970; 0: not known. Of an open file it may have no fractions
};
// What is at an address; nothing where nothing is.
absl::StatusOr<std::optional<RemoteEntry>> FindRemote(const std::string& address);
// The files in a directory, sorted by name, but for those whose names begin with '.' or '_'.
// NotFound: there is none, for a directory without any object does not exist.
absl::StatusOr<std::vector<RemoteEntry>> ListRemoteDirectory(const std::string& directory);

struct RemoteFile {
  std::unique_ptr<env::RandomAccessFile> file;
  std::string tag;  // another one when the content is (S3's ETag); empty where it is not known
};
absl::StatusOr<RemoteFile> OpenRemoteFile(const std::string& address);

}  // namespace coxswain::data
