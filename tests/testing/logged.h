// What this process logs.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "tests/testing/data_files.h"

namespace coxswain::testing {

// While `what` runs.
inline std::string Logged(const DataFiles& files, const std::function<void()>& what) {
  const std::string path = files.Path("logged");
  const int before = dup(STDERR_FILENO);
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  dup2(file, STDERR_FILENO);
  what();
  dup2(before, STDERR_FILENO);
  close(file);
  close(before);
  std::ifstream logged(path);
  return {std::istreambuf_iterator<char>(logged), {}};
}

}  // namespace coxswain::testing
