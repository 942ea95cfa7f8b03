// How variables are written for other programs. Each format is a file of formats/ and a line in
// formats/format_list.h.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/export/csv_writer.h"
#include "coordinator/export/selected_rows.h"
#include "runtime/env/file_system.h"

namespace coxswain::exporter {

// The metadata of an export, as texts.
using Facts = std::map<std::string, std::string>;

struct ExportFormat {
  const char* name = "";
  // Not null: it takes tables only, and this is why, after "NAME is no table: ".
  const char* only_tables = nullptr;
  // One of two ways. All variables in one file. `facts` are those of the whole.
  absl::Status (*write_all)(const std::vector<SelectedRows>& all, const Facts& facts,
                            env::FileSystem* files, const std::string& path) = nullptr;
  // Or a directory with a file for each, whose name is the variable's with this ending; `words` may
  // be null.
  absl::Status (*write_variable)(const SelectedRows& rows, const WordOf& words,
                                 env::FileSystem* files, const std::string& path) = nullptr;
  const char* ending = "";
  bool labels = false;  // there is a second file, which has the names of the rows (WriteLabels)

  bool makes_directory() const { return write_variable != nullptr; }
};

// All, in the order of the help.
const std::vector<const ExportFormat*>& ExportFormats();
// Errors: InvalidArgument, with the names that there are.
absl::StatusOr<const ExportFormat*> FindExportFormat(absl::string_view name);

// What arrays are called in a file that has all variables: a table's rows have the table's name,
// its ids and those that were removed have names that come from it.
std::string IdsName(const SelectedRows& rows);
std::string RemovedName(const SelectedRows& rows);

}  // namespace coxswain::exporter
