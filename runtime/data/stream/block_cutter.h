// Cuts the rows of files into blocks while they are read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {

// Thread model: one thread.
class BlockCutter final : public RowListener {
 public:
  // Called with each block (where it is, its hash, its bytes) when the rows of `table` are those of
  // the block; it leaves the table without rows.
  using TakeBlock = std::function<absl::Status(const proto::IndexedBlock& block)>;

  // `table` must outlive it.
  BlockCutter(const proto::DatasetSpec& spec, const Table* table, TakeBlock take);

  // The next rows are of this file, from this offset on; `file` gets its columns, and its unpacked
  // bytes. Where the input ends before the file does (`ends` is false), rows behind the last whole
  // block are no block.
  void StartFile(proto::IndexedFile* file, int64_t offset = 0, bool ends = true);

  // Where the next block begins.
  int64_t offset() const { return next_.offset(); }
  int64_t line() const { return next_.line(); }

 private:
  absl::Status OnFile(InputFile* input, absl::Span<const std::string> columns,
                      int64_t next_line) override;
  absl::Status OnRow(InputFile* input, int64_t next_line) override;
  absl::Status OnEnd(InputFile* input) override;
  void OnBadRow(InputFile* input, const ByteRange& bytes, const absl::Status& wrong) override;
  absl::Status OnGroup(const RowGroup& group) override;
  absl::Status OnGroupRows(int64_t rows) override;
  int64_t most_group_bytes() const override { return sizes_.memory; }
  int64_t bytes_left(const InputFile& input) const override {
    // One row after the other until the block's first query is over.
    if (leads_) return 1;
    return sizes_.block_bytes - (Position(input) - next_.offset());
  }
  int64_t piece_rows() const override { return piece_rows_; }
  int64_t Position(const InputFile& input) const {
    return base_ + static_cast<int64_t>(input.offset());
  }
  // Ends a block with the rows since the last one, up to the input's position.
  absl::Status CutBlock(InputFile* input, int64_t next_line);
  absl::Status CutGroup();
  // Bad rows since the last block are of the file: nobody reads these bytes again.
  void KeepBadRows();
  // A block begins, at a row of any query.
  void StartBlock();

  const Table& table_;  // of the rows since the last block
  const std::string query_;
  const TakeBlock take_;
  const StreamSizes sizes_;
  const int64_t piece_rows_;
  proto::IndexedFile* file_ = nullptr;
  int64_t base_ = 0;  // where in the file the input begins
  bool ends_ = true;
  // The beginning of the block that is being read. Its carried rows are those of its first query:
  // whether they go on with one of the block in front is found out when blocks are added up.
  proto::IndexedBlock next_;
  const std::vector<int32_t>* queries_ = nullptr;  // of the table's rows, if rows are of queries
  bool leads_ = false;                             // all rows so far are of the block's first query
  std::vector<proto::BadRow> bad_rows_;            // since the last block
  RowGroup group_;
  int64_t group_done_ = 0;  // rows of it
};

}  // namespace coxswain::data
