// Where the rows of a file begin.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "runtime/data/stream/file_part.h"

namespace coxswain::data {

struct FirstRow {
  bool packed = false;
  // Of a file of lines: what is in front of the first row, its line, and the file's columns.
  int64_t offset = 0;
  int64_t line = 1;
  std::vector<std::string> columns;
};

// Reads a file of a checked spec up to its first row. Errors: those of the format about the file
// and its columns.
absl::StatusOr<FirstRow> FindFirstRow(const proto::DatasetSpec& spec, const std::string& path,
                                      PartFiles* shared);

}  // namespace coxswain::data
