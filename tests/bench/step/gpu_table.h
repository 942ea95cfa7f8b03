// Rows a second that a parameter server finds and gathers in a table in the memory of a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/device_runtime.h"

namespace coxswain {

struct GpuTableBench {
  int64_t rows = int64_t{1} << 22;  // of all shards
  int64_t dim = 64;
  int64_t ids = int64_t{1} << 17;  // of a lookup, all of them different
  int shards = 4;                  // the most, with a thread for each
  double seconds = 1;              // of each figure
};

struct GpuTableFigures {
  bool hash = false;
  int shards = 1;
  double rows_per_second = 0;
  // The gather alone, by row numbers that are in the GPU's memory already.
  double gather_rows_per_second = 0;
  double copy_gbps = 0;  // of a copy in the GPU's memory, read and written

  // Each row read and written, and its number read, at the rate of a copy.
  double floor_rows_per_second(const GpuTableBench& bench) const;
};

// Tables with rows and slots of Adagrad, with numbered rows and hash tables, a single shard and as
// many as asked for, each worked on by a thread of its own. Ids come from the host and rows go to
// the GPU's memory, as for a worker in the same process; a few lookups are under way at a time.
// Errors: those of the device.
absl::StatusOr<std::vector<GpuTableFigures>> MeasureGpuTables(
    const std::shared_ptr<device::DeviceRuntime>& device, const GpuTableBench& bench);

std::string GpuTableText(const GpuTableBench& bench, const std::vector<GpuTableFigures>& all);
std::string GpuTableJson(const GpuTableBench& bench, const std::vector<GpuTableFigures>& all);

}  // namespace coxswain
