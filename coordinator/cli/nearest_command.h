// `coxswain nearest`: which words, or items, have about the same vectors.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cli/saved_flags.h"

namespace coxswain::cli {

struct NearestFlags {
  SavedFlags from;
  std::string table;               // empty: the one table that has a vocabulary of its name
  std::vector<std::string> words;  // the nearest of each
  // Or of their sum, each vector of length 1; lists for SplitNames.
  std::vector<std::string> plus, minus;
  int top = 10;
  bool json = false;
};
int NearestCommand(const NearestFlags& flags);

}  // namespace coxswain::cli
