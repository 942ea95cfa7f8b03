// Columns of rows as they stand in a file, for those who write them beside what they made of the
// rows: texts, whatever a feature would make of them.
//
// They are read in a pass of their own over the same block, by the format's own reader, so that
// they are the same rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "protos/dataset.pb.h"
#include "runtime/data/data_format.h"
#include "runtime/data/sinks.h"

namespace coxswain::data {

// The values of a column, one after the other. Thread model: one thread, then immutable.
class KeptTexts {
 public:
  // What a value is for formats that know more than texts. kNone: nothing, or a number that is not
  // finite.
  enum class Kind : uint8_t { kText, kBare, kNone };

  void Add(absl::string_view text, Kind kind) {
    bytes_.append(text.data(), text.size());
    ends_.push_back(bytes_.size());
    kinds_.push_back(kind);
  }
  int64_t rows() const { return static_cast<int64_t>(ends_.size()); }
  absl::string_view Text(int64_t row) const {
    const auto at = static_cast<size_t>(row);
    const size_t begin = at == 0 ? 0 : ends_[at - 1];
    return absl::string_view(bytes_).substr(begin, ends_[at] - begin);
  }
  Kind KindOf(int64_t row) const { return kinds_[static_cast<size_t>(row)]; }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
  std::vector<Kind> kinds_;
};

// By column.
using KeptRows = std::vector<KeptTexts>;

// Thread model: immutable.
class KeptColumns {
 public:
  // Of the file that the block is of; "*" stands for all of its columns. `only_text`: what is not
  // UTF-8 is an error of its row. Errors: NotFound with the columns that there are; InvalidArgument
  // for a format whose rows have no columns, a column whose values have no one text, and a name
  // that is there twice; those of reading the file.
  static absl::StatusOr<KeptColumns> Create(proto::DatasetSpec spec, const FileBlock& block,
                                            std::vector<std::string> names, bool only_text);

  const std::vector<std::string>& names() const { return names_; }
  // Errors: those of DataFormat::ReadBlock.
  absl::StatusOr<KeptRows> Read(FileBlock block) const;

 private:
  KeptColumns() = default;

  proto::DatasetSpec spec_;
  std::vector<std::string> names_;
  std::vector<std::function<std::unique_ptr<FieldSink>(KeptTexts*)>> sinks_;  // parallel to it
};

}  // namespace coxswain::data
