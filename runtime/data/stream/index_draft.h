// An index that is being made: what it has so far, however its blocks are found. Files come one
// after the other, and the blocks of each in their order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/stream/held_out_rows.h"
#include "runtime/data/stream/index_builder.h"
#include "runtime/data/stream/index_tally.h"
#include "runtime/data/table.h"
#include "runtime/data/table_rows.h"
#include "runtime/data/trained_rows.h"

namespace coxswain::data {

// Thread model: one thread.
class IndexDraft {
 public:
  // Both must outlive it. With `ranges`, no index is made: rows are only counted, see CutSearch.
  IndexDraft(const proto::DatasetSpec& spec, const IndexOptions& options,
             std::vector<proto::ValueRange> ranges = {});

  // Binds the columns, and finds how many bytes there are. Errors: those of BindColumns and files.
  absl::Status Start();
  // Before any row: the cuts of split.by.
  void Cut(const proto::TimeCuts& cuts) { tally_.Cut(cuts); }
  // The same: the rows that are held out, whatever else decides; they must outlive it.
  void HoldOut(const HeldOutRows* rows) { held_out_ = rows; }
  // No index is made: blocks' rows are only shown, with the number of the first one and that of
  // their file. An error ends the reading.
  using Visit = std::function<absl::Status(const Table& rows, int64_t first_row, int file)>;
  void ShowTo(Visit visit) { visit_ = std::move(visit); }
  const std::vector<proto::ValueRange>& ranges() const { return ranges_; }
  absl::Span<ValueCounts> counts() { return tally_.counts(); }
  // Once EndOwnFiles was called: how the rows compare with spec.trained.
  SinceTraining since_training() const {
    return static_cast<SinceTraining>(index_.since_training());
  }
  // The rows of a block are read into `table` through `rows`.
  Table* table() { return &table_; }
  TableRows* rows() { return &rows_; }

  // The next file of `paths`, then of `test_paths`; what it is.
  proto::IndexedFile* BeginFile(const std::string& path, proto::IndexedFile identity);
  // Adds a block of that file, whose rows are in `table`, and empties it. Errors: ResourceExhausted
  // for vocabularies that do not fit into memory; those of IndexTally::AddBlock.
  absl::Status AddBlock(proto::IndexedBlock block);
  // Adds what was read elsewhere; of its files the first has this number, and all have begun.
  // Errors: as AddBlock; InvalidArgument for a part of something else.
  absl::Status AddPart(const proto::IndexedPart& part, int32_t first_file);
  // What the rows so far come to, and which rows of the next part are held out, which has so many
  // `rows`; -1: that is not known, and it ends with this file at the latest. Errors: those of
  // HeldOutRows.
  absl::StatusOr<proto::IndexState> State(int64_t rows, int32_t last_file) const;
  // All blocks of the file with this number are in. Errors: FailedPrecondition for one that changed
  // since BeginFile.
  absl::Status EndFile(const std::string& path, int32_t file) const;

  // All files of `paths` are in: the others are test rows. Errors: NotFound for columns that no row
  // has; InvalidArgument for no row at all.
  absl::Status EndOwnFiles();
  // Errors: ResourceExhausted for an index that is too large, or a window that does not fit; those
  // of FeatureTally::Finish.
  absl::StatusOr<proto::DatasetIndex> Finish();

 private:
  // Those of a part of the file. Errors: InvalidArgument where there are too many.
  absl::Status AddBadRows(const proto::IndexedFile& part, int32_t file);
  absl::Status ChooseWindow();
  void Report(int64_t bytes);

  const proto::DatasetSpec& spec_;
  const IndexOptions& options_;
  const std::vector<proto::ValueRange> ranges_;
  const HeldOutRows* held_out_ = nullptr;
  Visit visit_;
  Table table_;  // of the rows since the last block
  TableRows rows_;
  IndexTally tally_;
  proto::DatasetIndex index_;
  std::string path_;                        // of the last file
  std::vector<proto::IndexedFile> others_;  // files of IndexedPaths that have no rows
  bool test_files_ = false;
  int64_t all_bytes_ = 0, done_bytes_ = 0, reported_ = 0;
};

// Takes the rows out of a table: its columns stay where they are, and texts keep their numbers.
// `path`: of the file that the next rows are of.
void EmptyTable(const std::string& path, Table* table);
// Takes the texts out, too, where rows are only counted.
void ForgetTexts(Table* table);

}  // namespace coxswain::data
