// idx: images and labels as MNIST has them, two files that belong together by their names.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/column_values.h"
#include "runtime/data/formats/format_list.h"
#include "runtime/data/idx_reader.h"
#include "runtime/data/names.h"
#include "runtime/data/side_table.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {
namespace {

constexpr char kImage[] = "image", kLabel[] = "label";
constexpr int64_t kImagesAtATime = 256, kLabelsAtATime = int64_t{1} << 20;

// Bytes as a column of numbers, or of lists of `width` of them.
class ByteColumn {
 public:
  explicit ByteColumn(int64_t width) : width_(width) {}
  const CoxArrowColumn& Set(absl::string_view bytes) {
    numbers_.assign(bytes.begin(), bytes.end());
    for (size_t i = 0; i < bytes.size(); ++i) {
      numbers_[i] = static_cast<unsigned char>(bytes[i]);
    }
    column_ = {};
    column_.rows = static_cast<int64_t>(bytes.size()) / std::max<int64_t>(1, width_);
    column_.values.kind = COX_ARROW_INTEGER;
    column_.values.count = static_cast<int64_t>(bytes.size());
    column_.values.numbers = numbers_.data();
    if (width_ == 0) {
      column_.rows = column_.values.count;
      return column_;
    }
    lists_.clear();
    for (int64_t row = 0; row <= column_.rows; ++row) lists_.push_back(row * width_);
    column_.lists = lists_.data();
    return column_;
  }

 private:
  const int64_t width_;  // 0: no lists
  std::vector<int64_t> numbers_, lists_;
  CoxArrowColumn column_ = {};
};

class ImagesReader {
 public:
  // `first`: the number of the first image in its file, from 1.
  ImagesReader(IdxReader* images, IdxReader* labels, int64_t first, TableRows* rows)
      : images_(*images),
        labels_(labels),
        first_(first),
        rows_(*rows),
        image_(images->width()),
        label_(0) {}
  absl::Status Read() {
    std::vector<std::string> columns = {kImage};
    if (labels_ != nullptr) columns.push_back(kLabel);
    images_.Consume();
    RETURN_IF_ERROR(rows_.StartFile(images_.input(), columns, first_));
    for (int64_t row = 0; row < images_.items();) {
      // A block may end behind each.
      const int64_t left = rows_.bytes_left(*images_.input()), width = images_.width();
      const int64_t until_end = std::max<int64_t>(1, left / width + (left % width > 0 ? 1 : 0));
      const int64_t count = std::min({kImagesAtATime, images_.items() - row, until_end});
      RETURN_IF_ERROR(ReadSome(first_ + row, count));
      row += count;
    }
    RETURN_IF_ERROR(images_.CheckEnd());
    if (labels_ != nullptr) RETURN_IF_ERROR(labels_->CheckEnd());
    return rows_.EndFile(images_.input());
  }

 private:
  absl::Status ReadSome(int64_t number, int64_t count) {
    ASSIGN_OR_RETURN(const absl::string_view pixels, images_.Next(count));
    absl::string_view numbers;
    if (labels_ != nullptr) {
      ASSIGN_OR_RETURN(numbers, labels_->Next(count));
    }
    const ColumnValues image(image_.Set(pixels)), label(label_.Set(numbers));
    for (const TableRows::Binding& binding : rows_.bindings()) {
      const bool of_image = binding.column == kImage;
      const int64_t wrong = binding.sink->AppendColumn(of_image ? image : label);
      if (wrong < 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat((of_image ? images_ : *labels_).input()->path(), ": item ", number + wrong,
                       ": wanted ", binding.sink->Wanted(), ", found ",
                       of_image ? absl::StrCat(images_.width(), " bytes") : label.Describe(wrong)));
    }
    const auto width = static_cast<size_t>(images_.width());
    for (size_t i = 0; rows_.chained() && i < static_cast<size_t>(count); ++i) {
      rows_.chain().Add(pixels.substr(i * width, width));
      if (labels_ != nullptr) rows_.chain().Add(numbers.substr(i, 1));
      rows_.chain().EndRow();
    }
    images_.Consume();
    return rows_.EndLines(images_.input(), number, count);
  }

  IdxReader& images_;
  IdxReader* const labels_;  // null: nobody wants them
  const int64_t first_;
  TableRows& rows_;
  ByteColumn image_, label_;
};

bool WantsLabels(const TableRows& rows) {
  return std::any_of(rows.bindings().begin(), rows.bindings().end(),
                     [](const TableRows::Binding& binding) { return binding.column == kLabel; });
}

class Idx final : public DataFormat {
 public:
  const char* name() const override { return "idx"; }
  bool has_lines() const override { return false; }

  absl::Status Read(const proto::DatasetSpec&, const std::string& path,
                    TableRows* rows) const override {
    for (const TableRows::Binding& binding : rows->bindings()) {
      if (binding.column != kLabel && binding.column != kImage) {
        return absl::NotFoundError(absl::StrCat(path, ": wanted a column ", Quoted(binding.column),
                                                ", found none of that name; ",
                                                Alternatives(binding.column, {kImage, kLabel})));
      }
      if (binding.column == kImage && !binding.sink->TakesLists()) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": an image is a feature of kind vector"));
      }
    }
    ASSIGN_OR_RETURN(const auto images, IdxReader::Open(path, 3));
    std::unique_ptr<IdxReader> labels;
    if (WantsLabels(*rows)) {
      ASSIGN_OR_RETURN(const std::string labels_path, IdxLabelsOf(path));
      ASSIGN_OR_RETURN(labels, IdxReader::Open(labels_path, 1));
      if (labels->items() != images->items()) {
        return absl::InvalidArgumentError(absl::StrCat(labels_path, ": wanted ", images->items(),
                                                       " labels, as ", path, " has images, found ",
                                                       labels->items()));
      }
    }
    RETURN_IF_ERROR(ImagesReader(images.get(), labels.get(), 1, rows).Read());
    rows->AddContent(images->input()->content_hash());
    if (labels != nullptr) rows->AddContent(labels->input()->content_hash());
    return absl::OkStatus();
  }

  bool has_files_beside() const override { return true; }
  absl::StatusOr<std::string> PathBeside(const proto::DatasetSpec& spec,
                                         const std::string& path) const override {
    const std::vector<std::string> columns = ColumnsRead(spec);
    if (std::find(columns.begin(), columns.end(), kLabel) == columns.end()) return std::string();
    return IdxLabelsOf(path);
  }
  absl::StatusOr<std::string> ReadBeside(const std::string& beside,
                                         int64_t most_bytes) const override {
    ASSIGN_OR_RETURN(const auto labels, IdxReader::Open(beside, 1));
    if (labels->items() > most_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          beside, ": ", labels->items(), " labels, which are held in memory, take too ",
          "much of dataset.memory: wanted at most ", most_bytes));
    }
    std::string numbers;
    while (static_cast<int64_t>(numbers.size()) < labels->items()) {
      const auto left = labels->items() - static_cast<int64_t>(numbers.size());
      ASSIGN_OR_RETURN(const auto some, labels->Next(std::min(left, kLabelsAtATime)));
      numbers.append(some.data(), some.size());
    }
    RETURN_IF_ERROR(labels->CheckEnd());
    return numbers;
  }

  absl::Status ReadBlock(const proto::DatasetSpec&, FileBlock block,
                         TableRows* rows) const override {
    const auto bytes = static_cast<int64_t>(block.bytes.size());
    const bool wants_labels = WantsLabels(*rows);
    const bool fits = block.rows > 0 && bytes >= block.rows && bytes % block.rows == 0 &&
                      (!wants_labels || static_cast<int64_t>(block.beside.size()) == block.rows);
    if (!fits) return absl::InvalidArgumentError(block.path + ": no block of images");
    const auto images =
        IdxReader::OfBytes(block.path, std::move(block.bytes), block.rows, bytes / block.rows);
    std::unique_ptr<IdxReader> labels;
    if (wants_labels) {
      ASSIGN_OR_RETURN(const std::string labels_path, IdxLabelsOf(block.path));
      labels = IdxReader::OfBytes(labels_path, {block.beside.begin(), block.beside.end()},
                                  block.rows, 1);
    }
    return ImagesReader(images.get(), labels.get(), block.first_line, rows).Read();
  }
};

}  // namespace

const DataFormat& IdxFiles() {
  static const auto* const format = new Idx;
  return *format;
}

}  // namespace coxswain::data
