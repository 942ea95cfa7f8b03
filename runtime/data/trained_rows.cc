#include "runtime/data/trained_rows.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/data/names.h"
#include "runtime/data/time_split.h"

namespace coxswain::data {

using proto::DatasetSpec;

proto::TrainedRows RowsToKeep(const DatasetSpec& spec, const RowChain& rows) {
  proto::TrainedRows kept;
  kept.set_rows(rows.rows());
  kept.set_hash(rows.Hash());
  *kept.mutable_split() = spec.split();
  kept.mutable_split()->clear_test_paths();
  kept.set_seed(spec.seed());
  return kept;
}

namespace {

// Rows of a split at values are training rows below this one.
double HeldOutFrom(const proto::SplitSpec& split) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  return std::min(split.has_validation_from() ? split.validation_from() : kNone,
                  split.has_test_from() ? split.test_from() : kNone);
}

}  // namespace

std::string DrawChange(const DatasetSpec& spec) {
  const proto::SplitSpec &was = spec.trained().split(), &is = spec.split();
  const auto change = [](absl::string_view key, const auto& then, const auto& now) {
    return absl::StrCat(key, " was ", then, " and is ", now);
  };
  if (was.validation_fraction() != is.validation_fraction()) {
    return change("split.validation", was.validation_fraction(), is.validation_fraction());
  }
  if (was.test_fraction() != is.test_fraction()) {
    return change("split.test", was.test_fraction(), is.test_fraction());
  }
  // What was trained on came before: a later value holds nothing of it out.
  if (HeldOutFrom(is) < HeldOutFrom(was) || SplitsAtValues(is) != SplitsAtValues(was)) {
    return change("the least of split.validation_from and test_from",
                  absl::StrFormat("%.15g", HeldOutFrom(was)),
                  absl::StrFormat("%.15g", HeldOutFrom(is)));
  }
  if (was.holdout_per() != is.holdout_per()) {
    return change("split.holdout_per", Quoted(was.holdout_per()), Quoted(is.holdout_per()));
  }
  if (!is.holdout_per().empty() && was.holdout_min() != is.holdout_min()) {
    return change("split.holdout_min", was.holdout_min(), is.holdout_min());
  }
  if (was.by() != is.by()) return change("split.by", Quoted(was.by()), Quoted(is.by()));
  if (was.holdout_last() != is.holdout_last()) {
    return change("split.holdout_last", was.holdout_last(), is.holdout_last());
  }
  if (was.holdout_validation() != is.holdout_validation()) {
    return change("split.holdout_validation", was.holdout_validation(), is.holdout_validation());
  }
  if (spec.trained().seed() != spec.seed()) {
    return change("train.seed", spec.trained().seed(), spec.seed());
  }
  return "";
}

namespace {

SinceTraining Compare(const DatasetSpec& spec, const RowChain& rows, uint64_t hash) {
  const proto::TrainedRows& trained = spec.trained();
  if (trained.rows() <= 0) return SinceTraining::kUnknown;
  if (rows.Marked() != hash) return SinceTraining::kOtherRows;
  if (!DrawChange(spec).empty()) return SinceTraining::kOtherDraw;
  return rows.rows() == trained.rows() ? SinceTraining::kSame : SinceTraining::kGrown;
}

}  // namespace

SinceTraining CompareWithTraining(const DatasetSpec& spec, const RowChain& rows) {
  return Compare(spec, rows, spec.trained().hash());
}

SinceTraining CompareTextWithTraining(const DatasetSpec& spec, const RowChain& words,
                                      const RowChain* numbers) {
  const proto::TrainedRows& trained = spec.trained();
  if (trained.words_hash() != 0) return Compare(spec, words, trained.words_hash());
  return numbers == nullptr ? SinceTraining::kUnknown : Compare(spec, *numbers, trained.hash());
}

}  // namespace coxswain::data
