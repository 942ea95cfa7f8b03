// Names beside a file, which the system bounds as it does the file's own.
#pragma once

#include <cstddef>
#include <string>

namespace coxswain::env {

// `path` with its last part cut, where it must be, so that it is still a file's name with `more`
// bytes behind it. A character of UTF-8 is cut as a whole, for file systems that take no others.
std::string CutName(const std::string& path, size_t more);

}  // namespace coxswain::env
