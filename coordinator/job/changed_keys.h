// What the text of a job says otherwise than an earlier one did.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace coxswain::job {

// The text of a job's file, and what the command line set in it.
struct JobText {
  absl::string_view text;
  std::vector<std::string> overrides;
};

// The keys that shape what is trained (not epochs, checkpoints, the cluster or evaluations) and
// have another value: "model.activation: relu, now tanh"; "none" for a key that is not given. What
// has a name in a list is found by it, wherever it stands. Empty where a text is no YAML.
std::vector<std::string> ChangedKeys(const JobText& before, const JobText& now);

}  // namespace coxswain::job
