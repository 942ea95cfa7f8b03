// Where a worker looks for the files of a data set.
#pragma once

#include "absl/status/status.h"
#include "protos/dataset.pb.h"
#include "runtime/env/roots.h"

namespace coxswain::worker {

// The paths of the data set as they are read. Errors: those of Roots::Resolve.
absl::Status ResolvePaths(const env::Roots& roots, proto::DatasetSpec* spec);

}  // namespace coxswain::worker
