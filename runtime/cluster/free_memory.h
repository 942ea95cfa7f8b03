// How much memory is left for this process.
#pragma once

#include <string>

namespace coxswain::cluster {

// The share that can still be had of the machine's memory or, where that is less, of what the
// process's control group may use; 1 where neither is told. `root`: of the file system, for tests.
double FreeMemoryShare(const std::string& root = "");

}  // namespace coxswain::cluster
