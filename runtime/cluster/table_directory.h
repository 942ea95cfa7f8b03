// The directory in which a parameter server has the rows of tables that are to be on disk.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace coxswain::cluster {

// For processes without an option for it. Not set, or set to nothing: there is none.
inline constexpr char kTableDirectoryVariable[] = "COXSWAIN_TABLE_DIR";
std::string WantedTableDirectory();

// Whether this directory can have files of rows; OK for "". Errors: those of env::OpenUnnamedFile
// and SetAside.
absl::Status CheckTableDirectory(const std::string& directory);

}  // namespace coxswain::cluster
