#include "coordinator/sidecar/evaluation_session.h"

#include <optional>
#include <utility>

#include "coordinator/model/as_evaluated.h"
#include "coordinator/model/saved_learned.h"
#include "coordinator/model/saved_model.h"
#include "coordinator/model/saved_reader.h"
#include "runtime/base/status.h"

namespace coxswain::sidecar {

EvaluationSession::EvaluationSession(std::unique_ptr<runner::JobRunner> runner,
                                     model::TrainedOn trained)
    : runner_(std::move(runner)), trained_(std::move(trained)) {}

absl::StatusOr<std::unique_ptr<EvaluationSession>> EvaluationSession::Open(
    const Cluster& cluster, job::JobSpec job, const std::string& inputs) {
  ASSIGN_OR_RETURN(model::TrainedOn trained, model::ReadLearned(inputs, &job.dataset));
  auto runner = std::make_unique<runner::JobRunner>(cluster, model::AsEvaluated(std::move(job)),
                                                    runner::RunEvents{});
  RETURN_IF_ERROR(runner->Prepare());
  return std::unique_ptr<EvaluationSession>(
      new EvaluationSession(std::move(runner), std::move(trained)));
}

absl::StatusOr<runner::Evaluation> EvaluationSession::Evaluate(const std::string& checkpoint) {
  ASSIGN_OR_RETURN(const model::SavedSource saved,
                   model::SavedSource::OpenCheckpoint(checkpoint, std::nullopt));
  RETURN_IF_ERROR(model::LoadVariables(saved, runner_->strategy()));
  return runner_->EvaluatePart(runner_->job().evaluate.part);
}

}  // namespace coxswain::sidecar
