// Reading a directory that another process may replace as a whole meanwhile: files of two versions
// must not be taken for one.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace coxswain::model {

// Which file it is; empty where there is none. A file that is renamed into its place is another.
inline std::string FileIdentity(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0) return "";
  return absl::StrCat(path, " ", file.st_dev, ".", file.st_ino, ".", file.st_size, ".",
                      file.st_mtim.tv_sec, ".", file.st_mtim.tv_nsec);
}

// That of each file in a directory: whether something of it was put right, or has arrived.
inline std::string FilesIdentity(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;  // one that goes meanwhile has no identity
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    files.push_back(FileIdentity(at->path().string()));
  }
  std::sort(files.begin(), files.end());
  return absl::StrJoin(files, "\n");
}

inline absl::Status ReplacedError(const std::string& directory) {
  return absl::UnavailableError(
      absl::StrCat(directory, ": was replaced while it was read; try again"));
}

// Calls `read`, which returns a StatusOr, and once more, up to three times in all, where the
// manifest is another file after it: what was read, also an error, may be of both. Errors: those of
// `read`; Unavailable.
template <typename Read>
auto ReadUnreplaced(const std::string& directory, const std::string& manifest, const Read& read)
    -> decltype(read()) {
  const std::string path = absl::StrCat(directory, "/", manifest);
  for (int attempt = 0; attempt < 3; ++attempt) {
    const std::string before = FileIdentity(path);
    auto result = read();
    if (FileIdentity(path) == before) return result;
  }
  return ReplacedError(directory);
}

}  // namespace coxswain::model
