// `coxswain predict`: a saved model's predictions of the rows of a file.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cli/commands.h"

namespace coxswain::cli {

struct PredictFlags {
  SavedFlags from;
  Where where;                    // in this process unless it says where else
  std::string input;              // "-": stdin
  std::string output;             // empty: stdout
  std::string format = "csv";     // of the output: one of predict::LineFormats()
  std::string input_format;       // csv, jsonl, parquet, arrow; empty: see FormatOfInput
  std::vector<std::string> keep;  // columns of the input; "*": all
  int top = 0;                    // 0: the default of the kind
  bool skip_bad_rows = false;
  bool force = false;   // replaces an existing file
  bool verify = false;  // reads all tables first
};
int PredictCommand(const PredictFlags& flags);

}  // namespace coxswain::cli
