// Rows of the two columns of labelled text: `text`, and `class`, which is told by the name of a
// file or a directory.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {

inline constexpr char kTextColumn[] = "text";
inline constexpr char kClassColumn[] = "class";

// "clicks/pos.txt.gz" -> "pos".
std::string ClassOfFile(absl::string_view path);
// "train/pos/0_9.txt" -> "pos"; empty for a path without a directory.
std::string ClassOfDirectory(absl::string_view path);

// Thread model: one thread.
class LabelledTexts {
 public:
  // `rows` outlives it.
  LabelledTexts(TableRows* rows, std::string of_class)
      : rows_(*rows), class_(std::move(of_class)) {}

  // Before the first row. Errors: NotFound for a column that is neither of the two; those of
  // StartFile.
  absl::Status Start(InputFile* input, int64_t next_line);
  // Errors: InvalidArgument "pos.txt:17: ..." for a text that a sink does not take; those of
  // EndRow.
  absl::Status Add(InputFile* input, int64_t line, int64_t next_line, absl::string_view text);

 private:
  TableRows& rows_;
  const std::string class_;
};

}  // namespace coxswain::data
