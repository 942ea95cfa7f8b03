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
  CLI::App* c = app.add_subcommand(
      "export",
      "Writes a model's or a checkpoint's variables, or its scoring function, for other programs");
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
  c->add_option("--variables", flags->variables, "only these, separated by commas")
      ->delimiter(',')
      ->type_name("NAME,...");
  c->add_option("--since", flags->since,
                "of a checkpoint's tables only the rows updated after an older checkpoint of the "
                "same directory: its name, or the step that it is of (or the last before)")
      ->type_name("CHECKPOINT|STEP");
  c->add_flag("--force", flags->force, "replace an older export at PATH");
  c->add_flag("--external-data", flags->external_data,
              "onnx: tables in a file beside PATH, as it is from 2 GB on");
  c->callback([flags, run] { *run = [flags] { return ExportCommand(*flags); }; });
}

}  // namespace coxswain::cli
