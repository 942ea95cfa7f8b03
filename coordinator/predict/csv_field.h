// Fields of the CSV that Coxswain writes.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace coxswain::predict {

// Quoted if necessary.
inline void AppendField(const std::string& text, std::string* line) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) {
    line->append(text);
    return;
  }
  absl::StrAppend(line, "\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

}  // namespace coxswain::predict
