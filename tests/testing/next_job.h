// A job that begins with what another one has left (coordinator/model/warm_start.h).
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "coordinator/job/job_parser.h"
#include "coordinator/model/model.h"
#include "coordinator/model/warm_start.h"
#include "coxswain/checkpoint.h"
#include "runtime/data/dataset_options.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain {

// A job that begins with what another one has left, in a cluster of its own.
struct NextJob {
  NextJob(const DataFiles& files, const std::string& text, const model::InitialModel& from,
          int ps = 3)
      : NextJob(files, text, from, testing::MustStart(ps, 1, 1)) {
    const model::WarmSource source =
        testing::Must(model::WarmSource::Open(from, job, dataset.data()));
    model = testing::Must(model::Model::Create(
        &strategy, job, dataset,
        [&source](const VariableInfo& info) { return source.EarlierSteps(info); }));
    taken = testing::Must(source.TakeOver(&strategy));
    Begin();
  }
  // As the job that is interrupted and goes on: it does not know what it began with.
  NextJob(const DataFiles& files, const std::string& text, const std::string& ids,
          CheckpointManager* checkpoints)
      : NextJob(files, text, {.directory = ids}, testing::MustStart(1, 1, 1), checkpoints) {
    model = testing::Must(model::Model::Create(&strategy, job, dataset));
    Begin();
  }

  void Begin() {
    coordinator = std::make_unique<ClusterCoordinator>(strategy);
    step = std::make_unique<RemoteFunction>(testing::Must(model->DefineTrain()));
  }
  void Skip(int64_t batches) {
    while (batches-- > 0) REQUIRE(dataset.NextTicket().has_value());
  }
  // Returns the batch's loss before the step.
  float Step() {
    const RemoteValue value = coordinator->Schedule(*step, *dataset.NextTicket());
    return testing::Must(coordinator->Fetch<float>(value, "loss"));
  }

  job::JobSpec job;
  Cluster cluster;
  ParameterServerStrategy strategy;
  PerWorkerDataset dataset;
  std::unique_ptr<model::Model> model;
  model::WarmStart taken;
  model::EarlierModel earlier;
  std::unique_ptr<ClusterCoordinator> coordinator;
  std::unique_ptr<RemoteFunction> step;

 private:
  NextJob(const DataFiles& files, const std::string& text, const model::InitialModel& from,
          Cluster of, CheckpointManager* checkpoints = nullptr)
      : job(testing::Must(job::ParseKeptJob(text, files.Path("job.yaml"), files.Path("")))),
        cluster(std::move(of)),
        strategy(cluster, {.ema_decay = job.train.ema ? job.train.ema->decay : 0}) {
    earlier = testing::Must(model::KeepIds(from.directory, &job.dataset, from.names));
    if (checkpoints != nullptr) testing::Must(checkpoints->Restore(&strategy));
    data::DatasetOptions options;
    options.spec = job.dataset;
    options.batch_size = job.train.batch_size;
    options.epochs = 1000;
    dataset = testing::Must(strategy.CreatePerWorkerDataset(options));
  }
};

}  // namespace coxswain
