// What WriteAtomically leaves beside a file when its process is killed: "<path>.<process>-<n>.tmp".
#pragma once

#include <string>

namespace coxswain::env {

// Removes those of `path` that nobody writes any more. Whoever writes one holds a lock (flock) on
// it until it is in its place, so the numbers of processes, which come again and are those of one
// machine, are not asked. Stays: what another user owns, what is no plain file (links are not
// followed), and everything where the file system has no locks.
void RemoveUnfinished(const std::string& path);

}  // namespace coxswain::env
