// `coxswain predict`: a saved model's predictions of the rows of a file.
#pragma once

#include <string>

namespace coxswain::cli {

struct PredictFlags {
  std::string model_dir;
  std::string input;   // "-": stdin
  std::string output;  // empty: stdout
  int top = 0;         // 0: the default of the kind
  bool skip_bad_rows = false;
  bool force = false;   // replaces a file that is there
  bool verify = false;  // reads all tables first
};
int PredictCommand(const PredictFlags& flags);

}  // namespace coxswain::cli
