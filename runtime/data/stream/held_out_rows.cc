// Rows as bytes; the held-out ones among some rows; how they are found.
#include "runtime/data/stream/held_out_rows.h"

#include <algorithm>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/data/split.h"
#include "runtime/data/stream/split_spec.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/data/stream/value_counts.h"

namespace coxswain::data {
namespace {

// Two sorts, and two others of what they find, share a quarter of `dataset.memory`.
constexpr int64_t kSortsInMemory = 16;

// Rows of a file are looked at so many at a time.
constexpr int64_t kRowsAtATime = 4096;

}  // namespace

std::string EncodeRows(absl::Span<const int64_t> rows, int64_t begin) {
  std::string bytes;
  for (const int64_t row : rows) {
    auto more = static_cast<uint64_t>(row - begin);
    for (; more >= 128; more >>= 7) bytes.push_back(static_cast<char>(more | 128));
    bytes.push_back(static_cast<char>(more));
    begin = row + 1;
  }
  return bytes;
}

bool DecodeRows(absl::string_view bytes, int64_t begin, int64_t end, std::vector<int64_t>* rows) {
  for (size_t i = 0; i < bytes.size();) {
    uint64_t more = 0;
    bool over = false;
    for (int shift = 0; !over; shift += 7) {
      if (i == bytes.size() || shift > 56) return false;
      const auto byte = static_cast<unsigned char>(bytes[i++]);
      more |= static_cast<uint64_t>(byte & 127) << shift;
      over = byte < 128;
    }
    if (begin >= end || more >= static_cast<uint64_t>(end - begin)) return false;
    rows->push_back(begin + static_cast<int64_t>(more));
    begin = rows->back() + 1;
  }
  return true;
}

proto::HeldOutRows ToProto(const HeldOut& held_out, int64_t begin) {
  proto::HeldOutRows to;
  to.set_rows(EncodeRows(held_out.rows.rows(), begin));
  to.set_kept_rows(held_out.kept_rows);
  to.set_of_all(EncodeRows(held_out.of_all.rows(), begin));
  to.set_validation(EncodeRows(held_out.validation.rows(), begin));
  return to;
}

absl::StatusOr<HeldOut> FromProto(const proto::HeldOutRows& held_out, int64_t begin) {
  constexpr int64_t kMostRows = int64_t{1} << 56;
  std::vector<int64_t> rows, of_all, validation;
  if (!DecodeRows(held_out.rows(), begin, kMostRows, &rows) ||
      !DecodeRows(held_out.of_all(), begin, kMostRows, &of_all) ||
      !DecodeRows(held_out.validation(), begin, kMostRows, &validation)) {
    return absl::InvalidArgumentError("held-out rows that make no sense");
  }
  HeldOut to;
  to.kept_rows = held_out.kept_rows();
  to.rows = RowMarks(std::move(rows));
  to.of_all = RowMarks(std::move(of_all));
  to.validation = RowMarks(std::move(validation));
  return to;
}

absl::Status HeldOutRows::Find(const Rows& in, int64_t begin, int64_t end,
                               std::vector<int64_t>* rows) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(int64_t));
  int64_t low = 0, high = in.count;  // the first one that is not below `begin` is in [low, high]
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    int64_t row = 0;
    RETURN_IF_ERROR(in.file.Read(middle * kBytes, &row, sizeof(row)));
    (row < begin ? low : high) = row < begin ? middle + 1 : middle;
  }
  std::vector<int64_t> some;
  while (low < in.count) {
    some.resize(static_cast<size_t>(std::min(kRowsAtATime, in.count - low)));
    RETURN_IF_ERROR(in.file.Read(low * kBytes, some.data(), some.size() * sizeof(int64_t)));
    const auto stop = std::lower_bound(some.begin(), some.end(), end);
    rows->insert(rows->end(), some.begin(), stop);
    if (stop != some.end()) break;
    low += static_cast<int64_t>(some.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<HeldOut> HeldOutRows::Among(int64_t begin, int64_t end) const {
  std::vector<int64_t> rows, of_all, validation;
  const int64_t kept_end = std::min(end, kept_rows_), others = std::max(begin, kept_rows_);
  if (begin < kept_end) {
    RETURN_IF_ERROR(Find(kept_.rows, begin, kept_end, &rows));
    RETURN_IF_ERROR(Find(kept_.validation, begin, kept_end, &validation));
    RETURN_IF_ERROR(Find(all_.rows, begin, kept_end, &of_all));
  }
  if (others < end) {
    RETURN_IF_ERROR(Find(all_.rows, others, end, &rows));
    RETURN_IF_ERROR(Find(all_.validation, others, end, &validation));
  }
  HeldOut held_out;
  held_out.kept_rows = kept_rows_;
  held_out.rows = RowMarks(std::move(rows));
  held_out.of_all = RowMarks(std::move(of_all));
  held_out.validation = RowMarks(std::move(validation));
  return held_out;
}

int64_t HeldOutRows::RowsUpTo(size_t file) const {
  return file_ends_.empty() ? 0 : file_ends_[std::min(file, file_ends_.size() - 1)];
}

proto::DatasetSpec SpecOfHeldOut(const proto::DatasetSpec& spec) {
  bool all_columns = false;
  proto::DatasetSpec less = SpecOfParts(spec, &all_columns);
  if (all_columns) return less;
  if (!spec.split().holdout_last()) less.mutable_split()->clear_by();
  return less;
}

HeldOutSearch::HeldOutSearch(const proto::DatasetSpec& spec)
    : spec_(spec),
      memory_(SizesOf(spec.stream()).memory / kSortsInMemory),
      draw_(HoldoutKey(spec.seed())),
      space_(std::make_shared<ScratchSpace>(spec.stream())),
      all_(space_.get(), memory_),
      kept_(space_.get(), memory_) {}

HeldOutSearch::Leader HeldOutSearch::OfRow(const Table& rows, size_t at, int64_t row) const {
  Leader leader;
  leader.row = row;
  leader.rows = 1;
  if (spec_.split().holdout_last()) {
    leader.rank = ~OrderedBits(rows.orders.at(spec_.split().by())[at]);
    leader.tie = ~static_cast<uint64_t>(row);  // of equal ones the last
  } else {
    leader.rank = HashPair(draw_, static_cast<uint64_t>(row));
    leader.tie = static_cast<uint64_t>(row);
  }
  return leader;
}

absl::Status HeldOutSearch::AddTo(const Table& rows, int64_t first_row, int64_t count,
                                  Leaders* leaders) {
  const KeyColumn& key = rows.keys.at(spec_.split().holdout_per());
  const bool seconds = spec_.split().holdout_validation();
  of_block_.assign(static_cast<size_t>(key.names.size()), Leader());
  second_.assign(seconds ? of_block_.size() : 0, Leader());
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i), group = static_cast<size_t>(key.ids[at]);
    Leader& first = of_block_[group];
    Leader leader = OfRow(rows, at, first_row + i);  // the group is the same
    const int64_t so_far = first.rows;
    if (so_far == 0 || leader < first) std::swap(first, leader);
    first.rows = so_far + 1;
    if (seconds && so_far > 0 && (so_far == 1 || leader < second_[group])) second_[group] = leader;
  }
  return AddOfBlock(leaders);
}

absl::Status HeldOutSearch::AddOfBlock(Leaders* leaders) {
  for (size_t group = 0; group < of_block_.size(); ++group) {
    if (of_block_[group].rows == 0) continue;
    of_block_[group].group = keys_[group];
    RETURN_IF_ERROR(leaders->Add(of_block_[group]));
    if (second_.empty() || of_block_[group].rows == 1) continue;
    second_[group].group = keys_[group];
    second_[group].rows = 0;
    RETURN_IF_ERROR(leaders->Add(second_[group]));
  }
  return absl::OkStatus();
}

absl::Status HeldOutSearch::Add(const Table& rows, int64_t first_row, int file) {
  file_ends_.resize(std::max(file_ends_.size(), static_cast<size_t>(file)), first_row);
  file_ends_.resize(std::max(file_ends_.size(), static_cast<size_t>(file) + 1));
  file_ends_.back() = first_row + rows.rows;
  const KeyColumn& key = rows.keys.at(spec_.split().holdout_per());
  keys_.clear();
  for (int64_t i = 0; i < key.names.size(); ++i) keys_.push_back(GroupKey::Of(key.names.text(i)));
  RETURN_IF_ERROR(AddTo(rows, first_row, rows.rows, &all_));
  const int64_t kept = std::clamp<int64_t>(spec_.trained().rows() - first_row, 0, rows.rows);
  return kept > 0 ? AddTo(rows, first_row, kept, &kept_) : absl::OkStatus();
}

absl::Status HeldOutSearch::FindRows(Leaders* leaders, HeldOutRows::Found* found) {
  RETURN_IF_ERROR(leaders->Sort());
  ExternalSort<int64_t> by_row(space_.get(), memory_), validation(space_.get(), memory_);
  const proto::SplitSpec& split = spec_.split();
  Leader first, second, next;
  int64_t rows = 0, records = 0;
  const auto end_group = [&] {
    if (rows == 0 || rows < split.holdout_min()) return absl::OkStatus();
    RETURN_IF_ERROR(by_row.Add(first.row));
    if (!split.holdout_validation() || rows <= split.holdout_min()) return absl::OkStatus();
    RETURN_IF_ERROR(by_row.Add(second.row));
    return validation.Add(second.row);
  };
  auto reader = leaders->Read();
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(&next));
    if (!more) break;
    if (records == 0 || next.group != first.group) {
      RETURN_IF_ERROR(end_group());
      first = next;
      rows = records = 0;
    }
    if (++records == 2) second = next;
    rows += next.rows;
  }
  RETURN_IF_ERROR(end_group());
  RETURN_IF_ERROR(WriteSorted(&by_row, &found->rows));
  return WriteSorted(&validation, &found->validation);
}

absl::Status HeldOutSearch::WriteSorted(ExternalSort<int64_t>* rows, HeldOutRows::Rows* to) {
  RETURN_IF_ERROR(rows->Sort());
  auto sorted = rows->Read();
  for (int64_t row = 0;;) {
    ASSIGN_OR_RETURN(const bool more, sorted.Next(&row));
    if (!more) return absl::OkStatus();
    RETURN_IF_ERROR(to->file.Append(&row, sizeof(row)));
    ++to->count;
  }
}

absl::StatusOr<std::unique_ptr<const HeldOutRows>> HeldOutSearch::Finish(int64_t kept_rows) {
  std::unique_ptr<HeldOutRows> found(new HeldOutRows(space_));
  RETURN_IF_ERROR(FindRows(&all_, &found->all_));
  if (kept_rows > 0) RETURN_IF_ERROR(FindRows(&kept_, &found->kept_));
  found->kept_rows_ = kept_rows;
  found->file_ends_ = std::move(file_ends_);
  return found;
}

}  // namespace coxswain::data
