// The model of `step talk`, saved without training: a user and an item table of 64 numbers a row
// and the layers 256-128-64-1.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/model.h"
#include "coordinator/model/saved_model.h"
#include "coxswain/cluster.h"
#include "runtime/base/status.h"
#include "runtime/data/dataset_options.h"

namespace coxswain {

inline void WriteTalkRows(const std::string& path, int64_t rows) {
  std::ofstream file(path);
  std::mt19937_64 random(1);
  file << "user,item,clicked\n";
  for (int64_t i = 0; i < rows; ++i) {
    file << "u" << random() % 5000000 << ",i" << random() % 5000000 << "," << random() % 2 << "\n";
  }
}

// The first values of the model: what is predicted does not depend on what they are.
inline absl::Status SaveTalkModel(const std::filesystem::path& folder, int64_t table_rows) {
  WriteTalkRows((folder / "train.csv").string(), 100);
  const std::string text =
      absl::StrCat("name: talk\ndataset: {path: train.csv}\nfeatures:\n",
                   "  - {name: user, kind: categorical, hash_buckets: ", table_rows, ", dim: 64}\n",
                   "  - {name: item, kind: categorical, hash_buckets: ", table_rows, ", dim: 64}\n",
                   "label: {column: clicked}\nmodel: {kind: mlp, hidden: [256, 128, 64]}\n");
  ASSIGN_OR_RETURN(const job::JobSpec job, job::ParseKeptJob(text, "job.yaml", folder.string()));
  ASSIGN_OR_RETURN(Cluster cluster, Cluster::InProcess(1, 1));
  ParameterServerStrategy strategy(cluster);
  data::DatasetOptions options;
  options.spec = job.dataset;
  options.batch_size = 64;
  options.epochs = 1;
  ASSIGN_OR_RETURN(const PerWorkerDataset dataset, strategy.CreatePerWorkerDataset(options));
  ASSIGN_OR_RETURN(const auto model, model::Model::Create(&strategy, job, dataset));
  model::SavedModelInfo info;
  info.job_text = text;
  info.job_file = (folder / "job.yaml").string();
  return model::SaveModel(&strategy, dataset.data(), job, info, (folder / "model").string());
}

}  // namespace coxswain
