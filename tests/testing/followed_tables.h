// The inputs beside the checkpoints of a job that follows, whose joined table is replaced.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/model/saved_side_tables.h"
#include "coordinator/runner/arrivals.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/env/file_system.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::testing {

inline constexpr char kShopJob[] = R"(
name: shop
dataset: {path: rows, cache_directory: cache, join: [{path: items.csv, on: item}]}
features:
  - {name: item, kind: categorical, hash_buckets: 8}
  - {name: price, kind: numeric}
label: {column: y}
model: {kind: logistic_regression}
train: {batch_size: 4}
)";

inline std::string ReadFile(const std::string& path) {
  return Must(env::NewRealFileSystem()->Read(path));
}

// A job that follows, at a directory of checkpoints; each of its tables has one price.
struct FollowedTables {
  FollowedTables() {
    std::filesystem::create_directory(files.Path("rows"));
    job = Must(job::ParseKeptJob(kShopJob, files.Path("job.yaml"), files.Path(""),
                                 {"dataset.follow=true"}));
    info.job_text = kShopJob;
    data = Read(0);
  }
  std::unique_ptr<data::Dataset> Read(int price) const {
    files.Write("items.csv", TableOf(price));
    return MustLoad(runner::SpecBeforeFiles(job.dataset));
  }
  static std::string TableOf(int price) { return absl::StrCat("item,price\na,", price, "\n"); }
  std::string version() const { return data->side_tables().Get()->version; }
  absl::Status Save() const { return model::SaveInputs(*data, job, info, files.Path("saved")); }
  absl::Status Update() const { return model::UpdateSideTables(*data, job, files.Path("saved")); }
  // As an epoch with another table does.
  void Replace(int price) const {
    data->side_tables().Set(Read(price)->side_tables().Get());
    Must(Update());
    const std::string inputs = files.Path("saved/inputs");
    CheckWhole(inputs);
  }
  static void CheckWhole(const std::string& inputs) {
    const auto manifest = Must(model::ReadModelManifest(inputs, model::kSavedInputs));
    Must(model::CheckModelFiles(inputs, manifest, model::kSavedInputs));
  }
  void WriteCheckpoint(uint64_t number) const {
    checkpoint::Manifest manifest = SampleManifest(number);
    manifest.shards.clear();
    manifest.job = job.name;
    manifest.job_state = absl::StrCat("{\"data_fingerprint\": ", data->fingerprint(), ", \"",
                                      model::kSideTables, "\": \"", version(), "\"}");
    const std::string path = files.Path("saved/" + checkpoint::CheckpointName(number));
    std::filesystem::create_directories(path);
    Must(disk->WriteAtomically(path + "/manifest.json", checkpoint::ToJson(manifest)));
  }
  // The table that rows get their prices from; or why there is none.
  std::string TableIn(const std::string& of_version) const {
    return TableIn(files.Path("saved/inputs"), of_version);
  }
  std::string TableIn(const std::string& inputs, const std::string& of_version) const {
    proto::DatasetSpec spec = job.dataset;
    const absl::Status used = model::UseSavedSideTables(inputs, of_version, &spec);
    return used.ok() ? ReadFile(spec.joins(0).path()) : std::string(used.message());
  }

  DataFiles files;
  const std::unique_ptr<env::FileSystem> disk = env::NewRealFileSystem();
  job::JobSpec job;
  model::SavedModelInfo info;
  std::unique_ptr<data::Dataset> data;
};

}  // namespace coxswain::testing
