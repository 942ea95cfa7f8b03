#include "coordinator/sidecar/evaluation_session.h"

#include <optional>
#include <utility>

#include "coordinator/model/saved_learned.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/model/saved_reader.h"
#include "runtime/base/status.h"

namespace coxswain::sidecar {

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
  job.train.consistency = Consistency();
  job.train.early_stopping.reset();
  job.checkpoint.directory.clear();
  return job;
}

EvaluationSession::EvaluationSession(std::unique_ptr<runner::JobRunner> runner)
    : runner_(std::move(runner)) {}

absl::StatusOr<std::unique_ptr<EvaluationSession>> EvaluationSession::Open(
    const Cluster& cluster, job::JobSpec job, const std::string& inputs) {
  RETURN_IF_ERROR(model::ReadLearned(inputs, &job.dataset).status());
  auto runner = std::make_unique<runner::JobRunner>(cluster, AsEvaluated(std::move(job)),
                                                    runner::RunEvents{});
  RETURN_IF_ERROR(runner->Prepare());
  return std::unique_ptr<EvaluationSession>(new EvaluationSession(std::move(runner)));
}

absl::StatusOr<runner::Evaluation> EvaluationSession::Evaluate(const std::string& checkpoint) {
  ASSIGN_OR_RETURN(const model::SavedSource saved,
                   model::SavedSource::OpenCheckpoint(checkpoint, std::nullopt));
  RETURN_IF_ERROR(model::LoadVariables(saved, runner_->strategy()));
  return runner_->EvaluatePart(runner_->job().evaluate.part);
}

}  // namespace coxswain::sidecar
