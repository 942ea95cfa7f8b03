// Who may read and write a file or a directory, where another one takes its place.
#pragma once

#include <sys/types.h>

#include <string>

namespace coxswain::env {

// `made` gets the mode of `old`, its owner, group and access list where the system allows it, and
// `also` in its mode. Nobody gets in by it who could not before: without the group, or the list,
// the group may do what all others may. Does nothing where one of the two is not there, or one is a
// directory and the other is not; nothing that fails is an error.
void KeepAccess(const std::string& old, const std::string& made, mode_t also = 0);

}  // namespace coxswain::env
