// The words of a text, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/data/input_file.h"

namespace coxswain::data {

// Words stand between white space (ASCII's). Thread model: one thread.
class WordScanner {
 public:
  // `file` must outlive it; it begins at `column` of `line`, both from 1.
  WordScanner(InputFile* file, int64_t line, bool lower_case, int64_t column = 1);

  // Gets the next word, which is valid until the next call; false at the end. Consumes no byte of
  // the word or behind it. Errors: InvalidArgument "file:line:column: ..." for what is no text:
  // bytes that are not UTF-8, or control characters; those of InputFile::More.
  absl::StatusOr<bool> Next(absl::string_view* word);

  // Whether a line ended between the last word, or at the end the last byte, and the word before.
  bool line_ended() const { return line_ended_; }
  // The line that the last word is on, and where in the unpacked bytes it begins; at the end, where
  // these end.
  int64_t line() const { return line_; }
  int64_t offset() const {
    return static_cast<int64_t>(file_.offset()) + static_cast<int64_t>(word_);
  }
  // Consumes all bytes in front of the last word, at the end all.
  void ConsumeToWord();

 private:
  // Moves to the next byte that is no white space; false where there is none.
  absl::StatusOr<bool> SkipBlanks();
  absl::Status Error(const char* at, absl::string_view wanted);

  InputFile& file_;
  const bool lower_case_;
  int64_t line_;
  int64_t line_begin_;  // where in the unpacked bytes the line begins
  bool line_ended_ = false;
  size_t word_ = 0, next_ = 0;  // in the file's window: the last word, and what is behind it
  std::string lowered_;
};

// Where the first word begins that has white space in front of it in `bytes`; npos: none does. A
// block of a text may begin there.
size_t FindWordBegin(absl::string_view bytes);

}  // namespace coxswain::data
