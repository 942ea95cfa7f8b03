#include "coordinator/core/step_pause.h"

#include <utility>

namespace coxswain::core {

bool StepPause::Want(DoneFn done) {
  const bool begins = !pause_.has_value();
  if (begins) pause_ = Pause{++turns_, false, {}};
  pause_->waiting.push_back(std::move(done));
  return begins;
}

std::optional<StepPause::Turn> StepPause::Write() {
  if (!pause_ || pause_->writing) return std::nullopt;
  pause_->writing = true;
  return Turn{pause_->number, std::exchange(pause_->waiting, {})};
}

StepPause::Next StepPause::Over(uint64_t turn) {
  if (!pause_ || pause_->number != turn) return Next::kNothing;
  if (pause_->waiting.empty()) {
    pause_ = std::nullopt;
    return Next::kStepsGoOn;
  }
  pause_->number = ++turns_;
  pause_->writing = false;
  return Next::kAnother;
}

std::optional<std::vector<StepPause::DoneFn>> StepPause::End() {
  if (!pause_) return std::nullopt;
  return std::exchange(pause_, std::nullopt)->waiting;
}

}  // namespace coxswain::core
