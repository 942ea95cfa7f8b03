// The pauses of synchronous steps in which checkpoints are written: no step begins from when one is
// wanted until it is written, and it is not begun before the steps under way are over. Does no I/O.
// Owned by the coordinator's loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/checkpoint/manifest.h"

namespace coxswain::core {

class StepPause {
 public:
  using DoneFn = std::function<void(absl::StatusOr<checkpoint::Manifest>)>;

  // Whether no step begins.
  bool on() const { return pause_.has_value(); }

  // A checkpoint is wanted, and `done` waits for it; it may be null. True: a pause begins.
  bool Want(DoneFn done);

  // A checkpoint, and who waits for it.
  struct Turn {
    uint64_t number = 0;
    std::vector<DoneFn> waiting;
  };
  // No step is under way: what is to be written now. Nullopt: nothing is wanted, or it is being
  // written.
  std::optional<Turn> Write();
  bool IsWriting(uint64_t turn) const {
    return pause_ && pause_->number == turn && pause_->writing;
  }

  enum class Next : uint8_t {
    kNothing,    // that pause has ended before
    kStepsGoOn,  // the pause is over
    kAnother     // is wanted since: Write has a turn
  };
  // It was written, or failed, and those who waited for it were told.
  Next Over(uint64_t turn);

  // The pause ends at once. Returns those who wait for a turn that has not come; nullopt: there was
  // no pause.
  std::optional<std::vector<DoneFn>> End();

 private:
  struct Pause {
    uint64_t number = 0;
    bool writing = false;
    std::vector<DoneFn> waiting;  // for the next turn
  };
  std::optional<Pause> pause_;
  uint64_t turns_ = 0;
};

}  // namespace coxswain::core
