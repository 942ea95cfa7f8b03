// The rows that split.holdout_per makes test rows: of each group, such as a user, one; and with
// holdout_validation another one for validation. Which they are depends on all rows, so they are
// found in a pass of their own before the index's: of each group its rows in a block come to one
// record, or two, and all records are sorted by the group.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/stream/external_sort.h"
#include "runtime/data/stream/group_key.h"
#include "runtime/data/stream/scratch_file.h"
#include "runtime/data/table.h"

namespace coxswain::data {

// Ascending numbers of rows as few bytes: the differences of neighbours. `begin`: none is smaller.
std::string EncodeRows(absl::Span<const int64_t> rows, int64_t begin);
// False for bytes that are no such rows below `end`.
bool DecodeRows(absl::string_view bytes, int64_t begin, int64_t end, std::vector<int64_t>* rows);

// Of rows that come in their order: whether each is among some ascending ones. A value.
class RowMarks {
 public:
  RowMarks() = default;
  explicit RowMarks(std::vector<int64_t> rows) : rows_(std::move(rows)) {}
  // `row`: never smaller than before.
  bool Has(int64_t row) {
    while (at_ < rows_.size() && rows_[at_] < row) ++at_;
    return at_ < rows_.size() && rows_[at_] == row;
  }
  absl::Span<const int64_t> rows() const { return rows_; }

 private:
  std::vector<int64_t> rows_;
  size_t at_ = 0;
};

// Those among some rows that are held out.
struct HeldOut {
  // The first rows of the data set, which a model was trained on, are held out as if there were no
  // others.
  int64_t kept_rows = 0;
  RowMarks rows;
  RowMarks of_all;      // of the kept rows: those that would be if there were nothing to keep
  RowMarks validation;  // those among `rows` of the validation part

  // Whether a row is left out of those that split.by goes by.
  bool LeftOutOfAll(int64_t row) { return row < kept_rows ? of_all.Has(row) : rows.Has(row); }
};
proto::HeldOutRows ToProto(const HeldOut& held_out, int64_t begin);
// Errors: InvalidArgument for bytes that are no rows.
absl::StatusOr<HeldOut> FromProto(const proto::HeldOutRows& held_out, int64_t begin);

// All of them. Thread model: immutable.
class HeldOutRows {
 public:
  // Those of rows [begin, end). Errors: those of ScratchFile.
  absl::StatusOr<HeldOut> Among(int64_t begin, int64_t end) const;
  // The number of rows in the files up to this one, by its number among spec.paths.
  int64_t RowsUpTo(size_t file) const;
  int64_t kept_rows() const { return kept_rows_; }

 private:
  friend class HeldOutSearch;
  // Ascending, 8 bytes each.
  struct Rows {
    explicit Rows(ScratchSpace* space) : file(space) {}
    ScratchFile file;
    int64_t count = 0;
  };
  explicit HeldOutRows(std::shared_ptr<ScratchSpace> space)
      : space_(std::move(space)), all_(space_.get()), kept_(space_.get()) {}
  static absl::Status Find(const Rows& in, int64_t begin, int64_t end, std::vector<int64_t>* rows);

  // All that are held out of some rows, and which of these are for validation.
  struct Found {
    explicit Found(ScratchSpace* space) : rows(space), validation(space) {}
    Rows rows, validation;
  };

  const std::shared_ptr<ScratchSpace> space_;
  Found all_, kept_;
  int64_t kept_rows_ = 0;
  std::vector<int64_t> file_ends_;
};

// What of a checked spec is read to find them: the columns by which rows are held out; or, where
// there may be rows that a model was trained on, all by which it knows them.
proto::DatasetSpec SpecOfHeldOut(const proto::DatasetSpec& spec);

// Finds them. Memory: a quarter of dataset.memory; what does not fit goes to scratch files. Thread
// model: one thread.
class HeldOutSearch {
 public:
  // `spec`: of SpecOfHeldOut; must outlive it.
  explicit HeldOutSearch(const proto::DatasetSpec& spec);

  // The next rows, which are of this file. Errors: those of ScratchFile.
  absl::Status Add(const Table& rows, int64_t first_row, int file);
  // All have come. `kept_rows`: so many rows are those that a model was trained on, all of
  // spec.trained or none. Errors: those of ScratchFile.
  absl::StatusOr<std::unique_ptr<const HeldOutRows>> Finish(int64_t kept_rows);

 private:
  // Some rows of a group: how many, and which of them would be held out. The second that would be
  // stands for itself alone, and for no row.
  struct Leader {
    GroupKey group;
    uint64_t rank = 0;  // of the row; the smallest is held out
    uint64_t tie = 0;   // the same among equal ranks
    int64_t row = 0;
    int64_t rows = 0;

    friend bool operator<(const Leader& a, const Leader& b) {
      if (a.group != b.group) return a.group < b.group;
      return a.rank != b.rank ? a.rank < b.rank : a.tie < b.tie;
    }
  };
  using Leaders = ExternalSort<Leader>;

  Leader OfRow(const Table& rows, size_t at, int64_t row) const;
  absl::Status AddTo(const Table& rows, int64_t first_row, int64_t count, Leaders* leaders);
  absl::Status AddOfBlock(Leaders* leaders);
  absl::Status FindRows(Leaders* leaders, HeldOutRows::Found* found);
  static absl::Status WriteSorted(ExternalSort<int64_t>* rows, HeldOutRows::Rows* to);

  const proto::DatasetSpec& spec_;
  const int64_t memory_;
  const uint64_t draw_;
  std::shared_ptr<ScratchSpace> space_;
  Leaders all_, kept_;
  std::vector<int64_t> file_ends_;
  std::vector<Leader> of_block_;  // by group
  std::vector<Leader> second_;    // the same, with holdout_validation
  std::vector<GroupKey> keys_;    // the same
};

}  // namespace coxswain::data
