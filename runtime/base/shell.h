// Command lines in messages, for people to copy.
#pragma once

#include <string>

namespace coxswain {

// `word` as one word of a command line of sh.
std::string ShellQuoted(const std::string& word);

}  // namespace coxswain
