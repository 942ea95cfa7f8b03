// Writes planted data to a file, with a sidecar that says what the truth scores.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/generate/planted_data.h"
#include "runtime/env/compute_pool.h"
#include "runtime/env/file_system.h"

namespace coxswain::generate {

// Where the truth is told of the data in `path`.
inline std::string TruthPath(const std::string& path) { return path + ".truth.json"; }

struct GenerateOptions {
  std::string path;  // gzip when it ends in ".gz"
  int64_t rows = 0;
  bool force = false;  // replaces what is there
  // Called after each part with the rows so far; false ends it.
  std::function<bool(int64_t rows)> progress = nullptr;
};

struct Generated {
  Truth truth;
  int64_t bytes = 0;       // of the file
  std::string truth_path;  // TruthPath(path)
};

// Rows are made in parts on the pool and written in order, so that the file depends neither on its
// threads nor on memory. It appears under its name when it is whole; what was begun is removed.
// Errors: AlreadyExists (cause kConfiguration) without `force`; Cancelled when `progress` says so;
// those of the file system, ResourceExhausted for a full disk among them.
absl::StatusOr<Generated> Generate(const PlantedData& data, const GenerateOptions& options,
                                   env::ComputePool* pool, env::FileSystem* files);

}  // namespace coxswain::generate
