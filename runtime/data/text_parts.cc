#include "runtime/data/text_parts.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "runtime/data/permutation.h"

namespace coxswain {
namespace {

constexpr uint64_t kRunStream = 5;  // beside those of dataset.cc and split.cc

}  // namespace

absl::StatusOr<TextParts> TextParts::Draw(int64_t places, double fraction, uint64_t seed) {
  TextParts parts;
  parts.all_ = places;
  if (fraction <= 0) return parts;
  const int64_t whole = places / kRun, all = (places + kRun - 1) / kRun;
  const auto out =
      std::max<int64_t>(1, std::llround(static_cast<double>(whole) * std::min(fraction, 1.0)));
  if (out >= all) {
    return absl::InvalidArgumentError(absl::StrCat(
        "wanted a text of which something is left to train on, found ", places,
        " words in the vocabulary: ", fraction, " of them are held out, in runs of ", kRun));
  }
  parts.held_out_ = out * kRun;
  parts.is_held_out_.assign(static_cast<size_t>(all), false);
  const Permutation order(static_cast<uint64_t>(whole), HashPair(seed, kRunStream));
  for (int64_t i = 0; i < out; ++i) {
    parts.is_held_out_[static_cast<size_t>(order(static_cast<uint64_t>(i)))] = true;
  }
  for (int64_t run = 0; run < all; ++run) {
    const bool held_out = parts.is_held_out_[static_cast<size_t>(run)];
    (held_out ? parts.validation_ : parts.training_).push_back(static_cast<uint32_t>(run));
  }
  return parts;
}

}  // namespace coxswain
