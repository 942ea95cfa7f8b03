// Guards against mapped files that another program truncates: normally the system ends a process
// that reads lost pages (SIGBUS). With the guard, the process reads zeros there, and the lost pages
// are counted.
//
// The guard costs nothing until a page is lost. A lost page stays lost as long as the mapping.
#pragma once

#include <cstdint>

namespace coxswain::env {

// Installs the guard for the whole process. A SIGBUS for another reason has the same effect as
// before.
void GuardMappedFiles();

// The number of pages lost so far. Results computed while the number changed are invalid.
int64_t LostPages();

}  // namespace coxswain::env
