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
#include "runtime/data/table_rows.h"

namespace coxswain::data {
namespace {

constexpr char kImage[] = "image", kLabel[] = "label";
constexpr int64_t kImagesAtATime = 256;

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
  ImagesReader(IdxReader* images, IdxReader* labels, TableRows* rows)
      : images_(*images), labels_(labels), rows_(*rows), image_(images->width()), label_(0) {}
  absl::Status Read() {
    for (int64_t row = 0; row < images_.items();) {
      const int64_t count = std::min(kImagesAtATime, images_.items() - row);
      RETURN_IF_ERROR(ReadSome(row, count));
      row += count;
    }
    RETURN_IF_ERROR(images_.CheckEnd());
    rows_.AddContent(images_.input()->content_hash());
    if (labels_ == nullptr) return absl::OkStatus();
    RETURN_IF_ERROR(labels_->CheckEnd());
    rows_.AddContent(labels_->input()->content_hash());
    return absl::OkStatus();
  }

 private:
  absl::Status ReadSome(int64_t row, int64_t count) {
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
          absl::StrCat((of_image ? images_ : *labels_).input()->path(), ": item ", row + wrong + 1,
                       ": wanted ", binding.sink->Wanted(), ", found ",
                       of_image ? absl::StrCat(images_.width(), " bytes") : label.Describe(wrong)));
    }
    const auto width = static_cast<size_t>(images_.width());
    for (size_t i = 0; rows_.chained() && i < static_cast<size_t>(count); ++i) {
      rows_.chain().Add(pixels.substr(i * width, width));
      if (labels_ != nullptr) rows_.chain().Add(numbers.substr(i, 1));
      rows_.chain().EndRow();
    }
    return rows_.EndRows(images_.input()->path(), row + 1, count);
  }

  IdxReader& images_;
  IdxReader* const labels_;  // null: nobody wants them
  TableRows& rows_;
  ByteColumn image_, label_;
};

class Idx final : public DataFormat {
 public:
  const char* name() const override { return "idx"; }
  bool has_blocks() const override { return false; }

  absl::Status Read(const proto::DatasetSpec&, const std::string& path,
                    TableRows* rows) const override {
    bool wants_labels = false;
    for (const TableRows::Binding& binding : rows->bindings()) {
      wants_labels = wants_labels || binding.column == kLabel;
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
    if (wants_labels) {
      ASSIGN_OR_RETURN(const std::string labels_path, IdxLabelsOf(path));
      ASSIGN_OR_RETURN(labels, IdxReader::Open(labels_path, 1));
      if (labels->items() != images->items()) {
        return absl::InvalidArgumentError(absl::StrCat(labels_path, ": wanted ", images->items(),
                                                       " labels, as ", path, " has images, found ",
                                                       labels->items()));
      }
    }
    return ImagesReader(images.get(), labels.get(), rows).Read();
  }
  absl::Status ReadBlock(const proto::DatasetSpec&, FileBlock block, TableRows*) const override {
    return absl::UnimplementedError(absl::StrCat(block.path, ": images are held in memory"));
  }
};

}  // namespace

const DataFormat& IdxFiles() {
  static const auto* const format = new Idx;
  return *format;
}

}  // namespace coxswain::data
