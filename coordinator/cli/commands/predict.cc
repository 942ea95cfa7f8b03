// `coxswain predict`
#include "coordinator/cli/predict_command.h"

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/commands/shared_flags.h"
#include "coordinator/cli/saved_flags.h"
#include "coordinator/predict/line_format.h"

namespace coxswain::cli {

void AddPredictCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<PredictFlags>();
  CLI::App* c = app.add_subcommand(
      "predict", "Writes what a saved model predicts of the rows of a file, as CSV or JSON lines");
  AddSavedFlags(c, &flags->from);
  AddElsewhere(c, &flags->where, "Where the model is asked; else in this process");
  c->add_option("--input", flags->input,
                "rows in the format of the job's data, with or without the label; -: stdin")
      ->required()
      ->type_name("FILE|-");
  c->add_option(
       "--input-format", flags->input_format,
       "csv with a header, jsonl, parquet or arrow; else by the file's name (.parquet, .arrow), or "
       "the format of the job's data")
      ->check(CLI::IsMember({"csv", "jsonl", "parquet", "arrow"}))
      ->type_name("FORMAT");
  std::vector<std::string> formats, helps;
  for (const predict::LineFormat* format : predict::LineFormats()) {
    formats.push_back(format->name);
    helps.push_back(absl::StrCat(format->name, ", ", format->help));
  }
  c->add_option("--format", flags->format,
                "how predictions are written: " + absl::StrJoin(helps, "; "))
      ->check(CLI::IsMember(formats))
      ->type_name("FORMAT")
      ->capture_default_str();
  CLI::Option* const output =
      c->add_option("--output", flags->output,
                    "write the predictions here, whole or not at all; else to stdout")
          ->type_name("FILE");
  c->add_option("--top", flags->top,
                "the best K classes or items of each row, 1 to 1000; else one class, or ten items")
      ->check(CLI::Range(1, 1000))
      ->type_name("K");
  c->add_flag("--skip-bad-rows", flags->skip_bad_rows,
              "leave out rows that cannot be read, which else are an error; each prediction then "
              "begins with the line of its row");
  c->add_flag("--force", flags->force, "replace the output if it is there")->needs(output);
  c->add_flag("--verify", flags->verify,
              "first read all tables and hold them against their checksums");
  c->callback([flags, run] { *run = [flags] { return PredictCommand(*flags); }; });
}

}  // namespace coxswain::cli
