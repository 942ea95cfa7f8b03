#include "runtime/base/shell.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace coxswain {

std::string ShellQuoted(const std::string& word) {
  constexpr char kSafe[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+";
  if (!word.empty() && word.find_first_not_of(kSafe) == std::string::npos) return word;
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

}  // namespace coxswain
