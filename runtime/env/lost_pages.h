// Files that are mapped and then cut short by somebody: the system ends a process that reads what
// is gone (SIGBUS). With the guard it reads zeros there, and is told.
//
// Costs nothing until it happens. A page that is lost stays lost as long as the mapping.
#pragma once

#include <cstdint>

namespace coxswain::env {

// From now on, for the whole process. A SIGBUS that is of no mapping's end does what it did.
void GuardMappedFiles();

// How many pages were lost by now. What was computed while the number changed is worth nothing.
int64_t LostPages();

}  // namespace coxswain::env
