// The tables that a job joins (dataset.join), kept with its model: rows that are predicted get
// their columns from these, wherever the model is. joined/0.csv, joined/1.csv.gz, ...
#pragma once

#include <string>

#include "absl/status/status.h"
#include "protos/dataset.pb.h"
#include "runtime/env/file_system.h"

namespace coxswain::model {

// Errors: those of the file system.
absl::Status WriteSideTables(const proto::DatasetSpec& spec, env::FileSystem* files,
                             const std::string& directory);

// The spec joins the model's tables. A model that was saved without them leaves it as it is.
void UseSavedSideTables(const std::string& directory, proto::DatasetSpec* spec);

}  // namespace coxswain::model
