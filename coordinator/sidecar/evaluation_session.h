// A cluster with a job's functions, on which its checkpoints are evaluated one after the other. The
// data is read once, by what the job has learned of it.
//
// Thread model: one thread, but for Interrupt.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/saved_learned.h"
#include "coordinator/runner/runner.h"
#include "coxswain/cluster.h"

namespace coxswain::sidecar {

class EvaluationSession {
 public:
  // `inputs`: of the job, see saved_inputs.h. Errors: those of reading the data and of the cluster;
  // FailedPrecondition for inputs of another version; DataLoss.
  static absl::StatusOr<std::unique_ptr<EvaluationSession>> Open(const Cluster& cluster,
                                                                 job::JobSpec job,
                                                                 const std::string& inputs);

  // Reads the values of a checkpoint, in pieces, and measures them on `evaluate.part`.
  // Errors: InvalidArgument, NotFound and DataLoss for a checkpoint that is damaged, or of another
  // job; Cancelled after Interrupt; those of the cluster.
  absl::StatusOr<runner::Evaluation> Evaluate(const std::string& checkpoint);
  // The evaluation that runs, and all later ones, end with Cancelled. From any thread.
  void Interrupt() { runner_->Interrupt(); }

  const runner::JobRunner& runner() const { return *runner_; }
  // What the job is trained on.
  const model::TrainedOn& trained() const { return trained_; }

 private:
  EvaluationSession(std::unique_ptr<runner::JobRunner> runner, model::TrainedOn trained);

  std::unique_ptr<runner::JobRunner> runner_;
  model::TrainedOn trained_;
};

}  // namespace coxswain::sidecar
