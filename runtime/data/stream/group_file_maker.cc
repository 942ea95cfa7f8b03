// Reading blocks into records; numbering groups; writing the file.
#include "runtime/data/stream/group_file_maker.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/bytes_text.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/history.h"
#include "runtime/data/made_features.h"
#include "runtime/data/names.h"
#include "runtime/data/stream/external_sort.h"
#include "runtime/data/stream/group_file.h"
#include "runtime/data/stream/group_records.h"
#include "runtime/data/stream/scratch_file.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/data/stream/value_counts.h"
#include "runtime/env/system_error.h"

namespace coxswain::data {
namespace {

constexpr int64_t kNarrowIds = std::numeric_limits<int32_t>::max();
// Of `dataset.memory`: of the sort of all rows, and of each of the others.
constexpr int64_t kRowsInMemory = 4, kOthersInMemory = 16;
constexpr int64_t kShowEvery = int64_t{1} << 18;  // records
constexpr size_t kWritten = size_t{256} << 10;

// Puts small pieces together.
class Output {
 public:
  explicit Output(const GroupFileOutput& output) : output_(output) {}
  absl::Status Append(const void* data, size_t bytes) {
    buffer_.append(static_cast<const char*>(data), bytes);
    return buffer_.size() < kWritten ? absl::OkStatus() : Flush();
  }
  absl::Status Flush() {
    RETURN_IF_ERROR(WriteAll(output_.file, buffer_.data(), buffer_.size(), output_.path));
    buffer_.clear();
    return absl::OkStatus();
  }
  absl::Status CopyAll(const ScratchFile& from) {
    ScratchReader reader(&from);
    std::string bytes;
    while (reader.left() > 0) {
      bytes.resize(std::min(kWritten, static_cast<size_t>(reader.left())));
      RETURN_IF_ERROR(reader.Read(bytes.data(), bytes.size()));
      RETURN_IF_ERROR(Append(bytes.data(), bytes.size()));
    }
    return absl::OkStatus();
  }

 private:
  const GroupFileOutput& output_;
  std::string buffer_;
};

// What is read of a block. A row group is compared by all columns that the index was made of.
proto::DatasetSpec SpecOfTarget(const StreamedSpec& data, const GroupTarget& target, int* feature) {
  proto::DatasetSpec spec = data.spec;
  *feature = target.feature;
  if (FormatOf(spec).has_groups()) return spec;
  spec.mutable_split()->clear_holdout_per();
  spec.mutable_split()->clear_holdout_validation();
  if (!data.cuts.any()) spec.mutable_split()->clear_by();
  if (!target.only_positive) spec.clear_label();
  spec.clear_labels();
  // A group's column and its order are bound for what needs them.
  spec.mutable_known_items()->set_group_by(target.group_by);
  const proto::FeatureSpec of = spec.features(target.feature);
  if (IsCrossed(of)) return spec;  // it is made of others
  spec.clear_features();
  *spec.add_features() = of;
  *feature = 0;
  if (target.by.empty()) return spec;
  proto::FeatureSpec* const history = spec.add_features();
  history->set_kind(proto::FeatureSpec::CATEGORICAL);
  history->set_multi_valued(true);
  history->set_history_of(of.name());
  history->set_group_by(target.group_by);
  history->set_by(target.by);
  return spec;
}

class Maker {
 public:
  Maker(const StreamedSpec& data, const GroupTarget& target, const GroupFileOutput& output)
      : data_(data),
        target_(target),
        output_(output),
        spec_(SpecOfTarget(data, target, &feature_)),
        vocabularies_(static_cast<size_t>(spec_.features_size())),
        memory_(SizesOf(data.spec.stream()).memory),
        space_(data.spec.stream()),
        rows_(&space_, memory_ / kRowsInMemory),
        names_(&space_),
        values_(&space_),
        extents_(&space_),
        name_ends_(&space_),
        group_names_(&space_),
        placed_(&space_, memory_ / kOthersInMemory) {
    const Vocabulary& ids = *data.vocabularies[static_cast<size_t>(target.feature)];
    value_bytes_ = ids.size() > kNarrowIds ? 8 : 4;
    // The same features, or the one alone.
    if (spec_.features_size() == data.spec.features_size() && feature_ == target.feature) {
      vocabularies_ = data.vocabularies;
    } else {
      vocabularies_[static_cast<size_t>(feature_)] =
          data.vocabularies[static_cast<size_t>(target.feature)];
    }
  }
  absl::Status Make(uint64_t key);

 private:
  absl::Status ReadBlocks();
  absl::Status AddBlock(const proto::IndexedBlock& block, const Table& table);
  // Whether an example begins at a row of a block. Of queries: also in one in front of it.
  bool BeginsExample(const proto::IndexedBlock& block, const Table& table, int64_t row) const;
  // Adds the records of the last example's rows, all of which are there now.
  absl::Status AddExample();
  // Each group's values, one after the other; then its number and name; then what is said of rows.
  absl::Status PlaceValues(ExternalSort<GroupRecord>* groups);
  absl::Status NumberGroups(ExternalSort<GroupRecord>* groups, ExternalSort<NumberRecord>* numbers);
  absl::Status PlaceRows(ExternalSort<NumberRecord>* numbers);
  absl::Status AppendName(int64_t first_row, ScratchReader* names);
  absl::Status Write(uint64_t key);
  void Step() {
    if (++steps_ % kShowEvery == 0) ShowProgress(output_.file);
  }

  const StreamedSpec& data_;
  const GroupTarget& target_;
  const GroupFileOutput& output_;
  int feature_ = 0;
  const proto::DatasetSpec spec_;
  KnownVocabularies vocabularies_;
  const int64_t memory_;
  int64_t value_bytes_ = 4;
  ScratchSpace space_;
  std::vector<RowRecord> example_;  // its rows so far
  Part part_ = Part::kTraining;     // the example's
  int64_t rows_read_ = 0;
  ExternalSort<RowRecord> rows_;
  ScratchFile names_;  // of each block's groups, with the row where each is first
  ScratchFile values_, extents_, name_ends_, group_names_;  // as in the file
  ExternalSort<PlacedRow> placed_;
  int64_t groups_ = 0, steps_ = 0;
};

bool Maker::BeginsExample(const proto::IndexedBlock& block, const Table& table, int64_t row) const {
  if (spec_.query().empty()) return true;
  if (row <= block.carried_rows()) return row == block.carried_rows();
  const std::vector<int32_t>& queries = table.keys.at(spec_.query()).ids;
  return queries[static_cast<size_t>(row)] != queries[static_cast<size_t>(row) - 1];
}

absl::Status Maker::AddExample() {
  const bool looks_from_begin = !spec_.query().empty() && !target_.by.empty();
  uint64_t begin = std::numeric_limits<uint64_t>::max();
  for (const RowRecord& record : example_) begin = std::min(begin, record.order);
  for (RowRecord& record : example_) {
    if (looks_from_begin && record.value != kNoValue) {
      record.looks = false;
      RETURN_IF_ERROR(rows_.Add(record));
    }
    if (looks_from_begin) {
      record.order = begin;
      record.value = kNoValue;
      record.looks = true;
    }
    RETURN_IF_ERROR(rows_.Add(record));
  }
  rows_read_ += static_cast<int64_t>(example_.size());
  example_.clear();
  return absl::OkStatus();
}

absl::Status Maker::AddBlock(const proto::IndexedBlock& block, const Table& table) {
  const KeyColumn& key = table.keys.at(target_.group_by);
  std::vector<GroupKey> keys;
  for (int64_t i = 0; i < key.names.size(); ++i) keys.push_back(GroupKey::Of(key.names.text(i)));
  const double* const orders = target_.by.empty() ? nullptr : table.orders.at(target_.by).data();
  const IdArray& ids = table.features[static_cast<size_t>(feature_)].ids;
  BlockParts parts(data_, block, table);
  size_t named = 0;
  for (int64_t row = 0; row < table.rows; ++row) {
    const auto at = static_cast<size_t>(row);
    const auto group = static_cast<size_t>(key.ids[at]);
    RowRecord record;
    record.group = keys[group];
    record.row = block.first_row() + row;
    if (BeginsExample(block, table, row)) {
      RETURN_IF_ERROR(AddExample());
      part_ = parts.Of(row);
    }
    const bool taken = part_ == Part::kTraining || target_.held_out;
    if (taken && (!target_.only_positive || IsPositive(table, at))) record.value = ids[at];
    record.order = orders != nullptr ? OrderedBits(orders[at])
                                     : static_cast<uint64_t>(std::max<int64_t>(0, record.value));
    example_.push_back(record);
    if (group < named) continue;
    ++named;
    const std::string& name = key.names.text(static_cast<int64_t>(group));
    const auto size = static_cast<int64_t>(name.size());
    const int64_t first_row = record.row;
    RETURN_IF_ERROR(names_.Append(&first_row, sizeof(first_row)));
    RETURN_IF_ERROR(names_.Append(&size, sizeof(size)));
    RETURN_IF_ERROR(names_.Append(name.data(), name.size()));
  }
  return absl::OkStatus();
}

absl::Status Maker::ReadBlocks() {
  for (const proto::IndexedBlock& block : data_.index->blocks()) {
    Table table;
    RETURN_IF_ERROR(ReadRowsOfBlock(data_, spec_, vocabularies_, block, &table));
    RETURN_IF_ERROR(AddBlock(block, table));
    ShowProgress(output_.file);
  }
  RETURN_IF_ERROR(AddExample());
  return rows_.Sort();
}

absl::Status Maker::PlaceValues(ExternalSort<GroupRecord>* groups) {
  auto reader = rows_.Read();
  RowRecord row;
  GroupKey key;
  GroupRecord group;
  int64_t values = 0;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(&row));
    if (groups_ > 0 && (!more || row.group != key)) RETURN_IF_ERROR(groups->Add(group));
    if (!more) break;
    if (groups_ == 0 || row.group != key) {
      key = row.group;
      group = {row.row, groups_++, {values, 0}};
    }
    group.first_row = std::min<int64_t>(group.first_row, row.row);
    Step();
    if (row.value == kNoValue) continue;
    ++group.values.size;
    ++values;
    const auto narrow = static_cast<int32_t>(row.value);
    RETURN_IF_ERROR(value_bytes_ == 8 ? values_.Append(&row.value, sizeof(row.value))
                                      : values_.Append(&narrow, sizeof(narrow)));
  }
  if (groups_ > std::numeric_limits<int32_t>::max()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("wanted at most 2^31 - 1 different groups, found ", groups_));
  }
  return groups->Sort();
}

absl::Status Maker::AppendName(int64_t first_row, ScratchReader* names) {
  std::string name;
  for (int64_t row = -1; row != first_row;) {
    int64_t size = 0;
    RETURN_IF_ERROR(names->Read(&row, sizeof(row)));
    RETURN_IF_ERROR(names->Read(&size, sizeof(size)));
    name.resize(static_cast<size_t>(size));
    RETURN_IF_ERROR(names->Read(name.data(), name.size()));
  }
  RETURN_IF_ERROR(group_names_.Append(name.data(), name.size()));
  const int64_t end = group_names_.size();
  return name_ends_.Append(&end, sizeof(end));
}

absl::Status Maker::NumberGroups(ExternalSort<GroupRecord>* groups,
                                 ExternalSort<NumberRecord>* numbers) {
  auto reader = groups->Read();
  ScratchReader names(&names_);
  GroupRecord group;
  for (int64_t number = 0;; ++number) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(&group));
    if (!more) return numbers->Sort();
    RETURN_IF_ERROR(extents_.Append(&group.values, sizeof(group.values)));
    RETURN_IF_ERROR(AppendName(group.first_row, &names));
    RETURN_IF_ERROR(numbers->Add({group.place, number}));
    Step();
  }
}

absl::Status Maker::PlaceRows(ExternalSort<NumberRecord>* numbers) {
  auto reader = rows_.Read();
  auto number_of = numbers->Read();
  RowRecord row;
  GroupKey key;
  NumberRecord group;
  bool any = false;
  int64_t values = 0;  // of the group so far
  int64_t before = 0;  // of them: those that come before rows of this order
  uint64_t order = 0;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(&row));
    if (!more) return placed_.Sort();
    if (!any || row.group != key) {
      any = true;
      key = row.group;
      values = before = 0;
      order = row.order;
      RETURN_IF_ERROR(number_of.Next(&group).status());
    }
    if (row.order != order) before = values;
    order = row.order;
    if (before > std::numeric_limits<uint32_t>::max()) {
      return absl::ResourceExhaustedError("wanted groups of less than 2^32 values, found more");
    }
    if (row.looks) {
      RETURN_IF_ERROR(placed_.Add(
          {row.row, {static_cast<uint32_t>(group.number), static_cast<uint32_t>(before)}}));
    }
    values += row.value == kNoValue ? 0 : 1;
    Step();
  }
}

absl::Status Maker::Write(uint64_t key) {
  GroupFileHeader header;
  header.magic = GroupFile::kMagic;
  header.key = key;
  header.rows = rows_read_;
  header.groups = groups_;
  header.values = values_.size() / value_bytes_;
  header.value_bytes = value_bytes_;
  header.names_bytes = group_names_.size();
  header.hash = header.Hash();
  RETURN_IF_ERROR(output_.make_room(header.file_bytes()));
  Output out(output_);
  RETURN_IF_ERROR(out.Append(&header, sizeof(header)));
  auto reader = placed_.Read();
  PlacedRow placed;
  for (int64_t row = 0; row < header.rows; ++row) {
    RETURN_IF_ERROR(reader.Next(&placed).status());
    if (placed.row != row) return absl::InternalError("a row of the index is not in its blocks");
    RETURN_IF_ERROR(out.Append(&placed.says, sizeof(placed.says)));
  }
  for (const ScratchFile* part : {&extents_, &values_, &name_ends_, &group_names_}) {
    RETURN_IF_ERROR(out.CopyAll(*part));
  }
  RETURN_IF_ERROR(out.Flush());
  LogInfo("data set: made ", output_.path, ": ", header.rows, " rows of ", groups_, " groups, ",
          BytesText(header.file_bytes()));
  return absl::OkStatus();
}

absl::Status Maker::Make(uint64_t key) {
  RETURN_IF_ERROR(ReadBlocks());
  {
    ExternalSort<NumberRecord> numbers(&space_, memory_ / kOthersInMemory);
    {
      ExternalSort<GroupRecord> groups(&space_, memory_ / kOthersInMemory);
      RETURN_IF_ERROR(PlaceValues(&groups));
      RETURN_IF_ERROR(NumberGroups(&groups, &numbers));
    }
    RETURN_IF_ERROR(PlaceRows(&numbers));
  }
  return Write(key);
}

}  // namespace

absl::Status MakeGroupFile(const StreamedSpec& data, const GroupTarget& target, uint64_t key,
                           const GroupFileOutput& output) {
  LogInfo("data set: the rows are sorted by ", Quoted(target.group_by), " into ", output.path);
  return Maker(data, target, output).Make(key);
}

}  // namespace coxswain::data
