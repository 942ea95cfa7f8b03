// What a pass over rows adds up, block after block: rows by part, labels, and features. Tallies of
// parts of the files, taken in their order, add up to that of all of them, to the last bit.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/label_summary.h"
#include "runtime/data/row_chain.h"
#include "runtime/data/split.h"
#include "runtime/data/stream/feature_tally.h"
#include "runtime/data/stream/held_out_rows.h"
#include "runtime/data/stream/time_cuts.h"
#include "runtime/data/stream/value_counts.h"
#include "runtime/data/table.h"
#include "runtime/data/text_parts.h"

namespace coxswain::data {

// Thread model: one thread.
class IndexTally {
 public:
  // `spec` must outlive it.
  explicit IndexTally(const proto::DatasetSpec& spec);

  // From now on rows are only counted, by their values of split.by: each of `ranges` in about
  // `memory` bytes.
  void CountValues(absl::Span<const proto::ValueRange> ranges, int64_t memory);
  // Where no row is there yet: the cuts of split.by.
  void Cut(const proto::TimeCuts& cuts) { cuts_ = TimeCuts(cuts); }
  const TimeCuts& cuts() const { return cuts_; }
  // Which of the rows that come next are held out.
  void HoldOut(HeldOut held_out) { held_out_ = std::move(held_out); }
  // Rows that nothing is added up of.
  void PassOver(int64_t rows) { rows_ += rows; }
  // What was counted, parallel to the ranges.
  absl::Span<ValueCounts> counts() { return absl::MakeSpan(counts_); }

  int64_t rows() const { return rows_; }
  int64_t largest_block() const { return largest_block_; }

  // Adds the rows of a block, and fills in what of `block` they say: which of them are of which
  // part, unless all are `test` rows. `block` has the line of its place, and as carried rows those
  // of its first query. Errors: InvalidArgument "file:line: ..." for a query that comes again in
  // the block behind others.
  absl::Status AddBlock(const Table& rows, const BlockPlace& place, bool test,
                        proto::IndexedBlock* block);
  // Errors: ResourceExhausted for vocabularies that do not fit into memory with what `table` has.
  absl::Status CheckVocabularies(const Table& table) const;

  // Goes on from the rows in front of those that come. What vocabularies and counts have is left
  // out: they are merged. Errors: InvalidArgument for a state that makes no sense.
  absl::Status Continue(const proto::IndexState& before);
  void Save(proto::IndexState* after) const;
  // What the blocks added since, of features and sizes, or what was counted; `texts`: by feature,
  // how many of the texts in `table` they have.
  void TakePart(const Table& table, absl::Span<const int64_t> texts, proto::IndexedPart* part);
  // Adds that of a part whose files have the numbers [first, end). Errors: InvalidArgument for a
  // part of something else; ResourceExhausted for too many texts.
  absl::Status Merge(const proto::IndexedPart& part, int32_t first, int32_t end, Table* table);

  // Writes features and labels. Errors: those of FeatureTally::Finish.
  absl::Status Finish(const Table& table, proto::DatasetIndex* index) const;

 private:
  using LabelsByPart = std::array<LabelSummary, 3>;

  void Count(const Table& rows);
  void AddLabels(const Table& rows);
  // The part that the number of a row draws.
  Part DrawnPart(int64_t row);
  // The part of each row, drawn by rows; or by queries, of which `block` gets the numbers.
  void DrawRows(const Table& rows, bool test, proto::IndexedBlock* block);
  absl::Status DrawQueries(const Table& rows, const BlockPlace& place, bool test,
                           proto::IndexedBlock* block);
  // The memory of a block with what later ones have of its last query.
  void AddMemory(int64_t bytes, const proto::IndexedBlock& block);

  const proto::DatasetSpec& spec_;
  const PartDraw draw_;
  std::vector<FeatureTally> tallies_;
  std::vector<LabelsByPart> labels_;  // of the label, then of each of the spec's labels
  std::vector<Part> parts_;           // of the rows of a block
  int64_t rows_ = 0, largest_block_ = 0;
  std::optional<proto::OpenQuery> query_;  // of the last row, if it may go on
  int32_t last_file_ = 0;
  TimeCuts cuts_;
  std::optional<RunDraw> runs_;  // of a text, whose parts are drawn by runs
  HeldOut held_out_;
  std::vector<proto::ValueRange> ranges_;  // none: rows are not only counted
  std::vector<ValueCounts> counts_;        // parallel
};

LabelSummary SummaryOf(const proto::IndexedLabels& labels);

// The hash of rows as a part of the state. Errors: InvalidArgument for a state that has none.
void SaveChain(const RowChain& chain, proto::IndexState* state);
absl::Status ContinueChain(const proto::IndexState& state, RowChain* chain);

}  // namespace coxswain::data
