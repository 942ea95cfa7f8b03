#include "runtime/data/text_parts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/hash.h"

namespace coxswain::data {
namespace {

constexpr uint64_t kRunStream = 5;  // beside those of dataset.cc and split.cc

}  // namespace

RunDraw::RunDraw(double fraction, uint64_t seed)
    : fraction_(fraction <= 0 ? 0 : std::max(fraction, 1e-9)), key_(HashPair(seed, kRunStream)) {
  if (fraction_ > 0) DrawGroup();
}

void RunDraw::DrawGroup() {
  end_ = std::max(begin_ + 1,
                  static_cast<int64_t>(std::ceil(static_cast<double>(group_ + 1) / fraction_)));
  const uint64_t hash = HashPair(key_, static_cast<uint64_t>(group_));
  held_out_ = begin_ + static_cast<int64_t>(Bounded(hash, static_cast<uint64_t>(end_ - begin_)));
}

bool RunDraw::HeldOut(int64_t run) {
  if (fraction_ <= 0) return false;
  if (run < begin_) {
    group_ = begin_ = 0;
    DrawGroup();
  }
  while (run >= end_) {
    begin_ = end_;
    ++group_;
    DrawGroup();
  }
  return run == held_out_;
}

absl::StatusOr<std::vector<bool>> HoldOutRuns(int64_t words, double fraction, uint64_t seed,
                                              int64_t kept_words) {
  const int64_t runs = (words + kTextRun - 1) / kTextRun;
  std::vector<bool> held_out(static_cast<size_t>(runs), false);
  if (fraction <= 0 || runs == 0) return held_out;
  // One of each 1 / fraction runs in a row: the share is met in every stretch of the text.
  RunDraw draw(fraction, seed);
  int64_t out = 0;
  for (int64_t run = 0; run < runs; ++run) {
    if (!draw.HeldOut(run)) continue;
    held_out[static_cast<size_t>(run)] = true;
    ++out;
  }
  if (out == 0) {
    const uint64_t key = HashPair(seed, kRunStream);
    held_out[static_cast<size_t>(Bounded(key, static_cast<uint64_t>(runs)))] = true;
    ++out;
  }
  if (kept_words > 0 && kept_words < words) {
    ASSIGN_OR_RETURN(const std::vector<bool> kept, HoldOutRuns(kept_words, fraction, seed));
    std::copy(kept.begin(), kept.end(), held_out.begin());
    out = std::count(held_out.begin(), held_out.end(), true);
  }
  if (out < runs) return held_out;
  return absl::InvalidArgumentError(
      absl::StrCat("wanted a text of which something is left to train on, found ", words,
                   " words: ", fraction, " of them are held out, in runs of ", kTextRun));
}

TextParts::TextParts(std::vector<uint32_t> begins, std::vector<bool> held_out) {
  if (begins.empty()) return;
  all_ = begins.back();
  if (std::find(held_out.begin(), held_out.end(), true) == held_out.end()) return;
  begins_ = std::move(begins);
  held_out_ = std::move(held_out);
  uint32_t trained = 0, out = 0;
  for (size_t run = 0; run < held_out_.size(); ++run) {
    const uint32_t places = begins_[run + 1] - begins_[run];
    if (places == 0) continue;
    uint32_t& number = held_out_[run] ? out : trained;
    (held_out_[run] ? validation_ : training_).push_back({number, begins_[run]});
    number += places;
  }
  held_out_places_ = out;
}

int64_t TextParts::Place(Part part, int64_t number) const {
  if (begins_.empty()) return number;
  const std::vector<Run>& runs = part == Part::kTraining ? training_ : validation_;
  const auto next = std::upper_bound(runs.begin(), runs.end(), number,
                                     [](int64_t n, const Run& run) { return n < run.number; });
  return (next - 1)->place + (number - (next - 1)->number);
}

Part TextParts::Of(int64_t place) const {
  if (begins_.empty()) return Part::kTraining;
  // The last run that begins there or before: others there are empty.
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), place,
                                     [](int64_t p, uint32_t begin) { return p < begin; });
  return held_out_[static_cast<size_t>(next - begins_.begin()) - 1] ? Part::kValidation
                                                                    : Part::kTraining;
}

}  // namespace coxswain::data
