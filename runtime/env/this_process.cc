#include "runtime/env/this_process.h"

#include <limits.h>
#include <time.h>
#include <unistd.h>

namespace coxswain::env {

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};  // the last byte stays 0
  return gethostname(name, HOST_NAME_MAX) == 0 ? name : "";
}

double ProcessCpuSeconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

}  // namespace coxswain::env
