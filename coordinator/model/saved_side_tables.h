// The tables that a job joins (dataset.join), kept with its model: rows that are predicted get
// their columns from these, wherever the model is. joined/0.csv, joined/1.csv.gz, ...
//
// A job that follows joins each epoch with the tables of its time. So the inputs beside its
// checkpoints have those of several, joined/VERSION/0.csv, and each checkpoint names its own.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/model/saved_manifest.h"
#include "nlohmann/json.hpp"
#include "protos/dataset.pb.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/data/dataset.h"
#include "runtime/env/file_system.h"

namespace coxswain::model {

// The key, in a checkpoint's state of a job and in inputs.json, of the version that is meant.
inline constexpr char kSideTables[] = "side_tables";

// Writes those of `data`, as they were when its rows were read; `version`: among others. Errors:
// those of the file system.
absl::Status WriteSideTables(const data::Dataset& data, const proto::DatasetSpec& spec,
                             const std::string& version, env::FileSystem* files,
                             const std::string& directory);

// The spec joins the model's tables; `version`: those, or, when it is empty, the only ones. A model
// that was saved without them leaves it as it is. Errors: FailedPrecondition where a version is not
// there.
absl::Status UseSavedSideTables(const std::string& directory, const std::string& version,
                                proto::DatasetSpec* spec);

// The same of a saved model or inputs, whose files are held against their checksums; an empty
// version is the one that the manifest names. The paths are absolute: workers may run in other
// directories. Errors: also those of ReadModelManifest and CheckModelFiles.
absl::Status JoinKeptSideTables(const std::string& directory, const ManifestKind& kind,
                                std::string version, proto::DatasetSpec* spec);

// The version that a checkpoint was written with, or that inputs.json names; empty: there is but
// one.
std::string SideTablesOf(const checkpoint::Manifest& checkpoint);
std::string SideTablesOf(const nlohmann::json& manifest);

// The versions that are kept in a directory; the folder of one, with a '/' at its end; and the file
// of a join's table, which was `path`. All are relative to the directory.
std::vector<std::string> SideTableVersions(env::FileSystem* files, const std::string& directory);
std::string SideTableFolder(const std::string& version);
std::string SideTableFile(const std::string& version, int join, const std::string& path);

}  // namespace coxswain::model
