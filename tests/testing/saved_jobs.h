// A job that is trained for a few steps in this process and saved, with what its evaluation says of
// every row of its test file.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "coordinator/job/job_parser.h"
#include "coordinator/model/model.h"
#include "coordinator/model/saved_model.h"
#include "runtime/data/dataset_options.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain {

struct SavedJob {
  std::string directory;           // of the model
  std::vector<float> predictions;  // the evaluation's first result, of the test part in its order
};

// `text`: of JOB.yaml; its files are in `files`, as are the model's.
inline SavedJob TrainAndSave(const DataFiles& files, const std::string& text, int64_t epochs = 3,
                             int ps = 2) {
  using testing::Must;
  const job::JobSpec job = Must(job::ParseKeptJob(text, files.Path("job.yaml"), files.Path("")));
  ParameterServerStrategy strategy(testing::MustStart(ps, 1, 1));
  data::DatasetOptions options;
  options.spec = job.dataset;
  options.batch_size = job.train.batch_size;
  options.epochs = epochs;
  PerWorkerDataset dataset = Must(strategy.CreatePerWorkerDataset(options));
  const auto model = Must(model::Model::Create(&strategy, job, dataset));
  ClusterCoordinator coordinator(strategy);
  const RemoteFunction step = Must(model->DefineTrain());
  while (const auto ticket = dataset.NextTicket()) coordinator.Schedule(step, *ticket);
  REQUIRE(coordinator.Join().ok());
  SavedJob saved;
  const RemoteFunction evaluate = Must(model->DefineEvaluate(Part::kTest));
  for (const Ticket& ticket : dataset.Tickets(Part::kTest, 64)) {
    const auto results = Must(coordinator.Schedule(evaluate, ticket).Get());
    if (results[0].dtype() != DType::kF32) continue;
    const auto values = results[0].values<float>();
    saved.predictions.insert(saved.predictions.end(), values.begin(), values.end());
  }
  saved.directory = files.Path("model");
  model::SavedModelInfo info;
  info.job_text = text;
  info.job_file = files.Path("job.yaml");
  const absl::Status written =
      model::SaveModel(&strategy, dataset.data(), job, info, saved.directory);
  INFO(written.message());
  REQUIRE(written.ok());
  return saved;
}

}  // namespace coxswain
