// A directory for what a benchmark writes.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace coxswain {

// It goes away with the object.
class Scratch {
 public:
  // In `parent`; empty: in the system's temporary directory.
  absl::Status Make(const std::string& parent) {
    std::error_code error;
    const std::filesystem::path base = parent.empty() ? std::filesystem::temp_directory_path(error)
                                                      : std::filesystem::path(parent);
    std::string name = (std::filesystem::absolute(base, error) / "coxswain-bench-XXXXXX").string();
    if (error || mkdtemp(name.data()) == nullptr) {
      return absl::InternalError(absl::StrCat("cannot make a directory in ", base.string()));
    }
    path_ = name;
    return absl::OkStatus();
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace coxswain
