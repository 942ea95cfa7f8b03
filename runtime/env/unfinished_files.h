// What WriteAtomically leaves beside a file when its process is killed: "<path>.<process>-<n>.tmp",
// of a long name only its begin.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace coxswain::env {

// The name.
std::string UnfinishedName(const std::string& path, pid_t process, uint64_t n);

// Removes those of `path` that nobody writes any more. Whoever writes one holds a lock (flock) on
// it until it is in its place, so the numbers of processes, which come again and are those of one
// machine, are not asked. Stays: what another user owns, what is no plain file (links are not
// followed), and everything where the file system has no locks.
void RemoveUnfinished(const std::string& path);

}  // namespace coxswain::env
