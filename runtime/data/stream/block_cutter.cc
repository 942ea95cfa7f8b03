#include "runtime/data/stream/block_cutter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/status.h"
#include "runtime/data/stream/parsed_block.h"

namespace coxswain::data {
namespace {

// Blocks of a row group end between pieces of so many rows, of which a block has a few dozen.
constexpr int64_t kPieces = 32, kMostPiece = 8192;

// Rows that are added at a time.
int64_t PieceRows(const proto::DatasetSpec& spec, int64_t block_bytes) {
  int64_t numbers = 1;  // of a row, of 8 bytes at most
  for (const proto::FeatureSpec& feature : spec.features()) {
    numbers += std::max<int64_t>(1, feature.width());
  }
  return std::clamp<int64_t>(block_bytes / (kPieces * 8 * numbers), 1, kMostPiece);
}

}  // namespace

BlockCutter::BlockCutter(const proto::DatasetSpec& spec, const Table* table, TakeBlock take)
    : table_(*table),
      query_(spec.query()),
      take_(std::move(take)),
      sizes_(SizesOf(spec.stream())),
      piece_rows_(PieceRows(spec, sizes_.group_bytes)) {}

void BlockCutter::StartBlock() {
  leads_ = queries_ != nullptr;
  next_.clear_carried_rows();
  next_.clear_carried_bytes();
  next_.clear_carried_hash();
}

void BlockCutter::StartFile(proto::IndexedFile* file, int64_t offset, bool ends) {
  file_ = file;
  const auto key = table_.keys.find(query_);
  queries_ = key == table_.keys.end() ? nullptr : &key->second.ids;
  base_ = offset;
  ends_ = ends;
  bad_rows_.clear();
  next_.clear_bad_bytes();
  next_.set_offset(offset);
  StartBlock();
}

absl::Status BlockCutter::OnFile(InputFile* input, absl::Span<const std::string> columns,
                                 int64_t next_line) {
  *file_->mutable_columns() = {columns.begin(), columns.end()};
  input->StartBlock();
  next_.set_offset(Position(*input));
  next_.set_line(next_line);
  StartBlock();
  return absl::OkStatus();
}

absl::Status BlockCutter::OnRow(InputFile* input, int64_t next_line) {
  const int64_t bytes = Position(*input) - next_.offset();
  // The last row is the only new one while the first query goes on.
  leads_ = leads_ && queries_->back() == queries_->front();
  if (leads_) {
    next_.set_carried_rows(table_.rows);
    next_.set_carried_bytes(bytes);
    next_.set_carried_hash(input->block_hash());
  }
  // Where bad rows were passed over there may be no other yet.
  const bool goes_on = bytes < sizes_.block_bytes || table_.rows == 0;
  return goes_on ? absl::OkStatus() : CutBlock(input, next_line);
}

void BlockCutter::OnBadRow(InputFile* input, const ByteRange& bytes, const absl::Status& wrong) {
  next_.add_bad_bytes(base_ + bytes.offset - next_.offset());
  next_.add_bad_bytes(bytes.bytes);
  proto::BadRow& row = bad_rows_.emplace_back();
  absl::string_view what = wrong.message();
  if (absl::ConsumePrefix(&what, absl::StrCat(input->path(), ":"))) {
    const size_t digits = std::min(what.find(':'), what.size());
    int64_t line = 0;
    if (absl::SimpleAtoi(what.substr(0, digits), &line)) {
      row.set_line(line);
      what.remove_prefix(digits);
    }
  }
  row.set_what(std::string(what));
}

void BlockCutter::KeepBadRows() {
  file_->set_bad_rows(file_->bad_rows() + static_cast<int64_t>(bad_rows_.size()));
  for (proto::BadRow& row : bad_rows_) {
    if (file_->first_bad_rows_size() == static_cast<int>(BadRows::kShown)) break;
    *file_->add_first_bad_rows() = std::move(row);
  }
  bad_rows_.clear();
  next_.clear_bad_bytes();
}

absl::Status BlockCutter::OnEnd(InputFile* input) {
  if (input->packed()) file_->set_unpacked_bytes(Position(*input));
  if (table_.rows == 0 && ends_) KeepBadRows();
  return table_.rows == 0 || !ends_ ? absl::OkStatus() : CutBlock(input, 0);
}

absl::Status BlockCutter::OnGroup(const RowGroup& group) {
  group_ = group;
  group_done_ = 0;
  next_.set_group(group.group);
  next_.set_group_row(0);
  next_.set_line(group.first_line);
  next_.set_hash(group.hash);
  StartBlock();
  return absl::OkStatus();
}

absl::Status BlockCutter::OnGroupRows(int64_t rows) {
  group_done_ += rows;
  const bool ends = group_done_ == group_.rows || ParsedBytes({}, table_) >= sizes_.group_bytes;
  return ends ? CutGroup() : absl::OkStatus();
}

absl::Status BlockCutter::CutGroup() {
  const double share = static_cast<double>(table_.rows) / static_cast<double>(group_.rows);
  next_.set_bytes(static_cast<int64_t>(static_cast<double>(group_.bytes) * share));
  if (queries_ != nullptr) {
    const auto other = std::find_if(queries_->begin(), queries_->end(),
                                    [this](int32_t query) { return query != queries_->front(); });
    next_.set_carried_rows(other - queries_->begin());
  }
  RETURN_IF_ERROR(take_(next_));
  next_.set_group_row(group_done_);
  next_.set_line(group_.first_line + group_done_);
  StartBlock();
  return absl::OkStatus();
}

absl::Status BlockCutter::CutBlock(InputFile* input, int64_t next_line) {
  next_.set_bytes(Position(*input) - next_.offset());
  next_.set_hash(input->StartBlock());
  RETURN_IF_ERROR(take_(next_));
  KeepBadRows();
  next_.set_offset(next_.offset() + next_.bytes());
  next_.set_line(next_line);
  StartBlock();
  return absl::OkStatus();
}

}  // namespace coxswain::data
