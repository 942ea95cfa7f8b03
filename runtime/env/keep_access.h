// Where another file or directory takes the place of one: which place that is, and who may read and
// write it.
#pragma once

#include <sys/types.h>

#include <string>

namespace coxswain::env {

// What a link leads to in the end, so that this is replaced and the link stays; other paths as they
// are.
std::string BehindLinks(const std::string& path);

// `made` gets the mode of `old`, its owner, group and access list where the system allows it, and
// `also` in its mode. Nobody gets in by it who could not before: without the group, or the list,
// the group may do what all others may. Does nothing where one of the two is not there, or one is a
// directory and the other is not; nothing that fails is an error.
void KeepAccess(const std::string& old, const std::string& made, mode_t also = 0);

}  // namespace coxswain::env
