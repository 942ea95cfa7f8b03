// Pairs of words that stand near each other in a text: the batches of a skip-gram model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "protos/dataset.pb.h"
#include "runtime/data/batch.h"
#include "runtime/data/columns.h"
#include "runtime/data/text_parts.h"
#include "runtime/data/text_reader.h"

namespace coxswain::data {

// The one feature of a text.
inline constexpr const char* kWordFeature = kTextFeature;

// Describes the columns center, center.pairs, context and context.center: see TextOptions in
// protos/dataset.proto.
void DescribeSkipGrams(std::vector<ColumnSpec>* specs);

// Draws the pairs of places of a text. An example is a place.
//
// Subsampling leaves out a place with a probability that grows with its word's frequency, before
// windows are looked at; each centre has a window of 1 to `window` words to both sides, within its
// sentence and its part. Both are drawn by (epoch_key, place) alone: a place has the same pairs in
// whatever batch it is, and others in each epoch. Thread model: immutable.
class SkipGrams {
 public:
  // The pairs of a batch, see above.
  struct Pairs {
    std::vector<int64_t> centers, contexts;
    std::vector<float> counts;
    std::vector<int32_t> center_of;

    // Appends the tensors.
    void MoveTo(Batch* batch) const;
  };

  // What is around a run of places. Thread model: one thread.
  class Around {
   public:
    virtual ~Around() = default;
    // False where the text has no such place, or it is of another part. Places are asked for one
    // after the other, going away from the run.
    virtual bool At(int64_t place, int32_t* token) = 0;
  };

  // `counts`: how often each word occurs in the training part.
  SkipGrams(absl::Span<const int64_t> counts, const proto::TextOptions& options);

  // The probability that a place of this word stays.
  double KeepProbability(int64_t word) const;
  // Adds the pairs of consecutive places of one part, which have these tokens and begin at `begin`.
  // Errors: ResourceExhausted for more than 2^31 - 1 pairs.
  absl::Status AddRun(uint64_t epoch_key, int64_t begin, absl::Span<const int32_t> tokens,
                      Around* around, Pairs* pairs) const;

 private:
  struct Kept;

  static uint64_t Draw(uint64_t epoch_key, int64_t place);
  bool Keeps(uint64_t draw, int32_t word) const {
    return draw >> 32 < thresholds_[static_cast<size_t>(word)];
  }
  void AddMargin(uint64_t epoch_key, int64_t from, int step, Around* around,
                 std::vector<Kept>* kept) const;

  // By word: a place stays when the upper half of its draw is below; 2^32: always.
  std::vector<uint64_t> thresholds_;
  int64_t window_;
};

// The pairs of a text in memory. Thread model: immutable.
class SkipGramColumn : public Column {
 public:
  SkipGramColumn(std::vector<int32_t> tokens, TextParts parts, const std::vector<int64_t>& counts,
                 const proto::TextOptions& options);
  void Describe(std::vector<ColumnSpec>* specs) const override { DescribeSkipGrams(specs); }
  absl::Status Gather(const BatchRows& rows, Batch* batch) const override;

  const TextParts& parts() const { return parts_; }
  double KeepProbability(int64_t word) const { return pairs_.KeepProbability(word); }

 private:
  class Around;

  std::vector<int32_t> tokens_;
  TextParts parts_;
  SkipGrams pairs_;
};

}  // namespace coxswain::data
