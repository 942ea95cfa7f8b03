#include "coordinator/export/export_format.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/export/formats/format_list.h"
#include "runtime/data/names.h"

namespace coxswain::exporter {

const std::vector<const ExportFormat*>& ExportFormats() {
#define COX_FORMAT(function) &function(),
  static const auto* const all =
      new std::vector<const ExportFormat*>{COX_EXPORT_FORMATS(COX_FORMAT)};
#undef COX_FORMAT
  return *all;
}

absl::StatusOr<const ExportFormat*> FindExportFormat(absl::string_view name) {
  std::vector<absl::string_view> names;
  for (const ExportFormat* format : ExportFormats()) {
    if (format->name == name) return format;
    names.push_back(format->name);
  }
  return absl::InvalidArgumentError(absl::StrCat("wanted one of ", absl::StrJoin(names, ", "),
                                                 ", found ", data::Quoted(std::string(name))));
}

std::string IdsName(const SelectedRows& rows) { return absl::StrCat(rows.variable().name, ".ids"); }

std::string RemovedName(const SelectedRows& rows) {
  return absl::StrCat(rows.variable().name, ".removed");
}

}  // namespace coxswain::exporter
