#include "runtime/data/labelled_text.h"

#include <filesystem>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"

namespace coxswain::data {

std::string ClassOfFile(absl::string_view path) {
  const std::string file = std::filesystem::path(std::string(path)).filename().string();
  absl::string_view name = file;
  for (const char* ending : {".gz", ".zst", ".txt"}) {
    if (name.size() > std::string(ending).size()) absl::ConsumeSuffix(&name, ending);
  }
  return std::string(name);
}

std::string ClassOfDirectory(absl::string_view path) {
  return std::filesystem::path(std::string(path)).parent_path().filename().string();
}

absl::Status LabelledTexts::Start(InputFile* input, int64_t next_line) {
  const std::vector<std::string> columns = {kTextColumn, kClassColumn};
  for (const TableRows::Binding& binding : rows_.bindings()) {
    if (binding.column == kTextColumn || binding.column == kClassColumn) continue;
    return absl::NotFoundError(absl::StrCat(
        input->path(), ": wanted a column ", Quoted(binding.column),
        ", found those of labelled text, which are ", kTextColumn, " and ", kClassColumn));
  }
  return rows_.StartFile(input, columns, next_line);
}

absl::Status LabelledTexts::Add(InputFile* input, int64_t line, int64_t next_line,
                                absl::string_view text) {
  for (const TableRows::Binding& binding : rows_.bindings()) {
    const bool of_class = binding.column == kClassColumn;
    if (binding.sink->Append(of_class ? absl::string_view(class_) : text)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        input->path(), ":", line, ": column ", Quoted(binding.column), ": wanted ",
        binding.sink->Wanted(), ", found ",
        of_class ? Quoted(class_) : absl::StrCat("a text of ", text.size(), " bytes")));
  }
  if (rows_.chained()) {
    rows_.chain().Add(class_);
    rows_.chain().Add(text);
  }
  return rows_.EndRow(input, line, next_line);
}

}  // namespace coxswain::data
