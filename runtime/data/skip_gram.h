// Pairs of words that stand near each other in a text: the batches of a skip-gram model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protos/dataset.pb.h"
#include "runtime/data/columns.h"
#include "runtime/data/text_parts.h"
#include "runtime/data/text_reader.h"

namespace coxswain::data {

// The one feature of a text.
inline constexpr const char* kWordFeature = kTextFeature;

// center, center.pairs, context, context.center: see TextOptions in protos/dataset.proto. An
// example is a place of the text.
//
// Subsampling leaves out a place with a probability that grows with its word's frequency, before
// windows are looked at; each centre has a window of 1 to `window` words to both sides, within its
// sentence and its part. Both are drawn by (BatchRows::epoch_key, place) alone: a place has the
// same pairs in whatever batch it is, and others in each epoch. Thread model: immutable.
class SkipGramColumn : public Column {
 public:
  // `counts`: how often each word occurs in the training part.
  SkipGramColumn(std::vector<int32_t> tokens, TextParts parts, const std::vector<int64_t>& counts,
                 const proto::TextOptions& options);
  void Describe(std::vector<ColumnSpec>* specs) const override;
  absl::Status Gather(const BatchRows& rows, Batch* batch) const override;

  const TextParts& parts() const { return parts_; }
  // The probability that a place of this word stays.
  double KeepProbability(int64_t word) const;

 private:
  struct Kept;
  struct Pairs;

  uint64_t Draw(uint64_t epoch_key, int64_t place) const;
  bool Keeps(uint64_t draw, int64_t place) const;
  int64_t places() const { return static_cast<int64_t>(tokens_.size()); }
  void AddMargin(uint64_t epoch_key, Part part, int64_t from, int step,
                 std::vector<Kept>* kept) const;
  void AddRun(uint64_t epoch_key, int64_t begin, int64_t end, std::vector<Kept>* kept,
              Pairs* pairs) const;

  std::vector<int32_t> tokens_;
  TextParts parts_;
  // By word: a place stays when the upper half of its draw is below; 2^32: always.
  std::vector<uint64_t> thresholds_;
  int64_t window_;
};

}  // namespace coxswain::data
