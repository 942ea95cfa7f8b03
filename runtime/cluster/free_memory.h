// How much memory is left for this process.
#pragma once

#include <string>

namespace coxswain::cluster {

// What can still be had: of the machine's memory and swap space, or of what one of the process's
// control groups may use, whichever is less. Files that the system keeps in memory count as free,
// because it drops them when memory is wanted.
struct FreeMemory {
  double bytes = 0;    // free
  double limit = 0;    // of this many; 0: nothing is told
  bool group = false;  // the limit is a control group's

  // "1.9 GiB of the 2 GiB that its control group may use"
  std::string ToString() const;
};
FreeMemory FindFreeMemory();
FreeMemory FindFreeMemoryBelow(const std::string& root);  // of a file system, for tests

// The share that is left, without swap space, of the memory of which the least is left; 1 where
// nothing is told.
double FreeMemoryShare(const std::string& root = "");

}  // namespace coxswain::cluster
