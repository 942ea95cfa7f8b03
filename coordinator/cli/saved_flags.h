// What the commands that read a saved model or a checkpoint have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cli/outputs.h"
#include "coordinator/model/chosen_checkpoint.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/model/saved_reader.h"
#include "coordinator/predict/predictor.h"

namespace CLI {
class App;
}  // namespace CLI

namespace coxswain::cli {

// Where the variables are: one of the two directories.
struct SavedFlags {
  std::string model_dir;
  std::string checkpoint_dir;
  std::optional<uint64_t> checkpoint;  // its number; else the newest that is good
  bool verified = false;               // its files were, when ReadSaved chose it
};

// The directory where their job is kept with what it learned, and its manifest there.
std::string KeptIn(const SavedFlags& flags);
const model::ManifestKind& KeptAs(const SavedFlags& flags);

// What the variables were made of, which no output replaces: the file of their job and all that it
// names, where these were when it was trained; nothing where that is not kept, as of a program. A
// Predictor's job names what the model keeps of them instead.
std::vector<CommandInput> OriginsOf(const SavedFlags& flags);

// Without a number of a checkpoint: the newest whose manifest is good; see ReadSaved.
absl::StatusOr<model::SavedSource> OpenSaved(const SavedFlags& flags);
// The same variables as a Predictor, by ReadSaved; a checkpoint's files are always verified.
// `open_cluster`: where it predicts; null: in this process.
absl::StatusOr<std::unique_ptr<predict::Predictor>> LoadPredictor(
    const SavedFlags& flags, bool verify, const std::string& row_format = "",
    const predict::OpenCluster& open_cluster = nullptr);
// A line on stderr.
void NoteOnStderr(const std::string& text);
// Calls `read`, which returns a Status or a StatusOr, with the flags of one saved model or one
// checkpoint, so that all that it reads is of the same one. That is what --checkpoint says, or the
// newest good one, as of model::ReadChosen; stderr gets what is wrong with newer ones.
template <typename Read>
auto ReadSaved(const SavedFlags& flags, model::Verify verify, const Read& read)
    -> decltype(read(flags)) {
  if (!flags.model_dir.empty() || flags.checkpoint) return read(flags);
  return model::ReadChosen(flags.checkpoint_dir, verify, NoteOnStderr,
                           [&](std::optional<uint64_t> number) {
                             SavedFlags one = flags;
                             one.checkpoint = number;
                             one.verified = number && verify == model::Verify::kBytes;
                             return read(one);
                           });
}
// Raises the limit of open files: a table has as many files as shards, and shells often allow a
// thousand.
void AllowManyFiles();
// Prints the error; returns its exit code, which distinguishes wrong usage from failures.
int ComplainOfSaved(const absl::Status& status);

// --model-dir, --checkpoint-dir and --checkpoint; `flags` must outlive the command.
void AddSavedFlags(CLI::App* command, SavedFlags* flags);

// The shape of so many rows of a variable. Files of a hash table may have free places, which are
// none.
Shape ShapeOfRows(const model::SavedVariable& variable, int64_t rows);

}  // namespace coxswain::cli
