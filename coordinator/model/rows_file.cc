// A class for each format.
#include "coordinator/model/rows_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/model/npz_reader.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/data/input_file.h"
#include "runtime/data/names.h"
#include "runtime/data/number.h"
#include "runtime/data/vocabulary_file.h"

namespace coxswain::model {
namespace {

// "word 0.1 0.2": a word may contain blanks, as some of GloVe's do.
class Word2VecText final : public RowsFile {
 public:
  Word2VecText(std::unique_ptr<data::LineReader> lines, int64_t dim)
      : lines_(std::move(lines)), dim_(dim) {}

  absl::StatusOr<bool> Next(std::string* word, float* row) override {
    absl::string_view line;
    while (true) {
      ASSIGN_OR_RETURN(const bool found, lines_->Next(&line));
      if (!found) return false;
      const absl::string_view all = absl::StripTrailingAsciiWhitespace(line);
      if (all.empty()) continue;
      if (lines_->line_number() == 1 && dim_ > 1) {
        ASSIGN_OR_RETURN(const bool header, IsHeader(all));
        if (header) continue;
      }
      RETURN_IF_ERROR(Parse(all, word, row));
      return true;
    }
  }

 private:
  // The numbers of rows and columns.
  absl::StatusOr<bool> IsHeader(absl::string_view line) const {
    const size_t blank = line.find(' ');
    int64_t rows = 0, dim = 0;
    if (blank == absl::string_view::npos || !data::ParseIndex(line.substr(0, blank), &rows) ||
        !data::ParseIndex(line.substr(blank + 1), &dim)) {
      return false;
    }
    if (dim == dim_) return true;
    return lines_->Error(line, line.data() + blank + 1,
                         absl::StrCat("wanted rows of ", dim_, " numbers, as the table has, found ",
                                      "rows of ", dim));
  }

  absl::Status Parse(absl::string_view line, std::string* word, float* row) const {
    absl::string_view rest = line;
    for (int64_t i = dim_; i-- > 0;) {
      const size_t blank = rest.find_last_of(" \t");
      double number = 0;
      const absl::string_view text =
          blank == absl::string_view::npos ? rest : rest.substr(blank + 1);
      if (blank == absl::string_view::npos || !data::ParseNumber(text, &number) ||
          std::fabs(number) > std::numeric_limits<float>::max()) {
        return lines_->Error(line, text.data(),
                             absl::StrCat("wanted a word and ", dim_, " finite numbers, found ",
                                          data::Quoted(text), " as number ", i + 1));
      }
      row[i] = static_cast<float>(number);
      rest = rest.substr(0, blank);
    }
    word->assign(rest.data(), rest.size());
    return absl::OkStatus();
  }

  const std::unique_ptr<data::LineReader> lines_;
  const int64_t dim_;
};

// The words of a tensor's rows, from a file of their own.
class Words {
 public:
  Words(std::unique_ptr<data::LineReader> lines, const std::string& path, int64_t rows,
        int64_t buckets)
      : lines_(std::move(lines)),
        escaped_(data::IsSavedVocabulary(path)),
        rows_(rows),
        buckets_(buckets) {}

  // The word of the next row; false where it has none. `tensor`, `path`: for messages.
  absl::StatusOr<bool> Next(const std::string& tensor, const std::string& path, std::string* word) {
    absl::string_view line;
    ASSIGN_OR_RETURN(const bool found, lines_->Next(&line));
    const bool at_end = next_ == rows_ || (!found && next_ == rows_ - buckets_);
    if (found == at_end) {
      return absl::InvalidArgumentError(
          absl::StrCat(lines_->input()->path(), ": wanted a word for each of the ", rows_,
                       " rows of ", data::Quoted(tensor), " in ", path,
                       buckets_ > 0 ? absl::StrCat(", or for all but the last ", buckets_) : "",
                       ", found ", next_ < rows_ ? absl::StrCat(next_) : "more"));
    }
    if (!found) return false;
    ++next_;
    *word = escaped_ ? data::UnescapeLine(line) : std::string(line);
    return true;
  }

 private:
  std::unique_ptr<data::LineReader> lines_;
  bool escaped_;
  int64_t rows_, buckets_;
  int64_t next_ = 0;
};

class NpzRows final : public RowsFile {
 public:
  NpzRows(std::string path, std::string name, Tensor rows, Words words)
      : path_(std::move(path)),
        name_(std::move(name)),
        rows_(std::move(rows)),
        words_(std::move(words)) {}

  absl::StatusOr<bool> Next(std::string* word, float* row) override {
    ASSIGN_OR_RETURN(const bool found, words_.Next(name_, path_, word));
    return found && Copy(row);
  }
  absl::StatusOr<bool> NextBucket(float* row) override { return Copy(row); }

 private:
  bool Copy(float* row) {
    if (next_ == rows_.dim(0)) return false;
    std::copy_n(rows_.data<float>() + next_++ * rows_.dim(1), rows_.dim(1), row);
    return true;
  }

  const std::string path_, name_;
  const Tensor rows_;
  Words words_;
  int64_t next_ = 0;
};

class SafetensorsRows final : public RowsFile {
 public:
  SafetensorsRows(checkpoint::SafetensorsReader file, checkpoint::SafetensorsEntry tensor,
                  Words words)
      : file_(std::move(file)), tensor_(std::move(tensor)), words_(std::move(words)) {}

  absl::StatusOr<bool> Next(std::string* word, float* row) override {
    ASSIGN_OR_RETURN(const bool found, words_.Next(tensor_.name, file_.path(), word));
    if (!found) return false;
    return NextBucket(row);
  }
  absl::StatusOr<bool> NextBucket(float* row) override {
    const int64_t rows = tensor_.shape.dim(0), dim = tensor_.shape.dim(1);
    if (next_ == rows) return false;
    if (next_ >= first_ + held_) RETURN_IF_ERROR(Fill());
    std::copy_n(buffer_.data() + (next_++ - first_) * dim, dim, row);
    return true;
  }

 private:
  absl::Status Fill() {
    const int64_t rows = tensor_.shape.dim(0), dim = tensor_.shape.dim(1);
    first_ = next_;
    held_ = std::min(rows - first_, std::max<int64_t>(1, (int64_t{1} << 20) / dim));
    buffer_.resize(static_cast<size_t>(held_ * dim));
    return file_.Read(tensor_.name, static_cast<uint64_t>(first_ * dim) * sizeof(float),
                      buffer_.data(), buffer_.size() * sizeof(float));
  }

  const checkpoint::SafetensorsReader file_;
  const checkpoint::SafetensorsEntry tensor_;
  Words words_;
  std::vector<float> buffer_;  // rows [first_, first_ + held_)
  int64_t first_ = 0, held_ = 0, next_ = 0;
};

// The tensor of that name, or the only one.
absl::StatusOr<std::string> ChooseTensor(const job::TableSpec::RowsFile& file,
                                         const std::vector<std::string>& names) {
  const std::string& wanted = file.tensor;
  if (wanted.empty() && names.size() == 1) return names[0];
  if (std::find(names.begin(), names.end(), wanted) != names.end()) return wanted;
  return absl::NotFoundError(
      absl::StrCat(file.path, ": wanted ",
                   wanted.empty() ? "one tensor, or its name (initializer.tensor)"
                                  : absl::StrCat("a tensor ", data::Quoted(wanted)),
                   ", found ", names.size(), "; ", data::Alternatives(wanted, names)));
}

absl::Status ShapeError(const std::string& path, const std::string& name, int64_t dim,
                        absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", data::Quoted(name),
                                                 ": wanted rows of ", dim, " numbers in f32, as ",
                                                 "the table has, found ", found));
}

absl::StatusOr<std::unique_ptr<RowsFile>> OpenNpz(const job::TableSpec::RowsFile& file, int64_t dim,
                                                  int64_t buckets) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ArraysOfNpz(file.path));
  ASSIGN_OR_RETURN(const std::string name, ChooseTensor(file, names));
  ASSIGN_OR_RETURN(Tensor rows, ReadNpz(file.path, name));
  if (rows.dim(1) != dim) return ShapeError(file.path, name, dim, rows.shape().ToString());
  ASSIGN_OR_RETURN(auto lines, data::LineReader::Open(file.words));
  Words words(std::move(lines), file.words, rows.dim(0), buckets);
  return std::make_unique<NpzRows>(file.path, name, std::move(rows), std::move(words));
}

absl::StatusOr<std::unique_ptr<RowsFile>> OpenSafetensors(const job::TableSpec::RowsFile& file,
                                                          int64_t dim, int64_t buckets) {
  ASSIGN_OR_RETURN(checkpoint::SafetensorsReader reader,
                   checkpoint::SafetensorsReader::Open(file.path));
  std::vector<std::string> names;
  for (const checkpoint::SafetensorsEntry& entry : reader.entries()) names.push_back(entry.name);
  ASSIGN_OR_RETURN(const std::string name, ChooseTensor(file, names));
  const checkpoint::SafetensorsEntry* const entry = reader.Find(name);
  if (entry->dtype != DType::kF32 || entry->shape.rank() != 2 || entry->shape.dim(1) != dim) {
    return ShapeError(file.path, name, dim,
                      absl::StrCat(DTypeName(entry->dtype), entry->shape.ToString()));
  }
  ASSIGN_OR_RETURN(auto lines, data::LineReader::Open(file.words));
  checkpoint::SafetensorsEntry tensor = *entry;
  Words words(std::move(lines), file.words, tensor.shape.dim(0), buckets);
  return std::make_unique<SafetensorsRows>(std::move(reader), std::move(tensor), std::move(words));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowsFile>> RowsFile::Open(const job::TableSpec::RowsFile& file,
                                                         int64_t dim, int64_t buckets) {
  if (absl::EndsWith(file.path, ".safetensors")) return OpenSafetensors(file, dim, buckets);
  if (absl::EndsWith(file.path, ".npz")) return OpenNpz(file, dim, buckets);
  ASSIGN_OR_RETURN(auto lines, data::LineReader::Open(file.path));
  return std::make_unique<Word2VecText>(std::move(lines), dim);
}

}  // namespace coxswain::model
