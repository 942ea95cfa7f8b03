// `coxswain export`
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/commands/command_list.h"
#include "coordinator/cli/export_command.h"
#include "coordinator/cli/saved_flags.h"
#include "coordinator/export/export_format.h"

namespace coxswain::cli {

void AddExportCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<ExportFlags>();
  CLI::App* c = app.add_subcommand("export",
                                   "Exports the variables of a model or checkpoint, or its scoring "
                                   "function, for other programs");
  AddSavedFlags(c, &flags->from);
  std::vector<std::string> names, directories;
  for (const exporter::ExportFormat* format : exporter::ExportFormats()) {
    names.push_back(format->name);
    if (format->makes_directory()) directories.push_back(format->name);
  }
  names.push_back("onnx");  // not of variables
  c->add_option("--to", flags->to,
                absl::StrCat("one of ", absl::StrJoin(names, ", "), ", see docs/export.md"))
      ->required()
      ->check(CLI::IsMember(names))
      ->type_name("FORMAT");
  c->add_option(
       "--out", flags->out,
       absl::StrCat("the file to write; a directory for ", absl::StrJoin(directories, ", ")))
      ->required()
      ->type_name("PATH");
  c->add_option("--variables", flags->variables, "export only these variables, separated by commas")
      ->delimiter(',')
      ->type_name("NAME,...");
  c->add_option("--since", flags->since,
                "export only the rows of a checkpoint's tables that were updated after an older "
                "checkpoint of the same directory, given by its name or by a step (the last "
                "checkpoint at or before it)")
      ->type_name("CHECKPOINT|STEP");
  c->add_flag("--force", flags->force, "replace an existing export at PATH");
  c->add_flag("--external-data", flags->external_data,
              "onnx: write tables to a file beside PATH, as is always done from 2 GB on");
  c->callback([flags, run] { *run = [flags] { return ExportCommand(*flags); }; });
}

}  // namespace coxswain::cli
