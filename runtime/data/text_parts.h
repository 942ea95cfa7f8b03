// Which places of a text are trained on, and which are held out.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/data/ticket.h"

namespace coxswain {

// Consecutive places of a text stay together when its order is drawn: they share words, and so
// rows.
inline constexpr int64_t kTextBlock = 64;

// The validation part is runs of places, drawn by the seed: neighbours are in one part, so that few
// pairs are lost where a part ends. A part's places have numbers in their order. Thread model: a
// value that does not change.
class TextParts {
 public:
  static constexpr int64_t kRun = 16 * kTextBlock;

  TextParts() = default;
  // `fraction` >= 0 of the runs, to the nearest, at least one when it is not 0.
  // Errors: InvalidArgument when that would leave nothing to train on.
  static absl::StatusOr<TextParts> Draw(int64_t places, double fraction, uint64_t seed);

  int64_t places(Part part) const {
    if (part == Part::kTest) return 0;
    return part == Part::kTraining ? all_ - held_out_ : held_out_;
  }
  // The place of number [0, places(part)) in its part.
  int64_t Place(Part part, int64_t number) const {
    if (held_out_ == 0) return number;
    const std::vector<uint32_t>& runs = part == Part::kTraining ? training_ : validation_;
    return int64_t{runs[static_cast<size_t>(number / kRun)]} * kRun + number % kRun;
  }
  Part Of(int64_t place) const {
    const bool out = held_out_ > 0 && is_held_out_[static_cast<size_t>(place / kRun)];
    return out ? Part::kValidation : Part::kTraining;
  }

 private:
  int64_t all_ = 0, held_out_ = 0;
  // Numbers of runs, ascending; empty when nothing is held out. The last run, if it is not a whole
  // one, is trained on.
  std::vector<uint32_t> training_, validation_;
  std::vector<bool> is_held_out_;
};

}  // namespace coxswain
