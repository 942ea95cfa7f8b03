// dlrm trained from a file in Criteo's format that is streamed, shuffled and in the file's order,
// and from a part of it in memory: the shape that other benchmarks have, and a smaller one.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace coxswain {

struct StreamedDlrmOptions {
  double gigabytes = 1;   // of the file
  int rounds = 3;         // of all, by turns
  int64_t steps = 4000;   // of each
  std::string directory;  // of the files
};

// Prints the steps a second of each, and the peak memory of each process; the tables of the
// parameter server are not counted. Returns an entry for each model. Errors: Internal for what
// could not be generated or trained, with its output.
absl::StatusOr<nlohmann::json> MeasureStreamedDlrm(const StreamedDlrmOptions& options);

}  // namespace coxswain
