// Emptying a table; blocks and parts that are added; then the window, and the whole index.
#include "runtime/data/stream/index_draft.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/bytes_text.h"
#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/dataset_keys.h"
#include "runtime/data/names.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/stream_options.h"

namespace coxswain::data {
namespace {

constexpr int64_t kProgressBytes = int64_t{64} << 20;
// Counts of values take this share of `dataset.memory`, all together.
constexpr int64_t kCountsInMemory = 8;

int OwnFiles(const proto::DatasetSpec& spec) {
  return spec.paths_size() + spec.split().test_paths_size();
}

int64_t CountsMemory(const proto::DatasetSpec& spec, size_t ranges) {
  return SizesOf(spec.stream()).memory / kCountsInMemory /
         static_cast<int64_t>(std::max<size_t>(1, ranges));
}

}  // namespace

void EmptyTable(const std::string& path, Table* table) {
  for (TableFeature& feature : table->features) {
    feature.numbers.clear();
    feature.vectors.clear();
    std::fill(feature.element_rows.begin(), feature.element_rows.end(), 0);
    feature.ids.clear();
    feature.lists.clear();
  }
  for (auto& [column, key] : table->keys) key = KeyColumn();
  for (auto& [column, values] : table->orders) values.clear();
  table->labels.clear();
  for (std::vector<float>& numbers : table->named_labels) numbers.clear();
  table->weights.clear();
  table->rows = 0;
  table->places = RowPlaces();
  table->places.StartFile(path);
}

void ForgetTexts(Table* table) {
  for (TableFeature& feature : table->features) feature.texts = Interner();
}

IndexDraft::IndexDraft(const proto::DatasetSpec& spec, const IndexOptions& options,
                       std::vector<proto::ValueRange> ranges)
    : spec_(spec),
      options_(options),
      ranges_(std::move(ranges)),
      rows_(&table_, spec.trained().rows()),
      tally_(spec) {
  if (!ranges_.empty()) tally_.CountValues(ranges_, CountsMemory(spec, ranges_.size()));
}

absl::Status IndexDraft::Start() {
  RETURN_IF_ERROR(BindColumns(spec_, {}, &table_, &rows_));
  if (spec_.max_bad_rows() > 0) {
    RETURN_IF_ERROR(rows_.PassOverBadRows(spec_, spec_.max_bad_rows()));
  }
  for (const auto* paths : {&spec_.paths(), &spec_.split().test_paths()}) {
    for (const std::string& path : *paths) {
      ASSIGN_OR_RETURN(const proto::IndexedFile file, IdentifyFile(path));
      all_bytes_ += file.bytes();
    }
  }
  const std::vector<std::string> paths = IndexedPaths(spec_);
  for (auto i = static_cast<size_t>(OwnFiles(spec_)); i < paths.size(); ++i) {
    ASSIGN_OR_RETURN(others_.emplace_back(), IdentifyFile(paths[i]));
  }
  return absl::OkStatus();
}

proto::IndexedFile* IndexDraft::BeginFile(const std::string& path, proto::IndexedFile identity) {
  *index_.add_files() = std::move(identity);
  path_ = path;
  EmptyTable(path_, &table_);
  return index_.mutable_files(index_.files_size() - 1);
}

absl::Status IndexDraft::AddBlock(proto::IndexedBlock block) {
  const int file = index_.files_size() - 1;
  if (visit_) {
    RETURN_IF_ERROR(visit_(table_, tally_.rows(), file));
    tally_.PassOver(table_.rows);
    EmptyTable(path_, &table_);
    ForgetTexts(&table_);
    Report(block.bytes());
    return absl::OkStatus();
  }
  if (held_out_ != nullptr) {
    ASSIGN_OR_RETURN(HeldOut held_out,
                     held_out_->Among(tally_.rows(), tally_.rows() + table_.rows));
    tally_.HoldOut(std::move(held_out));
  }
  RETURN_IF_ERROR(tally_.AddBlock(table_, {file, 0}, test_files_, &block));
  const int64_t bytes = block.bytes();
  EmptyTable(path_, &table_);
  Report(bytes);
  if (!ranges_.empty()) {
    ForgetTexts(&table_);
    return absl::OkStatus();
  }
  *index_.add_blocks() = std::move(block);
  return tally_.CheckVocabularies(table_);
}

absl::Status IndexDraft::AddPart(const proto::IndexedPart& part, int32_t first_file) {
  const int32_t end = index_.files_size();
  bool fits = part.files_size() <= end - first_file && part.after().rows() >= tally_.rows();
  for (const proto::IndexedBlock& block : part.blocks()) {
    fits = fits && block.file() >= 0 && block.file() < part.files_size();
  }
  if (!fits) return absl::InvalidArgumentError("the part is of another data set");
  RETURN_IF_ERROR(tally_.Merge(part, first_file, end, &table_));
  RETURN_IF_ERROR(ContinueChain(part.after(), &rows_.chain()));
  int64_t bytes = 0;
  for (const proto::IndexedBlock& block : part.blocks()) {
    bytes += block.bytes();
    if (!ranges_.empty()) continue;
    proto::IndexedBlock* const added = index_.add_blocks();
    *added = block;
    added->set_file(first_file + block.file());
  }
  for (int i = 0; i < part.files_size(); ++i) {
    proto::IndexedFile* const file = index_.mutable_files(first_file + i);
    *file->mutable_columns() = part.files(i).columns();
    file->set_unpacked_bytes(part.files(i).unpacked_bytes());
    RETURN_IF_ERROR(AddBadRows(part.files(i), first_file + i));
  }
  for (const uint64_t content : part.contents()) rows_.AddContent(content);
  if (rows_.wants_names() && part.names_size() > 0) {
    rows_.SetNames({part.names().begin(), part.names().end()});
  }
  for (const std::string& column : part.found()) rows_.SetFound(column, true);
  for (const std::string& column : part.not_found()) rows_.SetFound(column, false);
  Report(bytes);
  return tally_.CheckVocabularies(table_);
}

absl::Status IndexDraft::AddBadRows(const proto::IndexedFile& part, int32_t file) {
  proto::IndexedFile* const all = index_.mutable_files(file);
  all->set_bad_rows(all->bad_rows() + part.bad_rows());
  for (const proto::BadRow& row : part.first_bad_rows()) {
    if (all->first_bad_rows_size() == static_cast<int>(BadRows::kShown)) break;
    *all->add_first_bad_rows() = row;
  }
  int64_t count = 0;
  for (const proto::IndexedFile& one : index_.files()) count += one.bad_rows();
  if (count <= spec_.max_bad_rows() || part.first_bad_rows().empty()) return absl::OkStatus();
  const proto::BadRow& last = *part.first_bad_rows().rbegin();
  const std::string path = IndexedPaths(spec_)[static_cast<size_t>(file)];
  return TooManyBadRows(absl::StrCat(path, ":", last.line(), last.what()), count,
                        spec_.max_bad_rows());
}

absl::StatusOr<proto::IndexState> IndexDraft::State(int64_t rows, int32_t last_file) const {
  proto::IndexState state;
  tally_.Save(&state);
  SaveChain(rows_.chain(), &state);
  if (held_out_ == nullptr) return state;
  const int64_t begin = tally_.rows();
  const int64_t end =
      rows >= 0 ? begin + rows : held_out_->RowsUpTo(static_cast<size_t>(last_file));
  ASSIGN_OR_RETURN(const HeldOut held_out, held_out_->Among(begin, end));
  *state.mutable_held_out() = ToProto(held_out, begin);
  return state;
}

absl::Status IndexDraft::EndFile(const std::string& path, int32_t file) const {
  return CheckUnchanged(path, index_.files(file), /*same_machine=*/true);
}

void IndexDraft::Report(int64_t bytes) {
  done_bytes_ += bytes;
  if (done_bytes_ - reported_ < kProgressBytes) return;
  reported_ = done_bytes_;
  // For compressed files, progress is counted in decompressed bytes.
  if (options_.progress) options_.progress(std::min(done_bytes_, all_bytes_), all_bytes_);
}

absl::Status IndexDraft::EndOwnFiles() {
  index_.set_own_rows(tally_.rows());
  test_files_ = true;
  // What has not come yet may have what these files lack.
  if (!spec_.followed()) {
    RETURN_IF_ERROR(rows_.CheckFound(spec_.paths(0)));
    if (tally_.rows() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec_.paths(0), ": wanted at least one row, found none"));
    }
  }
  *index_.mutable_trained_rows() = RowsToKeep(spec_, rows_.chain());
  SinceTraining since = CompareWithTraining(spec_, rows_.chain());
  if (!FormatOf(spec_).has_rows()) {
    index_.mutable_trained_rows()->set_words_hash(rows_.chain().Hash());
    since = CompareTextWithTraining(spec_, rows_.chain(), /*numbers=*/nullptr);
  }
  index_.set_since_training(static_cast<int32_t>(since));
  return absl::OkStatus();
}

absl::Status IndexDraft::ChooseWindow() {
  const StreamSizes sizes = SizesOf(spec_.stream());
  // Two windows are in memory: the current one and the next one.
  // A byte of each row, where they have one beside.
  const bool has_beside = FormatOf(spec_).has_files_beside();
  const int64_t memory =
      sizes.memory - BytesOf(table_.side_tables) - (has_beside ? tally_.rows() : 0);
  const int64_t largest = index_.largest_block();
  const int64_t fits = memory / 2 / std::max<int64_t>(1, largest);
  if (sizes.window > fits) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "data set: dataset.shuffle_window: ", sizes.window, " blocks of up to ", BytesText(largest),
        " in memory, and the next ones, do not fit dataset.memory (", BytesText(memory),
        "): wanted at most ", fits, " blocks, or more memory"));
  }
  if (fits < 1) {
    return absl::ResourceExhaustedError(
        absl::StrCat("data set: a block takes up to ", BytesText(largest),
                     " in memory, and two of them do not fit dataset.memory (", BytesText(memory),
                     "): wanted smaller ones (dataset.block_bytes)",
                     spec_.query().empty() ? "" : ", smaller queries, which are read as a whole",
                     ", or more memory"));
  }
  index_.set_window(sizes.window > 0 ? sizes.window : std::min(fits, kMostWindow));
  return absl::OkStatus();
}

absl::StatusOr<proto::DatasetIndex> IndexDraft::Finish() {
  if (!tally_.cuts().over()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data set: split.by: the values of ", Quoted(spec_.split().by()),
        " are others than when they were read before; wanted files that do not change"));
  }
  const std::vector<std::string> paths = IndexedPaths(spec_);
  for (const proto::IndexedFile& other : others_) {
    const std::string& path = paths[static_cast<size_t>(index_.files_size())];
    RETURN_IF_ERROR(CheckUnchanged(path, other, /*same_machine=*/true));
    *index_.add_files() = other;
  }
  index_.set_rows(tally_.rows());
  index_.set_largest_block(tally_.largest_block());
  RETURN_IF_ERROR(tally_.Finish(table_, &index_));
  RETURN_IF_ERROR(ChooseWindow());
  index_.set_content_hash(table_.content_hash);
  index_.set_key(IndexKey(spec_));
  const auto bytes = static_cast<int64_t>(index_.ByteSizeLong());
  if (bytes > options_.most_bytes) {
    const char* const names = HashNames(spec_) != 0 ? " without keep_names" : "";
    return absl::ResourceExhaustedError(absl::StrCat(
        "data set: its index, which each worker gets, takes ", BytesText(bytes),
        ": wanted at most ", BytesText(options_.most_bytes), ", so id: hash or hash_buckets", names,
        " for features of many values, or larger blocks (dataset.block_bytes)"));
  }
  return std::move(index_);
}

}  // namespace coxswain::data
