// `coxswain nearest`: which words, or items, have about the same vectors.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cli/saved_flags.h"

namespace coxswain::cli {

struct NearestFlags {
  SavedFlags from;
  std::string table;               // empty: the only named table that has its feature's name
  std::vector<std::string> words;  // the neighbours of each are printed
  // Or the neighbours of a sum of vectors, each scaled to length 1; lists for SplitNames.
  std::vector<std::string> plus, minus;
  int top = 10;
  bool json = false;
};
int NearestCommand(const NearestFlags& flags);

}  // namespace coxswain::cli
