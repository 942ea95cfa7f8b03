// What the commands that read a saved model or a checkpoint have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/model/saved_reader.h"

namespace CLI {
class App;
}  // namespace CLI

namespace coxswain::cli {

// Where the variables are: one of the two directories.
struct SavedFlags {
  std::string model_dir;
  std::string checkpoint_dir;
  std::optional<uint64_t> checkpoint;  // its number; else the newest
};

absl::StatusOr<model::SavedSource> OpenSaved(const SavedFlags& flags);
// Prints the error; returns its exit code, which tells what the user asked wrongly from what
// failed.
int ComplainOfSaved(const absl::Status& status);

// --model-dir, --checkpoint-dir and --checkpoint; `flags` must outlive the command.
void AddSavedFlags(CLI::App* command, SavedFlags* flags);

}  // namespace coxswain::cli
