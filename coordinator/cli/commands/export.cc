// `coxswain export`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/command_list.h"
#include "coordinator/cli/export_command.h"
#include "coordinator/cli/saved_flags.h"

namespace coxswain::cli {

void AddExportCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<ExportFlags>();
  CLI::App* c = app.add_subcommand(
      "export",
      "Writes a model's or a checkpoint's variables, or its scoring function, for other programs");
  AddSavedFlags(c, &flags->from);
  c->add_option("--to", flags->to,
                "safetensors, csv, npz, projector, hnsw or onnx, see docs/export.md")
      ->required()
      ->check(CLI::IsMember({"safetensors", "csv", "npz", "projector", "hnsw", "onnx"}))
      ->type_name("FORMAT");
  c->add_option("--out", flags->out, "the file to write; for csv, projector and hnsw a directory")
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
