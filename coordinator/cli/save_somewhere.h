// Saves a trained model so that hours of training do not end with a full disk: where the directory
// that was asked for cannot be written and no checkpoint has the model, it goes elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace coxswain::cli {

struct SaveOptions {
  std::string directory;  // that was asked for
  int64_t bytes = 0;      // about what the model needs; 0: not known
  // A directory of checkpoints, the newest of which has the model; empty: there is none.
  std::string checkpoints;
  // Tried one after the other: new directories that begin so, see PlacesBeside.
  std::vector<std::string> places;
  // Whether a directory other than that one may be the model's, beyond what CheckCanSave looks at.
  std::function<absl::Status(const std::string& directory)> check;
  // When none will do: asks the user for a directory; nothing: gives up. Null: nobody is there.
  std::function<std::optional<std::string>(const std::string& why)> ask;
};

struct SaveOutcome {
  std::string directory;  // where the model is; empty: in none
  bool chosen = false;    // by the user, when asked
  absl::Status status;    // why it is not where it was asked for
};

// "<directory>-", and the same name in the working directory and in $TMPDIR (or /tmp).
std::vector<std::string> PlacesBeside(const std::string& directory);

// `save` writes the model into a directory, or leaves it as it was. A task of the cluster that is
// lost meanwhile is an error that no other place helps with.
SaveOutcome SaveSomewhere(const SaveOptions& options,
                          const std::function<absl::Status(const std::string& directory)>& save);

// Asks on the terminal until a line is typed; nothing when it is empty, or at the end of the input
// or a signal. Null when stdin or stderr is no terminal.
std::function<std::optional<std::string>(const std::string& why)> AskOnTerminal();

}  // namespace coxswain::cli
