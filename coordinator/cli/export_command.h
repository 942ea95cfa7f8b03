// `coxswain export`.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cli/saved_flags.h"

namespace coxswain::cli {

struct ExportFlags {
  SavedFlags from;
  std::string to;
  std::string out;
  std::vector<std::string> variables;
  std::string since;  // a step or the name of a checkpoint; empty: everything
  bool force = false;
  bool external_data = false;  // of an ONNX model
};
int ExportCommand(const ExportFlags& flags);

}  // namespace coxswain::cli
