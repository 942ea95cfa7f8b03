// The rules of the source tree that a compiler does not know: who may include whom, which folder
// may use which library, and what no file may contain. Pure functions over texts, so that the rules
// can be tested on files that do not exist.
//
// Paths are relative to the repository's root, with '/'. A finding is one line "path:line: what".
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace coxswain::tidy {

// Direction of includes, libraries in their wrappers, headers' guards, sizes, forbidden headers and
// words, clocks.
// `path` ends with .h, .cc, .cu or .cuh.
std::vector<std::string> CheckSource(const std::string& path, const std::string& text);

// Types of one name at namespace scope in two files, of which at least one is no test: the linker
// keeps the members of one of them for both. `texts`: of sources by path.
std::vector<std::string> CheckTypeNames(const std::map<std::string, std::string>& texts);

// Types that are defined in another namespace than their folder's.
std::vector<std::string> CheckNamespaces(const std::string& path, const std::string& text);

// The members with a trailing underscore of the classes at namespace scope, as they are formatted
// here; of a class that has any.
struct ClassSize {
  std::string name;
  int members = 0;
};
std::vector<ClassSize> ClassSizes(const std::string& path, const std::string& text);
// No class has more. Today's largest; to be lowered, never raised.
inline constexpr int kMostMembers = 23;

// What holds for every text file: no marks of unfinished work.
std::vector<std::string> CheckText(const std::string& path, const std::string& text);

// Links of a Markdown page to files. `exists` is asked for paths from the repository's root.
std::vector<std::string> CheckLinks(const std::string& path, const std::string& text,
                                    const std::function<bool(const std::string&)>& exists);

// Each folder of the house that has files has a README.md.
std::vector<std::string> CheckReadmes(const std::set<std::string>& files);

}  // namespace coxswain::tidy
