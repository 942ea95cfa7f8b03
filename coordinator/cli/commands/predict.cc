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
      "predict", "Writes a saved model's predictions for the rows of a file, as CSV or JSON lines");
  AddSavedFlags(c, &flags->from);
  AddElsewhere(c, &flags->where, "Where the model runs; default: in this process");
  c->add_option(
       "--input", flags->input,
       "file with rows in the format of the job's data, with or without the label; -: stdin")
      ->required()
      ->type_name("FILE|-");
  c->add_option("--input-format", flags->input_format,
                "format of the rows: csv with a header, jsonl, parquet or arrow; default: by the "
                "file's name (.parquet, .arrow), or the format of the job's data")
      ->check(CLI::IsMember({"csv", "jsonl", "parquet", "arrow"}))
      ->type_name("FORMAT");
  std::vector<std::string> formats, helps;
  for (const predict::LineFormat* format : predict::LineFormats()) {
    formats.push_back(format->name);
    helps.push_back(absl::StrCat(format->name, " ", format->help));
  }
  c->add_option("--format", flags->format, "output format: " + absl::StrJoin(helps, "; "))
      ->check(CLI::IsMember(formats))
      ->type_name("FORMAT")
      ->capture_default_str();
  CLI::Option* const output =
      c->add_option("--output", flags->output,
                    "write the predictions to this file, all of them or none; default: to stdout")
          ->type_name("FILE");
  c->add_option(
       "--top", flags->top,
       "number of best classes or items per row, 1 to 1000; default: one class, or ten items")
      ->check(CLI::Range(1, 1000))
      ->type_name("K");
  c->add_option("--keep", flags->keep,
                "columns of the input that come before the predictions, as they are in the file "
                "(csv, criteo, parquet, arrow), separated by commas; '*': all")
      ->delimiter(',')
      ->type_name("COLUMNS");
  c->add_flag("--skip-bad-rows", flags->skip_bad_rows,
              "skip rows that cannot be read, which are otherwise an error; each prediction then "
              "begins with the line number of its row");
  c->add_flag("--force", flags->force, "replace the output file if it exists")->needs(output);
  c->add_flag("--verify", flags->verify, "first verify the checksums of all tables");
  c->callback([flags, run] { *run = [flags] { return PredictCommand(*flags); }; });
}

}  // namespace coxswain::cli
