// How a data set gets into memory, or is opened to be streamed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "runtime/data/dataset.h"

namespace coxswain::data {

// Bytes that were read of all, now and then while the index of a large data set is made.
using IndexProgress = std::function<void(int64_t done, int64_t all)>;

class PartReaders;  // stream/index_pass.h

// Dataset::Load for the one that other tasks get the index from. `workers` may read parts of the
// files for it; null: there are none.
absl::StatusOr<std::unique_ptr<Dataset>> LoadDataset(const proto::DatasetSpec& spec,
                                                     uint64_t reader, IndexProgress progress,
                                                     PartReaders* workers = nullptr);

}  // namespace coxswain::data
