// Which names of files and directories are data: one rule for directories, patterns and stores.
#pragma once

#include <fnmatch.h>

#include <string>

namespace coxswain::data {

// Other programs' own files: unfinished ones, marks, hidden ones ("_temporary", "_SUCCESS", ".a").
inline bool IsOthersName(const std::string& name) {
  return name.empty() || name[0] == '.' || name[0] == '_';
}

// Of a part of a path. A wildcard at the begin of `pattern` stands for no '.' and no '_' there.
inline bool MatchesName(const std::string& pattern, const std::string& name) {
  if (IsOthersName(name) && (pattern.empty() || pattern[0] != name[0])) return false;
  return fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
}

}  // namespace coxswain::data
