#include "coordinator/cli/saved_flags.h"

#include <sys/resource.h>

#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/export_command.h"
#include "coordinator/cli/table_command.h"

namespace coxswain {
namespace {

void AddExport(CLI::App* app, std::function<int()>* run) {
  const auto flags = std::make_shared<ExportFlags>();
  CLI::App* c = app->add_subcommand(
      "export", "Writes a model's or a checkpoint's variables for other programs");
  AddSavedFlags(c, &flags->from);
  c->add_option("--to", flags->to, "safetensors, csv or npz, see docs/export.md")
      ->required()
      ->check(CLI::IsMember({"safetensors", "csv", "npz"}))
      ->type_name("FORMAT");
  c->add_option("--out", flags->out, "the file to write; for csv a directory")
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
  c->callback([flags, run] { *run = [flags] { return ExportCommand(*flags); }; });
}

void AddTable(CLI::App* app, std::function<int()>* run) {
  CLI::App* table = app->add_subcommand("table", "Shows a saved model's or a checkpoint's tables");
  table->require_subcommand(1);

  const auto stat = std::make_shared<TableStatFlags>();
  CLI::App* c = table->add_subcommand("stat", "Their sizes and how long their rows are");
  AddSavedFlags(c, &stat->from);
  c->add_option("NAME", stat->names, "these variables; else all tables")->type_name("");
  c->add_flag("--json", stat->json, "as JSON");
  c->callback([stat, run] { *run = [stat] { return TableStatCommand(*stat); }; });

  const auto lookup = std::make_shared<TableLookupFlags>();
  c = table->add_subcommand("lookup", "Shows rows of a table");
  AddSavedFlags(c, &lookup->from);
  c->add_option("NAME", lookup->table, "the table")->required()->type_name("");
  c->add_option("WORD", lookup->keys, "words of the table's vocabulary, or ids where it has none")
      ->required()
      ->type_name("");
  c->add_flag("--ids", lookup->ids, "what follows NAME are ids, also where there is a vocabulary");
  c->add_option("--nearest", lookup->nearest,
                "also the rows that point in the most similar directions, 1 to 1000")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  c->add_flag("--json", lookup->json, "as JSON");
  c->callback([lookup, run] { *run = [lookup] { return TableLookupCommand(*lookup); }; });
}

// A table has as many files as shards, and shells allow a thousand.
void AllowManyFiles() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

absl::StatusOr<SavedSource> OpenSaved(const SavedFlags& flags) {
  AllowManyFiles();
  if (!flags.model_dir.empty()) return SavedSource::OpenModel(flags.model_dir);
  return SavedSource::OpenCheckpoint(flags.checkpoint_dir, flags.checkpoint);
}

int ComplainOfSaved(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      return Complain(AsConfiguration(status));
    default:
      return Complain(status);
  }
}

void AddSavedFlags(CLI::App* command, SavedFlags* flags) {
  auto* from = command->add_option_group("from", "What is read");
  from->add_option("--model-dir", flags->model_dir, "a model that `coxswain train` saved")
      ->type_name("DIR");
  auto* directory = from->add_option("--checkpoint-dir", flags->checkpoint_dir,
                                     "a directory of checkpoints, or one checkpoint")
                        ->type_name("DIR");
  from->require_option(1);
  command
      ->add_option("--checkpoint", flags->checkpoint,
                   "the checkpoint of this number; else the newest")
      ->needs(directory)
      ->type_name("N");
}

void AddSavedCommands(CLI::App* app, std::function<int()>* run) {
  AddExport(app, run);
  AddTable(app, run);
}

}  // namespace coxswain
