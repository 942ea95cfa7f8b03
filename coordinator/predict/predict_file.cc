// The good rows of a block; the processing of a block on a pool; the file as a sequence of blocks.
#include "coordinator/predict/predict_file.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "coordinator/predict/rows_to_predict.h"
#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/names.h"
#include "runtime/data/row_blocks.h"
#include "runtime/env/compute_pool.h"

namespace coxswain::predict {
namespace {

using data::FileBlock;

constexpr size_t kErrorsShown = 5;
constexpr size_t kBlocksAhead = 3;  // for each thread

// Some rows of a block.
struct Range {
  size_t begin = 0, end = 0;
};

// Where to cut the rows of a range in two; its end if it is a single row.
size_t Middle(const proto::CsvOptions& csv, absl::string_view text) {
  size_t cut = data::WholeRows(csv, text.substr(0, text.size() / 2));
  if (cut == 0) cut = data::WholeRows(csv, text, 1);
  if (cut > 0) return cut;
  // A quote is not closed: this is an error of the first line, not of the following ones.
  const size_t line = text.find('\n');
  return line == absl::string_view::npos ? text.size() : line + 1;
}

// Rows of a group that are one block: a group may have millions, and is read again for each.
constexpr int64_t kGroupRows = int64_t{1} << 18;

// The input as blocks, one after the other.
class Blocks {
 public:
  virtual ~Blocks() = default;
  // One of no rows: it can be read where the columns are there.
  virtual FileBlock None() const = 0;
  // Nothing at the end.
  virtual absl::StatusOr<std::optional<FileBlock>> Next() = 0;
};

FileBlock BlockOf(std::string path, std::vector<char> bytes, int64_t first_line,
                  std::vector<std::string> columns) {
  FileBlock block;
  block.path = std::move(path);
  block.bytes = std::move(bytes);
  block.first_line = first_line;
  block.columns = std::move(columns);
  return block;
}

class LineBlocks final : public Blocks {
 public:
  explicit LineBlocks(std::unique_ptr<data::RowBlocks> blocks) : blocks_(std::move(blocks)) {}
  FileBlock None() const override { return BlockOf(blocks_->path(), {}, 1, blocks_->columns()); }
  absl::StatusOr<std::optional<FileBlock>> Next() override { return blocks_->Next(); }

 private:
  const std::unique_ptr<data::RowBlocks> blocks_;
};

// Of files of columns, whose groups are read where they are parsed.
class GroupBlocks final : public Blocks {
 public:
  GroupBlocks(std::string path, std::vector<int64_t> sizes)
      : path_(std::move(path)), sizes_(std::move(sizes)) {}
  FileBlock None() const override { return BlockOf(path_, {}, 1, {}); }
  absl::StatusOr<std::optional<FileBlock>> Next() override {
    while (group_ < sizes_.size() && row_ == sizes_[group_]) {
      ++group_;
      row_ = 0;
    }
    if (group_ == sizes_.size()) return std::nullopt;
    FileBlock block;
    block.path = path_;
    block.first_line = line_;
    block.group = static_cast<int64_t>(group_);
    block.group_row = row_;
    block.rows = std::min(kGroupRows, sizes_[group_] - row_);
    row_ += block.rows;
    line_ += block.rows;
    return block;
  }

 private:
  const std::string path_;
  const std::vector<int64_t> sizes_;  // by group
  size_t group_ = 0;
  int64_t row_ = 0, line_ = 1;
};

absl::StatusOr<std::unique_ptr<Blocks>> OpenBlocks(const proto::DatasetSpec& spec,
                                                   const PredictFileOptions& options) {
  const data::DataFormat& format = data::FormatOf(spec);
  if (!format.has_groups()) {
    ASSIGN_OR_RETURN(auto blocks, data::RowBlocks::Open(spec, options.input, options.block_bytes));
    return std::make_unique<LineBlocks>(std::move(blocks));
  }
  if (options.input == data::kStandardInput) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a ", format.name(), " file cannot be read from a pipe: its columns are found from its ",
        "end; name the file"));
  }
  ASSIGN_OR_RETURN(std::vector<int64_t> sizes, format.GroupSizes(options.input));
  return std::make_unique<GroupBlocks>(options.input, std::move(sizes));
}

// In a format without lists the values of a history stand in one text. Errors: InvalidArgument
// where there are values that such a text would cut in pieces.
absl::Status CheckHistoryTexts(const Predictor& predictor) {
  const proto::DatasetSpec& spec = predictor.rows().spec();
  const data::DataFormat& format = data::FormatOf(spec);
  if (format.has_objects() || format.has_groups()) return absl::OkStatus();
  for (const proto::FeatureSpec& feature : spec.features()) {
    if (!feature.values_of_rows()) continue;
    const auto values = predictor.VocabularyOf(feature.name());
    if (values == nullptr) continue;
    const auto cut = std::find_if(
        values->texts()->begin(), values->texts()->end(),
        [](const std::string& text) { return absl::StrContains(text, kHistorySeparator); });
    if (cut == values->texts()->end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "history ", data::Quoted(feature.name()), ": its value ", data::Quoted(*cut), " holds \"",
        kHistorySeparator, "\", which stands between values in a field of ", format.name(),
        ": give the rows as JSON lines with lists (--input-format jsonl)"));
  }
  return absl::OkStatus();
}

// Reads the rows of a block, and the columns of them that are kept (null: none), if all are good.
absl::Status ReadPiece(const data::RowReader& reader, data::FileBlock block,
                       const data::KeptColumns* keep, GoodRows* good) {
  data::KeptRows kept;
  if (keep != nullptr) {
    ASSIGN_OR_RETURN(kept, keep->Read(block));
  }
  ASSIGN_OR_RETURN(data::InputRows rows, reader.ReadBlock(std::move(block)));
  for (const data::KeptTexts& column : kept) {
    if (column.rows() == rows.rows()) continue;
    return absl::InternalError(absl::StrCat("wanted ", rows.rows(), " values of a column to keep, ",
                                            "found ", column.rows()));
  }
  good->pieces.push_back(std::move(rows));
  if (keep != nullptr) good->kept.push_back(std::move(kept));
  return absl::OkStatus();
}

// What becomes of a block. The thread that reads makes it, one of the pool fills it in.
struct Work {
  data::FileBlock block;
  absl::Notification done;
  absl::Status status;
  std::string lines;
  GoodRows read;  // its pieces, until they are predicted
  int64_t rows = 0;
};

class FilePrediction {
 public:
  FilePrediction(const Predictor& predictor, const PredictFileOptions& options,
                 const WriteText& write)
      : predictor_(predictor),
        options_(options),
        write_(write),
        lines_(&predictor, options.top, options.skip_bad_rows, options.format),
        threads_(options.threads > 0
                     ? options.threads
                     : std::max({1, static_cast<int>(std::thread::hardware_concurrency()),
                                 predictor.remote_batches()})) {}

  absl::StatusOr<PredictedRows> Run();

 private:
  absl::Status FindKept(const FileBlock& block);
  absl::Status ReadAndWrite(Blocks* blocks, env::ComputePool* pool);
  void Predict(Work* work) const;
  absl::Status PredictRows(const GoodRows& read, std::string* lines) const;
  // Waits for the oldest block and writes it.
  absl::Status FinishFirst();

  const Predictor& predictor_;
  const PredictFileOptions& options_;
  const WriteText& write_;
  PredictionLines lines_;
  std::optional<data::KeptColumns> keep_;
  const int threads_;
  std::deque<std::shared_ptr<Work>> under_way_;
  PredictedRows result_;
};

absl::Status FilePrediction::PredictRows(const GoodRows& read, std::string* lines) const {
  for (size_t piece = 0; piece < read.pieces.size(); ++piece) {
    const data::InputRows& rows = read.pieces[piece];
    const data::KeptRows* const kept = keep_ ? &read.kept[piece] : nullptr;
    for (int64_t begin = 0; begin < rows.rows(); begin += predictor_.batch_rows()) {
      const int64_t end = std::min(rows.rows(), begin + predictor_.batch_rows());
      ASSIGN_OR_RETURN(const data::Batch batch, rows.Read(begin, end));
      ASSIGN_OR_RETURN(const Scores scores, predictor_.Predict(batch, lines_.top()));
      lines_.Append(rows, begin, scores, lines, kept);
    }
  }
  return absl::OkStatus();
}

void FilePrediction::Predict(Work* work) const {
  const data::KeptColumns* const keep = keep_ ? &*keep_ : nullptr;
  if (options_.skip_bad_rows) {
    work->read = ReadGoodRows(predictor_.rows(), work->block, keep);
    work->status = work->read.status;
  } else {
    work->status = ReadPiece(predictor_.rows(), work->block, keep, &work->read);
  }
  std::vector<char>().swap(work->block.bytes);
  work->rows = work->read.rows();
  if (work->status.ok()) work->status = PredictRows(work->read, &work->lines);
  work->read.pieces.clear();
  work->read.kept.clear();
  work->done.Notify();
}

absl::Status FilePrediction::FinishFirst() {
  const std::shared_ptr<Work> work = std::move(under_way_.front());
  under_way_.pop_front();
  work->done.WaitForNotification();
  RETURN_IF_ERROR(work->status);
  result_.rows += work->rows;
  result_.skipped += static_cast<int64_t>(work->read.errors.size());
  for (std::string& error : work->read.errors) {
    if (result_.first_skipped.size() < kErrorsShown) {
      result_.first_skipped.push_back(std::move(error));
    }
  }
  return write_(work->lines);
}

absl::Status FilePrediction::ReadAndWrite(Blocks* blocks, env::ComputePool* pool) {
  const size_t most = kBlocksAhead * static_cast<size_t>(threads_);
  while (true) {
    if (options_.stopped && options_.stopped()) return absl::CancelledError("interrupted");
    ASSIGN_OR_RETURN(std::optional<FileBlock> block, blocks->Next());
    if (!block) break;
    auto work = std::make_shared<Work>();
    work->block = *std::move(block);
    under_way_.push_back(work);
    pool->Schedule([this, work] { Predict(work.get()); });
    if (under_way_.size() >= most) RETURN_IF_ERROR(FinishFirst());
  }
  while (!under_way_.empty()) RETURN_IF_ERROR(FinishFirst());
  return absl::OkStatus();
}

absl::Status FilePrediction::FindKept(const FileBlock& block) {
  if (options_.keep.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(keep_, data::KeptColumns::Create(predictor_.rows().spec(), block, options_.keep,
                                                    options_.format->only_text));
  return lines_.Keep(keep_->names());
}

absl::StatusOr<PredictedRows> FilePrediction::Run() {
  RETURN_IF_ERROR(CheckHistoryTexts(predictor_));
  ASSIGN_OR_RETURN(const auto blocks, OpenBlocks(predictor_.rows().spec(), options_));
  // Of no rows: whether the columns are there, which is not the fault of any row.
  RETURN_IF_ERROR(predictor_.rows().ReadBlock(blocks->None()).status());
  RETURN_IF_ERROR(FindKept(blocks->None()));
  RETURN_IF_ERROR(write_(lines_.Header()));
  absl::Status status;
  {
    const auto pool = env::NewComputePool(threads_);
    status = ReadAndWrite(blocks.get(), pool.get());
  }  // waits for blocks under way
  RETURN_IF_ERROR(status);
  return std::move(result_);
}

}  // namespace

int64_t GoodRows::rows() const {
  int64_t all = 0;
  for (const data::InputRows& piece : pieces) all += piece.rows();
  return all;
}

namespace {

// Bad rows of a group after which there is something wrong with all of it: to find one, the group
// is read about 40 times.
constexpr size_t kMostBadRows = 1000;

// The same of rows of a group. A file that cannot be read is no fault of a row.
GoodRows GoodRowsOfGroup(const data::RowReader& reader, const data::FileBlock& block,
                         const data::KeptColumns* keep) {
  GoodRows good;
  std::vector<Range> left = {{0, static_cast<size_t>(block.rows)}};
  while (!left.empty()) {
    const Range range = left.back();
    left.pop_back();
    data::FileBlock part = block;
    part.group_row += static_cast<int64_t>(range.begin);
    part.first_line += static_cast<int64_t>(range.begin);
    part.rows = static_cast<int64_t>(range.end - range.begin);
    const absl::Status read = ReadPiece(reader, std::move(part), keep, &good);
    if (read.ok()) continue;
    if (!absl::IsInvalidArgument(read)) {
      good.status = read;
      break;
    }
    if (range.end - range.begin > 1) {
      const size_t middle = range.begin + (range.end - range.begin) / 2;
      left.push_back({middle, range.end});
      left.push_back({range.begin, middle});
      continue;
    }
    good.errors.emplace_back(read.message());
    if (good.errors.size() < kMostBadRows) continue;
    good.status = absl::InvalidArgumentError(
        absl::StrCat(block.path, ": row group ", block.group, ": ", kMostBadRows,
                     " of its rows cannot be read, so that none are skipped: ", good.errors[0]));
    break;
  }
  if (good.status.ok()) return good;
  good.pieces.clear();
  good.kept.clear();
  return good;
}

}  // namespace

GoodRows ReadGoodRows(const data::RowReader& reader, const data::FileBlock& block,
                      const data::KeptColumns* keep) {
  if (block.rows > 0) return GoodRowsOfGroup(reader, block, keep);
  const absl::string_view text(block.bytes.data(), block.bytes.size());
  GoodRows good;
  std::vector<Range> left = {{0, text.size()}};
  while (!left.empty()) {
    const Range range = left.back();
    left.pop_back();
    data::FileBlock part =
        BlockOf(block.path, {text.begin() + range.begin, text.begin() + range.end},
                block.first_line + std::count(text.begin(), text.begin() + range.begin, '\n'),
                block.columns);
    const absl::Status read = ReadPiece(reader, std::move(part), keep, &good);
    if (read.ok()) continue;
    const absl::string_view here = text.substr(range.begin, range.end - range.begin);
    const size_t cut = Middle(reader.spec().csv(), here);
    if (cut >= here.size()) {
      good.errors.emplace_back(read.message());
      continue;
    }
    left.push_back({range.begin + cut, range.end});
    left.push_back({range.begin, range.begin + cut});
  }
  return good;
}

absl::StatusOr<PredictedRows> PredictFile(const Predictor& predictor,
                                          const PredictFileOptions& options,
                                          const WriteText& write) {
  return FilePrediction(predictor, options, write).Run();
}

}  // namespace coxswain::predict
