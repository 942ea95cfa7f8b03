// A job that trains in this process and writes checkpoints when it is told to, for those who follow
// it.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/model.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/saved_model.h"
#include "coxswain/checkpoint.h"
#include "runtime/data/dataset_options.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain {

class TrainingJob {
 public:
  // `text`: of JOB.yaml; its files are in `files`.
  TrainingJob(const DataFiles& files, const std::string& text, int keep = 3, int ps = 2)
      : text_(text),
        directory_(files.Path("checkpoints")),
        job_(testing::Must(job::ParseKeptJob(text, files.Path("job.yaml"), files.Path("")))),
        cluster_(testing::MustStart(ps, 1, 1)),
        checkpoints_(OptionsFor(directory_, job_.name, keep)),
        strategy_(cluster_, {.ema_decay = job_.train.ema ? job_.train.ema->decay : 0}) {
    using testing::Must;
    data::DatasetOptions options;
    options.spec = job_.dataset;
    options.batch_size = job_.train.batch_size;
    options.epochs = 1000;
    dataset_ = std::make_unique<PerWorkerDataset>(Must(strategy_.CreatePerWorkerDataset(options)));
    model_ = Must(model::Model::Create(&strategy_, job_, *dataset_));
    coordinator_ = std::make_unique<ClusterCoordinator>(strategy_);
    step_ = std::make_unique<RemoteFunction>(Must(model_->DefineTrain()));
    Must(checkpoints_.Start(cluster_, [this] {
      return absl::StrCat("{\"data_fingerprint\": ", dataset_->data().fingerprint(), "}");
    }));
  }

  const std::string& directory() const { return directory_; }
  int64_t steps() const { return steps_; }
  ParameterServerStrategy* strategy() { return &strategy_; }
  void SaveInputs() {
    testing::Must(model::SaveInputs(dataset_->data(), job_, Info(), directory_));
  }
  // Trains, and writes a checkpoint.
  void Steps(int64_t n) {
    for (int64_t i = 0; i < n; ++i, ++steps_) {
      coordinator_->Schedule(*step_, *dataset_->NextTicket());
    }
    testing::Must(coordinator_->Join());
    testing::Must(checkpoints_.Save());
  }
  // As `train --model-dir` does, with --model-slots; returns the directory.
  std::string Save(const std::string& directory, bool slots = false) {
    model::SavedModelInfo info = Info();
    info.slots = slots;
    testing::Must(model::SaveModel(&strategy_, dataset_->data(), job_, info, directory));
    return directory;
  }

 private:
  static CheckpointOptions OptionsFor(const std::string& directory, const std::string& job,
                                      int keep) {
    CheckpointOptions options;
    options.directory = directory;
    options.job = job;
    options.every = absl::ZeroDuration();  // only by Save
    options.keep = keep;
    options.max_delta_share = 10;
    options.rebalance = false;
    return options;
  }
  model::SavedModelInfo Info() const {
    model::SavedModelInfo info;
    info.job_text = text_;
    info.job_file = "job.yaml";
    info.steps = steps_;
    return info;
  }

  const std::string text_, directory_;
  const job::JobSpec job_;
  Cluster cluster_;
  CheckpointManager checkpoints_;
  ParameterServerStrategy strategy_;
  std::unique_ptr<PerWorkerDataset> dataset_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<ClusterCoordinator> coordinator_;
  std::unique_ptr<RemoteFunction> step_;
  int64_t steps_ = 0;
};

}  // namespace coxswain
