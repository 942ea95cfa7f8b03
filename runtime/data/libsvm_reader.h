// Lines "label index:value index:value ..." of a libsvm (svmlight) file. What follows a '#' is a
// comment; blank lines are skipped; gzip is unpacked.
//
// Thread model: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/data/input_file.h"

namespace coxswain::data {

// What the first word of a line is where the label is a number, whether somebody wants it or not.
inline constexpr char kNumberLabel[] = "a finite number (f32)";
bool IsNumberLabel(absl::string_view word);

struct LibsvmFormat {
  int64_t features = 0;     // indices are 1..features, or 0..features-1; 0: as many as there are
  bool zero_based = false;  // the first index is 0
  // A line may begin with its first pair: rows that have no label yet.
  bool label_optional = false;
  // The label is a number, whether somebody looks at it or not.
  bool label_is_number = false;
  // Behind the label stands "qid:" and what names the row's query. Where rows have no label yet,
  // it may stand there and is not looked at.
  bool query = false;
};

class LibsvmReader {
 public:
  static absl::StatusOr<std::unique_ptr<LibsvmReader>> Open(const std::string& path,
                                                            LibsvmFormat format);
  LibsvmReader(std::unique_ptr<LineReader> lines, LibsvmFormat format)
      : lines_(std::move(lines)), format_(format) {}

  // Reads the next example; false at the end.
  // Errors: InvalidArgument "file:line:column: wanted ..., found ..."; those of InputFile.
  absl::StatusOr<bool> Next();
  // Of the last example; valid until the next call of Next.
  absl::string_view label() const { return label_; }
  absl::string_view query() const { return query_; }      // with LibsvmFormat.query
  absl::Span<const int64_t> ids() const { return ids_; }  // from 0 also when indices are from 1
  absl::Span<const float> weights() const { return weights_; }
  int64_t line() const { return lines_->line_number(); }
  // InvalidArgument "file:line:column: label: wanted <wanted>, found ...".
  absl::Status LabelError(absl::string_view wanted) const;

  uint64_t content_hash() const { return lines_->content_hash(); }  // complete after the end
  InputFile* input() { return lines_->input(); }

 private:
  absl::Status ParsePair(absl::string_view token);
  // Takes the query off `rest`, where there is to be one.
  absl::Status ParseQuery(absl::string_view* rest);

  std::unique_ptr<LineReader> lines_;
  LibsvmFormat format_;
  absl::string_view line_;
  absl::string_view label_, query_;
  std::vector<int64_t> ids_;
  std::vector<float> weights_;
};

}  // namespace coxswain::data
