// Fields of the CSV that Coxswain writes.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace coxswain::predict {

// Quoted if necessary.
inline void AppendField(absl::string_view text, std::string* line) {
  if (text.find_first_of(",\"\r\n") == absl::string_view::npos) {
    line->append(text.data(), text.size());
    return;
  }
  absl::StrAppend(line, "\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

}  // namespace coxswain::predict
