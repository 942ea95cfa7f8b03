// The learning rates of a job that makes them smaller (train.reduce_on_plateau): which ones come
// next, and which ones the steps of a checkpoint have that did not run yet.
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "coordinator/runner/arrivals.h"
#include "coordinator/runner/runner.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"

namespace coxswain::runner {

double RateFactorAt(const RunState& state, const DataPosition& at) {
  if (state.rate_changes.empty()) return state.plateau.factor;
  double factor = 1;
  for (const RateChange& change : state.rate_changes) {
    if (!(at < change.from)) factor = change.factor;
  }
  return factor;
}

void JobRunner::JudgeRates(const Evaluation& evaluation, Plateau* plateau) const {
  if (!job_.train.reduce_on_plateau) return;
  const job::ReduceOnPlateau& rule = *job_.train.reduce_on_plateau;
  const std::optional<double> score = ScoreOf(evaluation, rule.metric);
  if (!score) return;
  // As for early stopping: while there was no other, nothing is known to have been better.
  if (std::isnan(*score) && !plateau->best) return;
  const bool best = !plateau->best || *score > *plateau->best + rule.min_delta;
  if (best && !std::isnan(*score)) {
    plateau->best = *score;
    plateau->best_of = ScoreName(rule.metric);
    plateau->evaluations_without_gain = 0;
    return;
  }
  if (++plateau->evaluations_without_gain < rule.patience) return;
  plateau->evaluations_without_gain = 0;
  // Products are rounded: four times 0.1 is slightly more than 0.0001. A job that was resumed with
  // a larger min_factor keeps what it has.
  constexpr double kRounding = 1e-9;
  const double least = rule.min_factor * (1 + kRounding);
  if (plateau->factor <= least) return;
  const double smaller = plateau->factor * rule.factor;
  plateau->factor = smaller <= least ? rule.min_factor : smaller;
}

// Nothing trains now, and what a lost parameter server takes back runs again by the function that
// it was scheduled with. So each step has the rate that was right when it was scheduled.
absl::Status JobRunner::UseRates() {
  const double factor = tracker_->state().plateau.factor;
  strategy_.set_learning_rate_factor(factor);
  train_.reset();
  if (follows()) {
    // The rest of this epoch, if there is any; a later one's function is defined when it begins.
    epochs_.arrivals->DefineAgain();
    ASSIGN_OR_RETURN(const RemoteFunction* train,
                     epochs_.arrivals->TrainFunction(model_.get(), next_.epoch));
    if (train != nullptr) train_ = *train;
  }
  RETURN_IF_ERROR(TrainFunction().status());
  if (events_.on_rate) events_.on_rate(factor);
  return absl::OkStatus();
}

// A checkpoint that was being written while the rates became smaller has steps from before.
absl::StatusOr<std::vector<RemoteValue>> JobRunner::RunPending(ClusterCoordinator* coordinator) {
  const RunState state = tracker_->state();
  // By factor and epoch. A function stays without its handle as long as closures may need it.
  std::map<std::pair<double, int64_t>, std::optional<RemoteFunction>> earlier;
  const auto find =
      [&](const checkpoint::CheckpointClosure& closure) -> absl::StatusOr<const RemoteFunction*> {
    if (!follows() && closure.function != train_->name()) return nullptr;
    const double factor =
        RateFactorAt(state, DataPosition{closure.ticket.epoch, closure.ticket.begin});
    if (factor != state.plateau.factor) {
      const int64_t epoch = follows() ? closure.ticket.epoch : 0;
      std::optional<RemoteFunction>& function = earlier[{factor, epoch}];
      if (!function) {
        ASSIGN_OR_RETURN(function, DefineWithRate(factor, epoch));
      }
      return function ? &*function : nullptr;
    }
    if (!follows()) return &*train_;
    return epochs_.arrivals->TrainFunction(model_.get(), closure.ticket.epoch);
  };
  return checkpoints_->RunPendingBy(coordinator, find);
}

absl::StatusOr<std::optional<RemoteFunction>> JobRunner::DefineWithRate(double factor,
                                                                        int64_t epoch) {
  strategy_.set_learning_rate_factor(factor);
  absl::StatusOr<std::optional<RemoteFunction>> made =
      follows() ? epochs_.arrivals->Define(model_.get(), epoch) : model_->DefineTrain();
  strategy_.set_learning_rate_factor(tracker_->state().plateau.factor);
  return made;
}

}  // namespace coxswain::runner
