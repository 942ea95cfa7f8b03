// Of a model of several tasks: the sum of the tasks' losses, each times its weight. What they are
// stands with the labels; TaskModel adds them up.
#include "coordinator/model/losses/loss_list.h"

namespace coxswain::model {

const job::LossKind& ByTaskLoss() {
  static constexpr job::LossKind kKind = {.name = "by_task",
                                          .prediction = job::PredictionKind::kTasks,
                                          .read = job::MakeLoss<job::LossSpec>};
  return kKind;
}

}  // namespace coxswain::model
