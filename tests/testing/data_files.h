// Small data files for tests, in a directory that goes away with the test.
#pragma once

#include <stdlib.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "absl/strings/string_view.h"

namespace coxswain {

class DataFiles {
 public:
  DataFiles() {
    std::string name = (std::filesystem::temp_directory_path() / "coxswain-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    directory_ = name;
  }
  ~DataFiles() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  DataFiles(const DataFiles&) = delete;
  DataFiles& operator=(const DataFiles&) = delete;

  std::string Path(const std::string& name) const { return (directory_ / name).string(); }

  // Returns the path.
  std::string Write(const std::string& name, absl::string_view content) const {
    std::ofstream(Path(name), std::ios::binary).write(content.data(), content.size());
    return Path(name);
  }
  std::string WriteGzip(const std::string& name, absl::string_view content) const {
    gzFile file = gzopen(Path(name).c_str(), "wb");
    REQUIRE(file != nullptr);
    if (!content.empty()) {
      REQUIRE(gzwrite(file, content.data(), static_cast<unsigned>(content.size())) ==
              static_cast<int>(content.size()));
    }
    REQUIRE(gzclose(file) == Z_OK);
    return Path(name);
  }

 private:
  std::filesystem::path directory_;
};

}  // namespace coxswain
