// One block at a time: its rows go to a table, from there to the tallies of features and labels,
// and the table is emptied. Finally the learned vocabularies and statistics are written.
#include "runtime/data/stream/index_builder.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/dataset_keys.h"
#include "runtime/data/hash.h"
#include "runtime/data/label_summary.h"
#include "runtime/data/learned.h"
#include "runtime/data/names.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/split.h"
#include "runtime/data/stream/feature_tally.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/parsed_block.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/data/table_rows.h"
#include "runtime/data/trained_rows.h"

namespace coxswain::data {
namespace {

using proto::DatasetIndex;
using proto::DatasetSpec;
using proto::IndexedBlock;

constexpr int64_t kVersion = 1;  // of what an index has
constexpr size_t kParts = 3;
// Blocks of a row group end between pieces of so many rows, of which a block has a few dozen.
constexpr int64_t kPieces = 32, kMostPiece = 8192;
constexpr int64_t kProgressBytes = int64_t{64} << 20;

// Rows that are added at a time.
int64_t PieceRows(const DatasetSpec& spec, int64_t block_bytes) {
  int64_t numbers = 1;  // of a row, of 8 bytes at most
  for (const proto::FeatureSpec& feature : spec.features()) {
    numbers += std::max<int64_t>(1, feature.width());
  }
  return std::clamp<int64_t>(block_bytes / (kPieces * 8 * numbers), 1, kMostPiece);
}

class IndexBuilder final : private RowListener {
 public:
  IndexBuilder(const DatasetSpec& spec, const IndexOptions& options)
      : spec_(spec),
        options_(options),
        sizes_(SizesOf(spec.stream())),
        draw_(spec.split(), spec.seed()),
        rows_(&table_, spec.trained().rows()),
        named_labels_(static_cast<size_t>(spec.labels_size())),
        piece_rows_(PieceRows(spec, sizes_.group_bytes)) {
    rows_.set_listener(this);
  }
  absl::StatusOr<DatasetIndex> Build();

 private:
  absl::Status OnFile(InputFile* input, absl::Span<const std::string> columns,
                      int64_t next_line) override;
  absl::Status OnRow(InputFile* input, int64_t next_line) override;
  absl::Status OnEnd(InputFile* input) override;
  absl::Status OnGroup(const RowGroup& group) override;
  absl::Status OnGroupRows(int64_t rows) override;
  int64_t bytes_left(const InputFile& input) const override {
    return sizes_.block_bytes - (static_cast<int64_t>(input.offset()) - next_.offset());
  }
  int64_t piece_rows() const override { return piece_rows_; }
  absl::Status ReadFiles(const google::protobuf::RepeatedPtrField<std::string>& paths);
  // Ends a block with the rows since the last one, up to the input's position.
  absl::Status CutBlock(InputFile* input, int64_t next_line);
  absl::Status CutGroup();
  // Counts the rows of the block that ends here, and empties the table.
  absl::Status AddBlock(const std::string& path);
  absl::Status CheckVocabularies() const;
  void AddLabels();
  void WriteLabels();
  absl::Status ChooseWindow();
  void Report();

  const DatasetSpec& spec_;
  const IndexOptions& options_;
  const StreamSizes sizes_;
  const PartDraw draw_;
  Table table_;  // of the rows since the last block
  TableRows rows_;
  std::vector<FeatureTally> tallies_;
  std::array<LabelSummary, kParts> labels_;                     // by part
  std::vector<std::array<LabelSummary, kParts>> named_labels_;  // parallel to the spec's labels
  DatasetIndex index_;
  IndexedBlock next_;  // the beginning of the block that is being read
  RowGroup group_;
  int64_t group_done_ = 0;  // rows of it
  const int64_t piece_rows_;
  bool test_files_ = false;
  std::vector<Part> parts_;  // of the rows of a block
  int64_t all_bytes_ = 0, done_bytes_ = 0, reported_ = 0;
};

absl::Status IndexBuilder::OnFile(InputFile* input, absl::Span<const std::string> columns,
                                  int64_t next_line) {
  proto::IndexedFile* file = index_.mutable_files(index_.files_size() - 1);
  *file->mutable_columns() = {columns.begin(), columns.end()};
  input->StartBlock();
  next_.set_offset(static_cast<int64_t>(input->offset()));
  next_.set_line(next_line);
  return absl::OkStatus();
}

absl::Status IndexBuilder::OnRow(InputFile* input, int64_t next_line) {
  const int64_t bytes = static_cast<int64_t>(input->offset()) - next_.offset();
  return bytes < sizes_.block_bytes ? absl::OkStatus() : CutBlock(input, next_line);
}

absl::Status IndexBuilder::OnEnd(InputFile* input) {
  if (input->packed()) {
    index_.mutable_files(index_.files_size() - 1)
        ->set_unpacked_bytes(static_cast<int64_t>(input->offset()));
  }
  return table_.rows == 0 ? absl::OkStatus() : CutBlock(input, 0);
}

absl::Status IndexBuilder::OnGroup(const RowGroup& group) {
  group_ = group;
  group_done_ = 0;
  next_.set_group(group.group);
  next_.set_group_row(0);
  next_.set_line(group.first_line);
  next_.set_hash(group.hash);
  return absl::OkStatus();
}

absl::Status IndexBuilder::OnGroupRows(int64_t rows) {
  group_done_ += rows;
  const bool ends = group_done_ == group_.rows || ParsedBytes(table_) >= sizes_.group_bytes;
  return ends ? CutGroup() : absl::OkStatus();
}

absl::Status IndexBuilder::CutGroup() {
  const double share = static_cast<double>(table_.rows) / static_cast<double>(group_.rows);
  next_.set_bytes(static_cast<int64_t>(static_cast<double>(group_.bytes) * share));
  RETURN_IF_ERROR(AddBlock(group_.path));
  next_.set_group_row(group_done_);
  next_.set_line(group_.first_line + group_done_);
  return absl::OkStatus();
}

absl::Status IndexBuilder::CutBlock(InputFile* input, int64_t next_line) {
  next_.set_bytes(static_cast<int64_t>(input->offset()) - next_.offset());
  next_.set_hash(input->StartBlock());
  RETURN_IF_ERROR(AddBlock(input->path()));
  next_.set_offset(next_.offset() + next_.bytes());
  next_.set_line(next_line);
  return absl::OkStatus();
}

absl::Status IndexBuilder::AddBlock(const std::string& path) {
  next_.set_rows(table_.rows);
  next_.set_file(index_.files_size() - 1);
  next_.set_first_row(index_.rows());
  parts_.clear();
  std::array<int64_t, 3> counts = {};
  for (int64_t row = 0; row < table_.rows; ++row) {
    parts_.push_back(test_files_ ? Part::kTest : draw_(index_.rows() + row));
    ++counts[static_cast<size_t>(parts_.back())];
  }
  next_.set_training(counts[0]);
  next_.set_validation(counts[1]);
  next_.set_test(counts[2]);
  for (size_t i = 0; i < tallies_.size(); ++i) {
    tallies_[i].Add(table_.features[i], parts_, table_.places);
  }
  AddLabels();
  index_.set_largest_block(std::max(index_.largest_block(), ParsedBytes(table_)));
  index_.set_rows(index_.rows() + table_.rows);
  *index_.add_blocks() = next_;
  done_bytes_ += next_.bytes();
  // The columns stay where they are, and texts keep their numbers.
  for (TableFeature& feature : table_.features) {
    feature.numbers.clear();
    feature.vectors.clear();
    std::fill(feature.element_rows.begin(), feature.element_rows.end(), 0);
    feature.ids.clear();
    feature.lists.clear();
  }
  table_.labels.clear();
  for (std::vector<float>& numbers : table_.named_labels) numbers.clear();
  table_.weights.clear();
  table_.rows = 0;
  table_.places = RowPlaces();
  table_.places.StartFile(path);
  Report();
  return CheckVocabularies();
}

void IndexBuilder::AddLabels() {
  for (size_t row = 0; row < table_.labels.size(); ++row) {
    labels_[static_cast<size_t>(parts_[row])].Add(table_.labels[row]);
  }
  size_t at = 0;
  const std::vector<NamedLabel> named = NamedLabels(spec_);
  for (size_t i = 0; i < named.size(); ++i) {
    if (named[i].is_weight) continue;
    auto& summaries = named_labels_[at++];
    for (size_t row = 0; row < parts_.size(); ++row) {
      summaries[static_cast<size_t>(parts_[row])].Add(table_.named_labels[i][row]);
    }
  }
}

void IndexBuilder::Report() {
  if (done_bytes_ - reported_ < kProgressBytes) return;
  reported_ = done_bytes_;
  // For compressed files, progress is counted in decompressed bytes.
  if (options_.progress) options_.progress(std::min(done_bytes_, all_bytes_), all_bytes_);
}

absl::Status IndexBuilder::CheckVocabularies() const {
  int64_t all = BytesOf(table_.side_tables), largest = -1;
  size_t of = 0;
  for (size_t i = 0; i < tallies_.size(); ++i) {
    const int64_t bytes = tallies_[i].bytes(table_.features[i]);
    all += bytes;
    if (bytes <= largest) continue;
    largest = bytes;
    of = i;
  }
  if (all <= sizes_.memory) return absl::OkStatus();
  const proto::FeatureSpec& feature = spec_.features(static_cast<int>(of));
  return absl::ResourceExhaustedError(absl::StrCat(
      "data set: feature ", Quoted(feature.name()), ": after ", index_.rows(),
      " rows its vocabulary has ", table_.features[of].texts.size(),
      " values, and vocabularies take ", BytesText(all), ", more than dataset.memory (",
      BytesText(sizes_.memory), "); wanted id: hash, which needs no vocabulary (a hash table), or ",
      "hash_buckets, or more memory"));
}

absl::Status IndexBuilder::ReadFiles(const google::protobuf::RepeatedPtrField<std::string>& paths) {
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(*index_.add_files(), IdentifyFile(path));
    const proto::IndexedFile before = index_.files(index_.files_size() - 1);
    table_.places = RowPlaces();
    table_.places.StartFile(path);
    RETURN_IF_ERROR(FormatOf(spec_).Read(spec_, path, &rows_));
    // The file may have changed since the index was made.
    RETURN_IF_ERROR(CheckUnchanged(path, before, /*same_machine=*/true));
  }
  return absl::OkStatus();
}

absl::Status IndexBuilder::ChooseWindow() {
  // Two windows are in memory: the current one and the next one.
  const int64_t memory = sizes_.memory - BytesOf(table_.side_tables);
  const int64_t fits = memory / 2 / std::max<int64_t>(1, index_.largest_block());
  if (sizes_.window > fits) {
    return absl::ResourceExhaustedError(
        absl::StrCat("data set: dataset.shuffle_window: ", sizes_.window, " blocks of up to ",
                     BytesText(index_.largest_block()),
                     " in memory, and the next ones, do not fit dataset.memory (",
                     BytesText(memory), "): wanted at most ", fits, " blocks, or more memory"));
  }
  if (fits < 1) {
    return absl::ResourceExhaustedError(
        absl::StrCat("data set: a block takes up to ", BytesText(index_.largest_block()),
                     " in memory, and two of them do not fit dataset.memory (", BytesText(memory),
                     "): wanted smaller ones (dataset.block_bytes), or more memory"));
  }
  index_.set_window(sizes_.window > 0 ? sizes_.window : std::min(fits, kMostWindow));
  return absl::OkStatus();
}

void IndexBuilder::WriteLabels() {
  std::vector<LabelSummary> all(labels_.begin(), labels_.end());
  for (const auto& of_label : named_labels_)
    all.insert(all.end(), of_label.begin(), of_label.end());
  for (const LabelSummary& summary : all) {
    proto::IndexedLabels* labels = index_.add_labels();
    labels->set_count(summary.count);
    labels->set_sum(summary.sum);
    labels->set_low(summary.low);
    labels->set_high(summary.high);
    labels->set_many(summary.many);
    for (const auto& [value, count] : summary.values) {
      labels->add_values(value);
      labels->add_counts(count);
    }
  }
}

absl::StatusOr<DatasetIndex> IndexBuilder::Build() {
  RETURN_IF_ERROR(BindColumns(spec_, {}, &table_, &rows_));
  for (int i = 0; i < spec_.features_size(); ++i) tallies_.emplace_back(spec_, i);
  for (const auto* paths : {&spec_.paths(), &spec_.split().test_paths()}) {
    for (const std::string& path : *paths) {
      ASSIGN_OR_RETURN(const proto::IndexedFile file, IdentifyFile(path));
      all_bytes_ += file.bytes();
    }
  }
  RETURN_IF_ERROR(ReadFiles(spec_.paths()));
  index_.set_own_rows(index_.rows());
  // What has not come yet may have what these files lack.
  if (!spec_.followed()) {
    RETURN_IF_ERROR(rows_.CheckFound(spec_.paths(0)));
    if (index_.rows() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec_.paths(0), ": wanted at least one row, found none"));
    }
  }
  *index_.mutable_trained_rows() = RowsToKeep(spec_, rows_.chain());
  index_.set_since_training(static_cast<int32_t>(CompareWithTraining(spec_, rows_.chain())));
  test_files_ = true;
  RETURN_IF_ERROR(ReadFiles(spec_.split().test_paths()));
  const std::vector<std::string> paths = IndexedPaths(spec_);
  for (size_t i = static_cast<size_t>(index_.files_size()); i < paths.size(); ++i) {
    ASSIGN_OR_RETURN(*index_.add_files(), IdentifyFile(paths[i]));
  }
  for (size_t i = 0; i < tallies_.size(); ++i) {
    RETURN_IF_ERROR(tallies_[i].Finish(table_.features[i], index_.add_features()));
  }
  WriteLabels();
  RETURN_IF_ERROR(ChooseWindow());
  index_.set_content_hash(table_.content_hash);
  index_.set_key(IndexKey(spec_));
  const auto bytes = static_cast<int64_t>(index_.ByteSizeLong());
  if (bytes > options_.most_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "data set: its index, which each worker gets, takes ", BytesText(bytes),
        ": wanted at most ", BytesText(options_.most_bytes), ", so id: hash or hash_buckets for ",
        "features of many values, or larger blocks (dataset.block_bytes)"));
  }
  return std::move(index_);
}

}  // namespace

uint64_t IndexKey(const DatasetSpec& spec) {
  DatasetSpec content = spec;
  content.clear_shuffle();
  content.clear_example_ids();
  content.clear_per_worker();
  const StreamSizes sizes = SizesOf(spec.stream());
  uint64_t key = HashPair(kVersion, HashSpec(std::move(content)));
  for (const int64_t number :
       {sizes.memory, sizes.block_bytes, sizes.window, int64_t{spec.paths_size()},
        int64_t{spec.split().test_paths_size()}}) {
    key = HashPair(key, static_cast<uint64_t>(number));
  }
  return key;
}

std::vector<std::string> IndexedPaths(const DatasetSpec& spec) {
  std::vector<std::string> paths(spec.paths().begin(), spec.paths().end());
  paths.insert(paths.end(), spec.split().test_paths().begin(), spec.split().test_paths().end());
  for (const proto::FeatureSpec& feature : spec.features()) {
    // The model's vocabularies and statistics are used instead.
    if (feature.vocabulary_file().empty() || FindLearned(spec, feature.name()) != nullptr) continue;
    paths.push_back(feature.vocabulary_file());
  }
  for (const proto::JoinSpec& join : spec.joins()) paths.push_back(join.path());
  return paths;
}

absl::StatusOr<DatasetIndex> BuildIndex(const DatasetSpec& spec, const IndexOptions& options) {
  return IndexBuilder(spec, options).Build();
}

}  // namespace coxswain::data
