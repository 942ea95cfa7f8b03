// Files that Apache Arrow reads, for tests: written by a program of tests/arrow from CSV.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/data/arrow/arrow_file.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"
#include "tests/testing/paths.h"
#include "tests/testing/process.h"

namespace coxswain {

// False, with a warning, where there is no plugin: the test has nothing to test then. With
// COXSWAIN_REQUIRE_ARROW, which CTest sets where the plugin is built, that fails the test.
inline bool HasArrow() {
  const auto api = data::LoadArrowPlugin();
  if (!api.ok() && std::getenv("COXSWAIN_REQUIRE_ARROW") != nullptr) {
    FAIL("COXSWAIN_REQUIRE_ARROW is set: " << api.status().message());
  }
  if (!api.ok()) WARN("skipped, without Apache Arrow: " << api.status().message());
  return api.ok();
}

inline std::string ArrowProgram(const std::string& name) {
  return std::string(COXSWAIN_BINARY_DIR "/bin/") + name;
}

// The CSV file as NAME.parquet; `columns` are NAME:TYPE, see tests/arrow/arrow_files.cc, and may
// begin with "plain". Returns the path.
inline std::string WriteParquet(const DataFiles& files, const std::string& csv,
                                const std::string& name, int rows_per_group,
                                const std::vector<std::string>& columns) {
  std::vector<std::string> command = {ArrowProgram("arrow_files"), csv, files.Path(name),
                                      std::to_string(rows_per_group)};
  command.insert(command.end(), columns.begin(), columns.end());
  const Process::Result result = Run(command);
  INFO(result.err);
  REQUIRE(result.code == 0);
  return files.Path(name);
}

inline proto::DatasetSpec ParquetSpec(const std::string& path) {
  proto::DatasetSpec spec;
  spec.set_format("parquet");
  spec.add_paths(path);
  return spec;
}

}  // namespace coxswain
