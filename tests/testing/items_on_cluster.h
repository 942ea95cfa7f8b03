// A model of items whose variables and data set are on a cluster, as a job begins.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>

#include "coordinator/job/job_spec.h"
#include "coordinator/model/cluster_variables.h"
#include "coordinator/model/item_model.h"
#include "coordinator/model/model_parts.h"
#include "runtime/data/dataset_options.h"
#include "tests/testing/cluster.h"

namespace coxswain::testing {

// `strategy` and `job` must outlive it.
struct ItemsOnCluster {
  ItemsOnCluster(ParameterServerStrategy* strategy, const job::JobSpec& job, int64_t batch_size,
                 int64_t epochs = 1)
      : dataset(Must(strategy->CreatePerWorkerDataset(Options(job, batch_size, epochs)))),
        variables(strategy),
        parts(&variables, job, dataset.data()),
        model(dynamic_cast<const model::ItemModel&>(*job.model)) {
    Must(parts.CreateTables());
    Must(job.model->CreateVariables(&parts));
  }

  static data::DatasetOptions Options(const job::JobSpec& job, int64_t batch_size, int64_t epochs) {
    data::DatasetOptions options;
    options.spec = job.dataset;
    options.batch_size = batch_size;
    options.epochs = epochs;
    return options;
  }

  PerWorkerDataset dataset;
  model::ClusterVariables variables;
  model::ModelParts parts;
  const model::ItemModel& model;
};

}  // namespace coxswain::testing
