// Columns that are bound for each part; reading a part, of files, of row groups or of bytes; adding
// it up.
#include "runtime/data/stream/file_part.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/data_file.h"
#include "runtime/data/data_format.h"
#include "runtime/data/dataset_keys.h"
#include "runtime/data/file_error.h"
#include "runtime/data/hash.h"
#include "runtime/data/stream/block_cutter.h"
#include "runtime/data/stream/cut_search.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/index_draft.h"
#include "runtime/data/stream/index_tally.h"
#include "runtime/data/stream/part_answers.h"

namespace coxswain::data {
namespace {

// A message has at most some MiB of counts.
constexpr int64_t kCountsMemory = int64_t{4} << 20;

// What of a part is read: where rows are only counted not all of it.
proto::PartOfFiles ColumnsOf(const proto::PartOfFiles& part) {
  proto::PartOfFiles less = part;
  if (part.count_size() > 0) *less.mutable_spec() = SpecOfCuts(part.spec());
  return less;
}

// Takes the rows of a block out of the table that they were read into.
Table TakeRows(Table* table) {
  Table taken;
  taken.rows = table->rows;
  taken.places = std::move(table->places);
  taken.labels = std::move(table->labels);
  taken.named_labels.resize(table->named_labels.size());
  for (size_t i = 0; i < taken.named_labels.size(); ++i) {
    taken.named_labels[i] = std::move(table->named_labels[i]);
  }
  taken.weights = std::move(table->weights);
  for (auto& [column, key] : table->keys) taken.keys[column] = std::move(key);
  for (auto& [column, values] : table->orders) taken.orders[column] = std::move(values);
  taken.features.resize(table->features.size());
  for (size_t i = 0; i < taken.features.size(); ++i) {
    TableFeature &from = table->features[i], &to = taken.features[i];
    to.numbers = std::move(from.numbers);
    to.vectors = std::move(from.vectors);
    to.ids = std::move(from.ids);
    to.lists = std::move(from.lists);
    to.vocabulary = from.vocabulary;
    to.known = from.known;
    to.hashes = from.hashes;
  }
  return taken;
}

}  // namespace

absl::Status PartFiles::Bind(const proto::DatasetSpec& spec, Table* table, TableRows* rows) {
  const uint64_t key = HashSpec(spec);
  absl::MutexLock lock(&mu_);
  const auto there = bound_.find(key);
  if (there != bound_.end()) {
    table->side_tables = there->second.side_tables;
    return BindColumns(spec, there->second.vocabularies, table, rows);
  }
  RETURN_IF_ERROR(BindColumns(spec, {}, table, rows));
  Bound& bound = bound_[key];
  bound.side_tables = table->side_tables;
  for (const TableFeature& feature : table->features) {
    bound.vocabularies.push_back(feature.vocabulary);
  }
  return absl::OkStatus();
}

IndexTally FilePart::NewTally() const {
  IndexTally tally(spec_);
  const std::vector<proto::ValueRange> ranges(part_.count().begin(), part_.count().end());
  if (only_counts()) tally.CountValues(ranges, kCountsMemory);
  return tally;
}

FilePart::FilePart(const proto::PartOfFiles& part, PartFiles* shared)
    : part_(ColumnsOf(part)),
      spec_(part_.spec()),
      rows_(&table_, spec_.trained().rows()),
      shared_(*shared) {
  cutter_ = std::make_unique<BlockCutter>(
      spec_, &table_, [this](const proto::IndexedBlock& block) { return TakeBlock(block); });
  rows_.set_listener(cutter_.get());
}

FilePart::~FilePart() = default;

absl::StatusOr<std::unique_ptr<FilePart>> FilePart::Read(const proto::PartOfFiles& part,
                                                         PartFiles* shared) {
  std::unique_ptr<FilePart> rows(new FilePart(part, shared));
  rows->rows_.chain().LogTo(&rows->log_);
  RETURN_IF_ERROR(rows->ReadFiles());
  return rows;
}

absl::StatusOr<proto::IndexedPart> FilePart::ReadBehind(const proto::PartOfFiles& part,
                                                        const proto::IndexState& before,
                                                        PartFiles* shared) {
  FilePart rows(part, shared);
  if (rows.is_range() && !FormatOf(rows.spec_).has_groups()) {
    return absl::InvalidArgumentError("a range of bytes is read before it is added up");
  }
  IndexTally tally = rows.NewTally();
  RETURN_IF_ERROR(tally.Continue(before));
  RETURN_IF_ERROR(ContinueChain(before, &rows.rows_.chain()));
  proto::IndexedPart sums;
  rows.tally_ = &tally;
  rows.sums_ = &sums;
  RETURN_IF_ERROR(rows.ReadFiles());
  SaveChain(rows.rows_.chain(), sums.mutable_after());
  rows.FillPart(&tally, &sums);
  return sums;
}

absl::Status FilePart::ReadFiles() {
  const int files = spec_.paths_size();
  const bool fits = files > 0 && part_.files_size() == files && FormatOf(spec_).has_blocks() &&
                    part_.begin() >= 0 && part_.end() >= 0 &&
                    (!is_range() || (files == 1 && part_.begin() < part_.end())) &&
                    (!only_counts() || !spec_.split().by().empty());
  if (!fits) return absl::InvalidArgumentError("a part of a data set that makes no sense");
  RETURN_IF_ERROR(shared_.Bind(spec_, &table_, &rows_));
  if (spec_.max_bad_rows() > 0) {
    // All together are counted where parts are added up.
    RETURN_IF_ERROR(rows_.PassOverBadRows(spec_, spec_.max_bad_rows()));
  }
  bound_ = rows_.contents().size();
  for (const TableFeature& feature : table_.features) texts_.push_back(feature.known);
  files_.resize(static_cast<size_t>(files));
  const absl::Status read = is_range() ? ReadPiece() : ReadWhole();
  return read.ok() ? read : InFile(read, spec_.paths(file_));
}

absl::Status FilePart::ReadPiece() {
  RETURN_IF_ERROR(CheckFile(0));
  EmptyTable(spec_.paths(0), &table_);
  RETURN_IF_ERROR(FormatOf(spec_).has_groups() ? ReadGroups() : ReadBytes());
  return CheckFile(0);
}

absl::Status FilePart::CheckFile(int file) const {
  return CheckUnchanged(spec_.paths(file), part_.files(file), /*same_machine=*/false);
}

absl::Status FilePart::ReadWhole() {
  for (file_ = 0; file_ < spec_.paths_size(); ++file_) {
    const std::string& path = spec_.paths(file_);
    RETURN_IF_ERROR(CheckFile(file_));
    EmptyTable(path, &table_);
    cutter_->StartFile(&files_[static_cast<size_t>(file_)]);
    RETURN_IF_ERROR(FormatOf(spec_).Read(spec_, path, &rows_));
    // It may have changed meanwhile.
    RETURN_IF_ERROR(CheckFile(file_));
  }
  return absl::OkStatus();
}

absl::Status FilePart::ReadGroups() {
  cutter_->StartFile(&files_[0]);
  RETURN_IF_ERROR(FormatOf(spec_).ReadGroups(spec_.paths(0), part_.begin(), part_.end(), &rows_));
  end_ = part_.end();
  return absl::OkStatus();
}

absl::Status FilePart::ReadBytes() {
  ASSIGN_OR_RETURN(const auto file, OpenDataFile(spec_.paths(0)));
  if (static_cast<uint64_t>(part_.end()) > file->size()) {
    return ChangedError(spec_.paths(0), part_.files(0));
  }
  FileBlock block;
  block.path = spec_.paths(0);
  block.first_line = std::max<int64_t>(1, part_.line());
  block.columns = {part_.files(0).columns().begin(), part_.files(0).columns().end()};
  block.bytes.resize(static_cast<size_t>(part_.end() - part_.begin()));
  RETURN_IF_ERROR(
      file->Read(static_cast<uint64_t>(part_.begin()), block.bytes.data(), block.bytes.size()));
  bytes_.assign(block.bytes.begin(), block.bytes.end());  // readers may change what they get
  const bool ends = static_cast<uint64_t>(part_.end()) == file->size();
  cutter_->StartFile(&files_[0], part_.begin(), ends);
  const absl::Status status = FormatOf(spec_).ReadBlock(spec_, std::move(block), &rows_);
  end_ = status.ok() && ends ? part_.end() : cutter_->offset();
  // What is wrong may be that the range ends within a row.
  if (!kept_.empty() || status.ok()) return absl::OkStatus();
  return FormatOf(spec_).has_rows() ? status : ExplainText(*file, status);
}

// A part of a text may begin within a line: where in it is found out only when something is wrong.
absl::Status FilePart::ExplainText(const env::RandomAccessFile& file, const absl::Status& wrong) {
  FileBlock block;
  block.path = spec_.paths(0);
  block.first_line = std::max<int64_t>(1, part_.line());
  block.bytes.assign(bytes_.begin(), bytes_.end());
  std::string before(size_t{1} << 20, '\0');
  for (auto at = static_cast<uint64_t>(part_.begin()); at > 0;) {
    before.resize(static_cast<size_t>(std::min<uint64_t>(before.size(), at)));
    at -= before.size();
    if (!file.Read(at, before.data(), before.size()).ok()) return wrong;
    const size_t line_end = before.rfind('\n');
    if (line_end != std::string::npos) at = 0;
    block.first_column += static_cast<int64_t>(
        line_end == std::string::npos ? before.size() : before.size() - line_end - 1);
  }
  Table table;
  TableRows rows(&table, 0);
  RETURN_IF_ERROR(shared_.Bind(spec_, &table, &rows));
  const absl::Status explained = FormatOf(spec_).ReadBlock(spec_, std::move(block), &rows);
  return explained.ok() ? wrong : explained;
}

absl::Status FilePart::TakeBlock(const proto::IndexedBlock& block) {
  if (shared_.stopped()) return NotWanted();
  for (size_t i = 0; i < texts_.size(); ++i) texts_[i] = table_.features[i].texts.size();
  logged_ = log_.size();
  if (tally_ == nullptr) {
    kept_.push_back({block, file_, TakeRows(&table_)});
  } else {
    proto::IndexedBlock* const added = sums_->add_blocks();
    *added = block;
    RETURN_IF_ERROR(tally_->AddBlock(table_, {file_, 0}, part_.test(), added));
  }
  EmptyTable(spec_.paths(file_), &table_);
  if (only_counts()) ForgetTexts(&table_);
  return absl::OkStatus();
}

int64_t FilePart::rows() const {
  int64_t rows = 0;
  for (const Kept& kept : kept_) rows += kept.rows.rows;
  return rows;
}

void FilePart::FillPart(IndexTally* tally, proto::IndexedPart* part) const {
  tally->Save(part->mutable_after());
  tally->TakePart(table_, texts_, part);
  for (const proto::IndexedFile& file : files_) *part->add_files() = file;
  const std::vector<uint64_t>& contents = rows_.contents();
  for (size_t i = bound_; i < contents.size(); ++i) part->add_contents(contents[i]);
  for (const std::string& name : rows_.names()) part->add_names(name);
  for (const auto& [column, found] : rows_.found()) {
    found ? part->add_found(column) : part->add_not_found(column);
  }
}

absl::StatusOr<proto::IndexedPart> FilePart::AddUp(const proto::IndexState& before) {
  proto::IndexedPart part;
  IndexTally tally = NewTally();
  RETURN_IF_ERROR(tally.Continue(before));
  const bool counts_lines = is_range() && !FormatOf(spec_).has_groups() && part_.line() == 0;
  const int64_t lines_before = counts_lines ? std::max<int64_t>(0, before.line() - 1) : 0;
  for (const Kept& kept : kept_) {
    proto::IndexedBlock* const block = part.add_blocks();
    *block = kept.block;
    RETURN_IF_ERROR(
        InFile(tally.AddBlock(kept.rows, {kept.file, lines_before}, part_.test(), block),
               spec_.paths(kept.file)));
  }
  RowChain chain(spec_.trained().rows());
  RETURN_IF_ERROR(ContinueChain(before, &chain));
  chain.AddLogged(absl::string_view(log_).substr(0, logged_));
  SaveChain(chain, part.mutable_after());
  if (!bytes_.empty()) {
    StreamHash content;
    if (!before.content().empty() && !content.Restore(before.content())) {
      return absl::InvalidArgumentError("the state before a part has no hash of bytes");
    }
    content.Update(absl::string_view(bytes_).substr(0, static_cast<size_t>(end_ - part_.begin())));
    part.mutable_after()->set_content(content.Save());
    part.mutable_after()->set_line(cutter_->line() + lines_before);
  }
  FillPart(&tally, &part);
  for (proto::IndexedFile& file : *part.mutable_files()) {
    for (proto::BadRow& row : *file.mutable_first_bad_rows()) {
      row.set_line(row.line() + lines_before);
    }
  }
  return part;
}

}  // namespace coxswain::data
