// Which places of a text are trained on, and which are held out.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/data/ticket.h"

namespace coxswain::data {

// Consecutive places of a text stay together when its order is drawn: they share words, and so
// rows.
inline constexpr int64_t kTextBlock = 64;
// A text is cut into runs of this number of words, known ones or not; the last may be shorter.
inline constexpr int64_t kTextRun = 16 * kTextBlock;

// Which runs of a text are held out, drawn by the seed and their place alone: of 1 / fraction runs
// in a row one. Thread model: one thread.
class RunDraw {
 public:
  RunDraw(double fraction, uint64_t seed);
  // Fast for runs that ascend.
  bool HeldOut(int64_t run);

 private:
  void DrawGroup();

  const double fraction_;
  const uint64_t key_;
  // Of the runs [begin, end) one is held out.
  int64_t group_ = 0, begin_ = 0, end_ = 0, held_out_ = -1;
};

// Which runs of a text of `words` words are the validation part: of 1 / fraction runs in a row one,
// drawn by the seed and their place alone, so that it stays when text is appended. At least one
// where `fraction` is not 0. Neighbours are in one part, so that few pairs are lost where a part
// ends. The first `kept_words` were a text of their own before, and keep their parts.
// Errors: InvalidArgument when that would leave nothing to train on.
absl::StatusOr<std::vector<bool>> HoldOutRuns(int64_t words, double fraction, uint64_t seed,
                                              int64_t kept_words = 0);

// A place is a word of the vocabulary; a part's places have numbers in their order. Thread model: a
// value that does not change.
class TextParts {
 public:
  TextParts() = default;
  // `begins`: the place where each run begins, and behind the last one how many places there are.
  TextParts(std::vector<uint32_t> begins, std::vector<bool> held_out);

  int64_t places(Part part) const {
    if (part == Part::kTest) return 0;
    return part == Part::kTraining ? all_ - held_out_places_ : held_out_places_;
  }
  // The place of number [0, places(part)) in its part.
  int64_t Place(Part part, int64_t number) const;
  Part Of(int64_t place) const;

 private:
  // Runs of one part that have places.
  struct Run {
    uint32_t number, place;  // of its first place
  };

  int64_t all_ = 0, held_out_places_ = 0;
  // Empty when nothing is held out.
  std::vector<uint32_t> begins_;
  std::vector<bool> held_out_;
  std::vector<Run> training_, validation_;
};

}  // namespace coxswain::data
