#include "coordinator/model/as_evaluated.h"

namespace coxswain::model {

void KeepTablesOnHost(job::JobSpec* job) {
  for (job::TableSpec& table : job->tables) table.device = "cpu";
}

job::JobSpec AsEvaluated(job::JobSpec job) {
  const auto without_slots = [](proto::OptimizerSpec* optimizer) {
    optimizer->Clear();
    optimizer->set_kind("sgd");
    optimizer->set_learning_rate(1);
  };
  without_slots(&job.dense_optimizer);
  for (job::TableSpec& table : job.tables) {
    without_slots(&table.optimizer);
    table.rows_file.reset();
    if (!table.hash) continue;
    // The shards here are others than the job's: an even share of its rows might not hold them.
    table.hash->set_max_rows(0);
    table.hash->set_ttl_steps(0);
    table.hash->set_ttl_seconds(0);
  }
  KeepTablesOnHost(&job);
  job.train.consistency = Consistency();
  job.train.early_stopping.reset();
  job.checkpoint.directory.clear();
  return job;
}

}  // namespace coxswain::model
