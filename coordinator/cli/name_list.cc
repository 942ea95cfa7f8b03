#include "coordinator/cli/name_list.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"

namespace coxswain::cli {
namespace {

// Takes a name in quotes off the front of `rest`.
absl::StatusOr<std::string> TakeQuoted(absl::string_view* rest) {
  const absl::string_view all = *rest;
  std::string name;
  rest->remove_prefix(1);
  while (true) {
    const size_t quote = rest->find('"');
    if (quote == absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("the quote in ", data::Quoted(all), " is not closed"));
    }
    name.append(rest->data(), quote);
    rest->remove_prefix(quote + 1);
    if (rest->empty() || rest->front() == ',') return name;
    if (rest->front() != '"') {
      return absl::InvalidArgumentError(absl::StrCat(
          "wanted a comma or the end after a closing quote, found ", data::Quoted(*rest)));
    }
    name += '"';
    rest->remove_prefix(1);
  }
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SplitNames(absl::string_view list) {
  std::vector<std::string> names;
  absl::string_view rest = list;
  while (true) {
    if (!rest.empty() && rest.front() == '"') {
      ASSIGN_OR_RETURN(names.emplace_back(), TakeQuoted(&rest));
    } else {
      const size_t end = rest.find(',');
      names.emplace_back(rest.substr(0, end));
      rest.remove_prefix(end == absl::string_view::npos ? rest.size() : end);
    }
    if (names.back().empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "wanted names with commas between them, found an empty one in ", data::Quoted(list)));
    }
    if (rest.empty()) return names;
    rest.remove_prefix(1);  // a comma
    if (rest.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("wanted a name after the last comma of ", data::Quoted(list)));
    }
  }
}

}  // namespace coxswain::cli
