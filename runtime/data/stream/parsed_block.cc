// The input for parsing a block: its bytes, and room for its columns; then the state of a streamed
// data set, and parsing itself.
#include "runtime/data/stream/parsed_block.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/arrow/open_arrow_files.h"
#include "runtime/data/data_file.h"
#include "runtime/data/data_format.h"
#include "runtime/data/history.h"
#include "runtime/data/input_file.h"
#include "runtime/data/learned.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/group_files.h"
#include "runtime/data/stream/group_ranges.h"
#include "runtime/data/stream/index_builder.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/data/stream/text_block.h"
#include "runtime/data/table_rows.h"
#include "runtime/data/word_scanner.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::data {
namespace {

// Bytes beside the files take at most this share of `dataset.memory`.
constexpr int64_t kBesideInMemory = 2;
// So do bytes that were asked for and are not parsed yet: those of ranges of a file's bytes beyond
// it, and those of row groups, which are larger than blocks, of it.
constexpr int64_t kAheadInMemory = 16, kGroupsAheadInMemory = 4;

template <typename T>
int64_t BytesOf(const std::vector<T>& values) {
  return static_cast<int64_t>(values.size() * sizeof(T));
}

// Takes out what is no row (IndexedBlock.bad_bytes), but for line ends: lines keep their numbers.
void CutOut(const google::protobuf::RepeatedField<int64_t>& bad, std::vector<char>* bytes) {
  if (bad.empty()) return;
  char* const all = bytes->data();
  char* to = all + bad[0];
  for (int i = 0; i + 1 < bad.size(); i += 2) {
    const int64_t end = bad[i] + bad[i + 1];
    to = std::copy_if(all + bad[i], all + end, to, [](char c) { return c == '\n'; });
    const int64_t next = i + 2 < bad.size() ? bad[i + 2] : static_cast<int64_t>(bytes->size());
    to = std::copy(all + end, all + next, to);
  }
  bytes->resize(static_cast<size_t>(to - all));
}

// Whether they are ranges of the block's bytes, one behind the other.
bool FitBadBytes(const proto::IndexedBlock& block) {
  int64_t end = 0;
  for (int i = 0; i < block.bad_bytes_size(); i += 2) {
    if (i + 1 == block.bad_bytes_size()) return false;
    const int64_t begin = block.bad_bytes(i), bytes = block.bad_bytes(i + 1);
    if (begin < end || bytes < 0 || begin > block.bytes() || bytes > block.bytes() - begin) {
      return false;
    }
    end = begin + bytes;
  }
  return true;
}

// The block as the format reads it: its group, or its bytes.
absl::StatusOr<FileBlock> ReadBytes(const StreamedSpec& data, const proto::IndexedBlock& block) {
  const std::string& path = data.path(block);
  const proto::IndexedFile& indexed = data.index->files(block.file());
  RETURN_IF_ERROR(data.checked->Check(path, indexed));
  FileBlock read;
  read.path = path;
  read.first_line = block.line();
  read.columns = {indexed.columns().begin(), indexed.columns().end()};
  read.rows = block.rows();
  if (FormatOf(data.spec).has_groups()) {
    read.group = block.group();
    read.group_row = block.group_row();
    read.file_bytes = indexed.bytes();
    read.hash = block.hash();
    read.open_files = data.arrow.get();
    read.changed = [&data, &path, &indexed] {
      data.kept->Forget(path);
      return ChangedError(path, indexed);
    };
    return read;
  }
  ASSIGN_OR_RETURN(const auto file, data.kept->Open(path));
  const auto changed = [&] {
    data.kept->Forget(path);
    return ChangedError(path, indexed);
  };
  if (static_cast<int64_t>(file->size()) != indexed.bytes()) return changed();
  UnpackedFiles::File copy;
  if (indexed.unpacked_bytes() > 0) {
    ASSIGN_OR_RETURN(copy, data.unpacked->Open(path, indexed));
  }
  const env::RandomAccessFile& from = copy == nullptr ? *file : copy->file();
  const auto offset = static_cast<uint64_t>(block.offset());
  // Of what was read from the copy, that may be what has changed.
  const auto altered = [&] {
    return copy == nullptr ? changed() : data.unpacked->Damaged(path, indexed);
  };
  if (offset > from.size() || static_cast<uint64_t>(block.bytes()) > from.size() - offset) {
    return altered();
  }
  std::vector<char>& bytes = read.bytes;
  bytes.resize(static_cast<size_t>(block.bytes()));
  const bool has_come =
      copy == nullptr && data.ahead->Take({path, block.offset(), block.bytes()}, bytes.data());
  const absl::Status status =
      has_come ? absl::OkStatus() : from.Read(offset, bytes.data(), bytes.size());
  if (!status.ok() && copy != nullptr) return Annotate(status, path);
  if (!status.ok()) {
    // It may have become shorter after it was opened.
    return IsOfOtherSize(path, indexed.bytes()) ? changed() : status;
  }
  StreamHash hash;
  hash.Update(absl::string_view(bytes.data(), bytes.size()));
  if (hash.Finish() != block.hash()) return altered();
  CutOut(block.bad_bytes(), &bytes);
  if (const std::string& beside = data.beside[static_cast<size_t>(block.file())]; !beside.empty()) {
    const int64_t first = block.line() - 1, all = static_cast<int64_t>(beside.size());
    if (first < 0 || first > all || block.rows() > all - first) return changed();
    read.beside = beside.substr(static_cast<size_t>(first), static_cast<size_t>(block.rows()));
  }
  return read;
}

// Reserves room for the rows of a block, so that columns need not move while they grow.
void MakeRoom(const proto::DatasetSpec& spec, int64_t rows, Table* table) {
  const auto size = static_cast<size_t>(rows);
  for (int i = 0; i < spec.features_size(); ++i) {
    const proto::FeatureSpec& feature = spec.features(i);
    TableFeature& columns = table->features[static_cast<size_t>(i)];
    if (feature.kind() == proto::FeatureSpec::NUMERIC) {
      columns.numbers.reserve(size);
    } else if (feature.kind() == proto::FeatureSpec::CATEGORICAL && !feature.multi_valued()) {
      columns.ids.Reserve(size);
    } else if (feature.kind() == proto::FeatureSpec::CATEGORICAL) {
      columns.lists.offsets.reserve(size + 1);
    }
  }
  if (!spec.label().column().empty()) table->labels.reserve(size);
  if (!spec.label().weight().empty()) table->weights.reserve(size);
  for (std::vector<float>& numbers : table->named_labels) numbers.reserve(size);
  for (auto& [column, values] : table->orders) values.reserve(size);
}

void TakeColumn(const StreamedSpec& data, int index, TableFeature* from, ParsedColumn* to) {
  const proto::FeatureSpec& feature = data.spec.features(index);
  if (IsHistory(feature)) return;
  if (feature.kind() == proto::FeatureSpec::NUMERIC) {
    const NumericTransform& transform = data.transforms[static_cast<size_t>(index)];
    to->numbers.resize(from->numbers.size());
    transform.ApplyAll(from->numbers, to->numbers.data());
    return;
  }
  if (feature.kind() == proto::FeatureSpec::VECTOR) {
    const NumericTransform& transform = data.transforms[static_cast<size_t>(index)];
    to->numbers = std::move(from->vectors);
    for (float& number : to->numbers) number = transform.Apply(number);
    to->numbers.shrink_to_fit();
    return;
  }
  if (FormatOf(data.spec).HasIndices(feature)) {
    LearnNumbers(data.index->features(index).learned().numbers(), data.spec.zero_based() ? 0 : 1,
                 {}, from);
  }
  to->ids = std::move(from->ids);
  to->ids.ShrinkToFit();
  to->lists = std::move(from->lists);
  to->lists.ids.ShrinkToFit();
  to->lists.offsets.shrink_to_fit();
  to->lists.weights.shrink_to_fit();
}

// Of the ids that a block has once it is read by the index. Of a feature that keeps names they are
// numbers of texts while the index is made.
int64_t IdBytes(const TableFeature& feature) {
  const IdArray &ids = feature.ids, &listed = feature.lists.ids;
  if (feature.hashes == nullptr) return ids.bytes() + listed.bytes();
  const bool wide =
      feature.hashes->unbounded() || feature.hashes->size() > std::numeric_limits<int32_t>::max();
  return static_cast<int64_t>((ids.size() + listed.size()) *
                              (wide ? sizeof(int64_t) : sizeof(int32_t)));
}

}  // namespace

int64_t ParsedBytes(const proto::DatasetSpec& spec, const Table& rows) {
  int64_t row_bytes = sizeof(uint32_t);
  if (spec.has_known_items()) row_bytes += sizeof(GroupedRow);
  for (const proto::FeatureSpec& feature : spec.features()) {
    if (IsHistory(feature)) row_bytes += sizeof(GroupedRow);
  }
  int64_t bytes = static_cast<int64_t>(sizeof(ParsedBlock)) + BytesOf(rows.labels) +
                  BytesOf(rows.weights) + rows.rows * row_bytes;
  for (const TableFeature& feature : rows.features) {
    bytes += static_cast<int64_t>(sizeof(ParsedColumn)) + IdBytes(feature) +
             static_cast<int64_t>(feature.numbers.size() * sizeof(float)) +
             BytesOf(feature.lists.offsets) + BytesOf(feature.lists.weights) +
             BytesOf(feature.vectors);
  }
  for (const std::vector<float>& numbers : rows.named_labels) bytes += BytesOf(numbers);
  return bytes;
}

const std::string& StreamedSpec::path(int file) const {
  return file < spec.paths_size() ? spec.paths(file)
                                  : spec.split().test_paths(file - spec.paths_size());
}

int64_t StreamedSpec::bytes() const {
  int64_t bytes = BytesOf(side_tables) + groups_ahead;
  for (const std::string& text : beside) bytes += static_cast<int64_t>(text.size());
  return bytes;
}

namespace {

// Reads what rows have beside their files, as it was indexed.
absl::Status ReadBeside(StreamedSpec* data) {
  const DataFormat& format = FormatOf(data->spec);
  const std::vector<std::string> paths = IndexedPaths(data->spec);
  const int files = data->spec.paths_size() + data->spec.split().test_paths_size();
  data->beside.resize(static_cast<size_t>(files));
  for (int i = 0; i < files && format.has_files_beside(); ++i) {
    ASSIGN_OR_RETURN(const std::string path, format.PathBeside(data->spec, data->path(i)));
    if (path.empty()) continue;
    // They are the last ones.
    const auto number = paths.size() - static_cast<size_t>(files - i);
    if (number >= static_cast<size_t>(data->index->files_size()) || paths[number] != path) {
      return absl::InvalidArgumentError("data set: the index is not of this data set");
    }
    const int64_t most = SizesOf(data->spec.stream()).memory / kBesideInMemory - data->bytes();
    ASSIGN_OR_RETURN(data->beside[static_cast<size_t>(i)], format.ReadBeside(path, most));
    RETURN_IF_ERROR(CheckUnchanged(path, data->index->files(static_cast<int>(number)),
                                   /*same_machine=*/false));
  }
  return absl::OkStatus();
}

// Whether the blocks are such as a text has: with places, and what the index has of these.
bool FitText(const proto::DatasetIndex& index) {
  const auto words = static_cast<uint32_t>(index.features(0).vocabulary_size());
  const auto known = [words](uint32_t edge) { return edge >> 1 < words; };
  int64_t rows = 0;
  for (const proto::IndexedBlock& block : index.blocks()) {
    const int64_t places = block.training() + block.validation();
    const int64_t edges = places > 0 ? 1 : 0;
    if (block.first_row() != rows || places > block.rows() || block.test() > 0 ||
        block.head_size() < edges || block.head_size() > places || block.tail_size() < edges ||
        block.tail_size() > places ||
        !std::all_of(block.head().begin(), block.head().end(), known) ||
        !std::all_of(block.tail().begin(), block.tail().end(), known)) {
      return false;
    }
    rows += block.rows();
  }
  return index.own_rows() == rows && index.is_text() &&
         index.features(0).training_counts_size() == static_cast<int>(words);
}

// Whether the first rows of blocks can go on with a query of the block in front.
bool FitCarried(const proto::DatasetSpec& spec, const proto::DatasetIndex& index) {
  const proto::IndexedBlock* before = nullptr;
  for (const proto::IndexedBlock& block : index.blocks()) {
    const int64_t rows = block.carried_rows(), bytes = block.carried_bytes();
    const int64_t examples = block.training() + block.validation() + block.test();
    if (rows < 0 || rows > block.rows() || bytes < 0 || bytes > block.bytes()) return false;
    if (spec.query().empty() ? rows > 0 || examples != block.rows()
                             : examples > block.rows() - rows) {
      return false;
    }
    if (rows > 0 && (before == nullptr || before->file() != block.file())) return false;
    before = &block;
  }
  return true;
}

// The feature with this name, which CheckSpec has found.
int NumberOf(const proto::DatasetSpec& spec, const std::string& name) {
  int number = 0;
  while (number < spec.features_size() && spec.features(number).name() != name) ++number;
  return number;
}

void FindTargets(StreamedSpec* data) {
  const proto::DatasetSpec& spec = data->spec;
  for (const proto::FeatureSpec& feature : spec.features()) {
    if (!IsHistory(feature)) continue;
    data->history = {NumberOf(spec, feature.history_of()), feature.group_by(), feature.by(), false,
                     feature.only_positive()};
  }
  if (!spec.has_known_items()) return;
  const proto::KnownItems& known = spec.known_items();
  data->known = {NumberOf(spec, known.item()), known.group_by(), "", known.held_out(),
                 HasOnlyPositive(spec)};
}

proto::DatasetSpec SpecOfBlocks(const StreamedSpec& data) {
  proto::DatasetSpec less = data.spec;
  less.mutable_split()->clear_holdout_per();
  less.mutable_split()->clear_holdout_validation();
  less.clear_known_items();
  if (!data.cuts.any()) less.mutable_split()->clear_by();
  for (proto::FeatureSpec& feature : *less.mutable_features()) {
    if (!IsHistory(feature)) continue;
    feature.clear_group_by();
    feature.clear_by();
  }
  return less;
}

// What blocks are read through.
void MakeInput(StreamedSpec* data) {
  const int64_t memory = SizesOf(data->spec.stream()).memory;
  if (HasRemoteGroups(*data)) data->groups_ahead = memory / kGroupsAheadInMemory;
  data->kept = std::make_shared<KeptFiles>();
  data->ahead = std::make_shared<ReadsAhead>(data->kept.get(),
                                             std::max(data->groups_ahead, memory / kAheadInMemory));
  data->arrow = std::make_shared<OpenArrowFiles>(InputOf(data->kept.get(), data->ahead.get()));
  data->group_ranges = std::make_shared<GroupRanges>();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const StreamedSpec>> MakeStreamedSpec(
    proto::DatasetSpec spec, std::shared_ptr<const proto::DatasetIndex> index) {
  const int files = spec.paths_size() + spec.split().test_paths_size();
  bool fits = index->files_size() >= files && index->features_size() == spec.features_size() &&
              index->window() >= 1 && index->has_cuts() == !spec.split().by().empty();
  for (const proto::IndexedBlock& block : index->blocks()) {
    fits = fits && block.file() >= 0 && block.file() < files && block.offset() >= 0 &&
           block.bytes() >= 0 && block.group() >= 0 && block.group_row() >= 0 &&
           block.rows() >= 0 && block.rows() < (int64_t{1} << 32) && block.training() >= 0 &&
           block.validation() >= 0 && block.test() >= 0 && FitBadBytes(block);
  }
  const bool is_text = !FormatOf(spec).has_rows();
  fits = fits && (is_text ? FitText(*index) : FitCarried(spec, *index));
  if (!fits) return absl::InvalidArgumentError("data set: the index is not of this data set");
  auto data = std::make_shared<StreamedSpec>();
  data->spec = std::move(spec);
  data->index = std::move(index);
  data->cuts = TimeCuts(data->index->cuts());
  if (is_text) {
    ASSIGN_OR_RETURN(data->runs_held_out, RunsHeldOut(data->spec, *data->index));
  }
  data->unpacked = std::make_shared<UnpackedFiles>(data->spec.stream());
  data->checked = std::make_shared<CheckedFiles>();
  data->groups = std::make_shared<GroupFiles>(data->spec.stream());
  FindTargets(data.get());
  data->of_blocks = SpecOfBlocks(*data);
  data->of_one_part = data->of_blocks;
  data->of_one_part.mutable_split()->clear_by();
  MakeInput(data.get());
  for (int i = 0; i < data->spec.features_size(); ++i) {
    const proto::FeatureSpec& feature = data->spec.features(i);
    const proto::IndexedFeature& indexed = data->index->features(i);
    const proto::LearnedFeature& learned = indexed.learned();
    NumericTransform transform;
    std::shared_ptr<const Vocabulary> vocabulary;
    if (IsHistory(feature)) {
      // It has that of the feature that it is of.
    } else if (feature.kind() != proto::FeatureSpec::CATEGORICAL) {
      transform = {feature.normalization(), learned.shift(), learned.scale()};
    } else if (FormatOf(data->spec).HasIndices(feature)) {
      vocabulary = Vocabulary::OfNumbers(learned.numbers(), data->spec.zero_based() ? 0 : 1);
    } else if (auto unlisted = UnlistedVocabulary(feature)) {
      vocabulary = std::move(unlisted);
    } else {
      vocabulary = Vocabulary::OfTexts({indexed.vocabulary().begin(), indexed.vocabulary().end()},
                                       learned.oov_buckets());
    }
    data->transforms.push_back(transform);
    data->vocabularies.push_back(std::move(vocabulary));
  }
  if (data->spec.joins_size() > 0) {
    ASSIGN_OR_RETURN(data->side_tables,
                     SideTables::Read(data->spec, SizesOf(data->spec.stream()).memory));
  }
  RETURN_IF_ERROR(ReadBeside(data.get()));
  return data;
}

absl::Status PrepareFiles(const StreamedSpec& data) {
  for (int i = 0; i < data.spec.paths_size() + data.spec.split().test_paths_size(); ++i) {
    const proto::IndexedFile& file = data.index->files(i);
    if (file.unpacked_bytes() == 0) continue;
    RETURN_IF_ERROR(data.unpacked->Open(data.path(i), file).status());
  }
  for (const std::optional<GroupTarget>& target : {data.history, data.known}) {
    if (target) RETURN_IF_ERROR(data.groups->Open(data, *target).status());
  }
  return absl::OkStatus();
}

namespace {

// What is read for a block: itself, and what later ones have of its last query, each as a block of
// these rows.
std::vector<proto::IndexedBlock> PiecesOf(const proto::DatasetIndex& index, int64_t number) {
  std::vector<proto::IndexedBlock> pieces = {index.blocks(static_cast<int>(number))};
  for (int64_t i = number + 1; i < index.blocks_size(); ++i) {
    const proto::IndexedBlock& next = index.blocks(static_cast<int>(i));
    if (next.carried_rows() == 0) break;
    pieces.push_back(next);
    if (next.carried_rows() == next.rows()) continue;
    pieces.back().set_rows(next.carried_rows());
    if (next.carried_bytes() > 0) {  // a row group is read by rows
      pieces.back().set_bytes(next.carried_bytes());
      pieces.back().set_hash(next.carried_hash());
    }
    break;
  }
  return pieces;
}

absl::Status ReadPieces(const StreamedSpec& data, const proto::DatasetSpec& spec,
                        const std::vector<proto::IndexedBlock>& pieces, Table* table,
                        TableRows* rows) {
  for (const proto::IndexedBlock& piece : pieces) {
    ASSIGN_OR_RETURN(FileBlock lines, ReadBytes(data, piece));
    // A row has at least one byte, so an invalid index cannot reserve more rows than the block has
    // bytes.
    const int64_t before = table->rows;
    const auto bytes = static_cast<int64_t>(lines.bytes.size());
    if (before == 0) MakeRoom(spec, std::min(piece.rows(), bytes), table);
    // What a column is read as may depend on what else it is for (libffm).
    RETURN_IF_ERROR(FormatOf(spec).ReadBlock(data.spec, std::move(lines), rows));
    if (table->rows - before != piece.rows()) {
      return absl::DataLossError(absl::StrCat(data.path(piece), ": wanted ", piece.rows(),
                                              " rows from line ", piece.line(), " on, found ",
                                              table->rows - before));
    }
  }
  return absl::OkStatus();
}

// Moves all columns of one value in each row to the block's cells.
void KeepByRows(const proto::DatasetSpec& spec, int64_t rows, ParsedBlock* parsed) {
  const auto of_numbers = [](const std::vector<float>& numbers) {
    return CellColumn{.numbers = numbers.empty() ? nullptr : numbers.data()};
  };
  std::vector<CellColumn> columns;
  for (int i = 0; i < spec.features_size(); ++i) {
    const ParsedColumn& column = parsed->columns[static_cast<size_t>(i)];
    const bool vector = spec.features(i).kind() == proto::FeatureSpec::VECTOR;
    columns.push_back(vector ? CellColumn() : of_numbers(column.numbers));
    columns.back().narrow = column.ids.narrow();
    columns.back().wide = column.ids.wide();
  }
  columns.push_back(of_numbers(parsed->labels));
  columns.push_back(of_numbers(parsed->weights));
  for (const std::vector<float>& numbers : parsed->named_labels) {
    columns.push_back(of_numbers(numbers));
  }
  parsed->cells = RowCells(columns, rows);
  for (size_t i = 0; i < parsed->columns.size(); ++i) {
    ParsedColumn& column = parsed->columns[i];
    if (!parsed->cells.Has(i)) continue;
    column.numbers = {};
    column.ids = {};
  }
  parsed->labels = {};
  parsed->weights = {};
  for (std::vector<float>& numbers : parsed->named_labels) numbers = {};
}

// The part of all rows of a block, where they have the same.
std::optional<Part> OnlyPart(const proto::IndexedBlock& block) {
  if (block.training() == block.rows()) return Part::kTraining;
  if (block.validation() == block.rows()) return Part::kValidation;
  if (block.test() == block.rows()) return Part::kTest;
  return std::nullopt;
}

// What is read of a block. A row group is compared by all columns that the index was made of.
const proto::DatasetSpec& SpecOf(const StreamedSpec& data, const proto::IndexedBlock& block) {
  if (FormatOf(data.spec).has_groups()) return data.spec;
  return OnlyPart(block) ? data.of_one_part : data.of_blocks;
}

// The examples of each part, as they were when the block was indexed.
void DrawParts(const StreamedSpec& data, const proto::IndexedBlock& block, const Table& table,
               ParsedBlock* parsed) {
  BlockParts parts(data, block, table);
  if (data.spec.query().empty()) {
    for (int64_t row = 0; row < table.rows; ++row) {
      parsed->rows[static_cast<size_t>(parts.Of(row))].push_back(static_cast<uint32_t>(row));
    }
    return;
  }
  const std::vector<int32_t>& queries = table.keys.at(data.spec.query()).ids;
  for (auto row = static_cast<size_t>(block.carried_rows()); row < queries.size();) {
    size_t end = row + 1;
    while (end < queries.size() && queries[end] == queries[row]) ++end;
    const auto part = static_cast<size_t>(parts.Of(static_cast<int64_t>(row)));
    parsed->rows[part].push_back(static_cast<uint32_t>(row));
    parsed->query_ends[part].push_back(static_cast<uint32_t>(end));
    row = end;
  }
}

// What the group files say of its rows.
absl::Status ReadGroupedRows(const StreamedSpec& data, const proto::IndexedBlock& block,
                             int64_t rows, ParsedBlock* parsed) {
  const auto read = [&](const GroupTarget& target, std::vector<GroupedRow>* to) {
    ASSIGN_OR_RETURN(const auto file, data.groups->Open(data, target));
    to->resize(static_cast<size_t>(rows));
    return file->ReadRows(block.first_row(), absl::MakeSpan(*to));
  };
  if (data.history) RETURN_IF_ERROR(read(*data.history, &parsed->of_history));
  if (!data.known || block.validation() + block.test() == 0) return absl::OkStatus();
  return read(*data.known, &parsed->of_known);
}

}  // namespace

BlockParts::BlockParts(const StreamedSpec& data, const proto::IndexedBlock& block,
                       const Table& table)
    : data_(data), block_(block), draw_(data.spec.split(), data.spec.seed()) {
  if (block.file() >= data.spec.paths_size()) {
    only_ = Part::kTest;
  } else if (data.spec.query().empty()) {
    only_ = OnlyPart(block);
  }
  if (only_) return;
  if (data.cuts.any()) values_ = table.orders.at(data.spec.split().by()).data();
  std::vector<int64_t> held_out, validation;
  // What cannot be decoded gives other parts than the index says, which is found out.
  if (DecodeRows(block.held_out(), 0, block.rows(), &held_out)) {
    held_out_ = RowMarks(std::move(held_out));
  }
  if (DecodeRows(block.held_out_validation(), 0, block.rows(), &validation)) {
    validation_ = RowMarks(std::move(validation));
  }
}

Part BlockParts::Of(int64_t row) {
  if (only_) return *only_;
  if (held_out_.Has(row)) return validation_.Has(row) ? Part::kValidation : Part::kTest;
  const int64_t number = block_.first_row() + row;
  if (values_ != nullptr) return data_.cuts.Of(number, values_[row]);
  // A split by a column that holds out nothing by its values draws nothing, either.
  return data_.spec.split().by().empty() ? draw_(number) : Part::kTraining;
}

absl::Status ReadRowsOfBlock(const StreamedSpec& data, const proto::DatasetSpec& spec,
                             const KnownVocabularies& vocabularies,
                             const proto::IndexedBlock& block, Table* table) {
  TableRows rows(table, 0);
  rows.LeaveOutChain();
  table->side_tables = data.side_tables;
  RETURN_IF_ERROR(BindColumns(spec, vocabularies, table, &rows));
  table->places.StartFile(data.path(block));
  return ReadPieces(data, spec, {block}, table, &rows);
}

namespace {

absl::StatusOr<std::shared_ptr<const ParsedBlock>> ParseText(const StreamedSpec& data,
                                                             const proto::IndexedBlock& block) {
  ASSIGN_OR_RETURN(FileBlock read, ReadBytes(data, block));
  const auto file = InputFile::OfBytes(read.path, std::move(read.bytes));
  WordScanner words(file.get(), read.first_line, data.spec.text().lower_case());
  TextBlockMaker made(block.first_row());
  absl::string_view word;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, words.Next(&word));
    if (words.line_ended()) made.EndSentence();
    if (!found || made.words() == block.rows()) break;
    made.Add(data.vocabularies[0]->Find(word).value_or(-1));
  }
  if (block.ends_sentence()) made.EndSentence();
  auto parsed = std::make_shared<ParsedBlock>();
  parsed->first_row = block.first_row();
  parsed->text =
      made.Parts([&](int64_t run) -> bool { return data.runs_held_out[static_cast<size_t>(run)]; });
  parsed->tokens = made.TakeTokens();
  parsed->tokens.shrink_to_fit();
  parsed->bytes = static_cast<int64_t>(sizeof(ParsedBlock)) + BytesOf(parsed->tokens);
  if (made.words() != block.rows() || parsed->text.places(Part::kTraining) != block.training() ||
      parsed->text.places(Part::kValidation) != block.validation()) {
    return absl::DataLossError(absl::StrCat(read.path, ": the index has other words"));
  }
  return parsed;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ParsedBlock>> ParseBlock(const StreamedSpec& data,
                                                              int64_t number) {
  const proto::IndexedBlock& block = data.index->blocks(static_cast<int>(number));
  if (data.index->is_text()) return ParseText(data, block);
  const std::string& path = data.path(block);
  Table table;
  TableRows rows(&table, 0);
  rows.LeaveOutChain();
  table.side_tables = data.side_tables;
  const proto::DatasetSpec& spec = SpecOf(data, block);
  RETURN_IF_ERROR(BindColumns(spec, data.vocabularies, &table, &rows));
  table.places.StartFile(path);
  RETURN_IF_ERROR(ReadPieces(data, spec, PiecesOf(*data.index, number), &table, &rows));
  auto parsed = std::make_shared<ParsedBlock>();
  parsed->bytes = ParsedBytes(data.spec, table);
  RETURN_IF_ERROR(ReadGroupedRows(data, block, table.rows, parsed.get()));
  parsed->columns.resize(table.features.size());
  for (size_t i = 0; i < table.features.size(); ++i) {
    TakeColumn(data, static_cast<int>(i), &table.features[i], &parsed->columns[i]);
  }
  parsed->labels = std::move(table.labels);
  parsed->labels.shrink_to_fit();
  parsed->weights = std::move(table.weights);
  parsed->weights.shrink_to_fit();
  parsed->named_labels = std::move(table.named_labels);
  for (std::vector<float>& numbers : parsed->named_labels) numbers.shrink_to_fit();
  if (data.spec.shuffle()) KeepByRows(data.spec, table.rows, parsed.get());
  parsed->first_row = block.first_row();
  DrawParts(data, block, table, parsed.get());
  const int64_t found[] = {block.training(), block.validation(), block.test()};
  for (size_t part = 0; part < parsed->rows.size(); ++part) {
    if (static_cast<int64_t>(parsed->rows[part].size()) != found[part]) {
      return absl::DataLossError(absl::StrCat(path, ": the index has other parts"));
    }
    parsed->rows[part].shrink_to_fit();
    parsed->query_ends[part].shrink_to_fit();
  }
  parsed->places = std::move(table.places);
  parsed->places.ShrinkToFit();
  return parsed;
}

}  // namespace coxswain::data
