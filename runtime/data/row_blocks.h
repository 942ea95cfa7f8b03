// A file, or what comes through a pipe, as blocks of whole rows, one after the other: for readers
// that take each row once, in memory that does not grow with the file.
//
// A block ends where the reader of the format says that a row ends: at a line end, of CSV at one
// that no quotes enclose. Thread model: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "runtime/data/data_format.h"
#include "runtime/data/input_file.h"

namespace coxswain::data {

// The path that stands for standard input.
inline constexpr char kStandardInput[] = "-";

class RowBlocks {
 public:
  // Opens the file and reads as far as its header. `spec`: as CheckSpec returned it; its format and
  // the format's options hold. Blocks have about `block_bytes`, or one row. Errors: those of
  // InputFile and of a header; InvalidArgument for a format without rows.
  static absl::StatusOr<std::unique_ptr<RowBlocks>> Open(const proto::DatasetSpec& spec,
                                                         const std::string& path,
                                                         size_t block_bytes);

  // Nothing at the end. Errors: those of InputFile, with the line.
  absl::StatusOr<std::optional<FileBlock>> Next();

  // How messages call it: the path, or "stdin".
  const std::string& path() const { return input_->path(); }
  // Names of the columns; none where lines have no columns.
  const std::vector<std::string>& columns() const { return columns_; }

 private:
  RowBlocks(proto::CsvOptions csv, std::unique_ptr<InputFile> input, size_t block_bytes)
      : csv_(std::move(csv)), input_(std::move(input)), block_bytes_(block_bytes) {}
  bool has_columns() const { return !csv_.separator().empty(); }
  absl::string_view Window() const;  // what was read and not taken yet
  absl::Status SkipToFirstRow();
  absl::Status ReadHeader(const proto::DatasetSpec& spec);
  // Makes the window longer. Errors: those of InputFile, with the line.
  absl::Status More();
  FileBlock Take(size_t bytes);

  const proto::CsvOptions csv_;
  std::unique_ptr<InputFile> input_;
  const size_t block_bytes_;
  std::vector<std::string> columns_;
  int64_t line_ = 1;  // of the next byte
};

// How many bytes of `text`, which begins where a row begins, are whole rows, of CSV with these
// options; 0: none. `rows`: at most so many; 0: all that there are.
size_t WholeRows(const proto::CsvOptions& csv, absl::string_view text, int64_t rows = 0);

}  // namespace coxswain::data
