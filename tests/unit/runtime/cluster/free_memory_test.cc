// What is left of the machine's memory, and of a control group's.
#include "runtime/cluster/free_memory.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/testing/data_files.h"

namespace coxswain::cluster {
namespace {

TEST_CASE("the memory that is left is that of the machine or of the control group, the lesser") {
  const DataFiles files;
  const std::string root = files.Path("");
  CHECK(FreeMemoryShare(root) == 1);  // nothing is told
  std::filesystem::create_directories(files.Path("proc/self"));
  std::filesystem::create_directories(files.Path("sys/fs/cgroup/jobs/ps"));
  files.Write("proc/meminfo",
              "MemTotal:       1000 kB\nMemFree:         10 kB\nMemAvailable:    250 kB\n");
  CHECK(FreeMemoryShare(root) == 0.25);
  files.Write("proc/self/cgroup", "1:cpu:/other\n0::/jobs/ps\n");
  files.Write("sys/fs/cgroup/jobs/ps/memory.max", "max\n");
  files.Write("sys/fs/cgroup/jobs/ps/memory.current", "900\n");
  CHECK(FreeMemoryShare(root) == 0.25);
  files.Write("sys/fs/cgroup/jobs/ps/memory.max", "1000\n");
  CHECK(FreeMemoryShare(root) == 0.1);
  files.Write("sys/fs/cgroup/jobs/ps/memory.stat", "anon 800\ninactive_file 50\n");
  CHECK(FreeMemoryShare(root) == 0.15);
  files.Write("sys/fs/cgroup/jobs/ps/memory.current", "2000\n");
  CHECK(FreeMemoryShare(root) == 0);
}

TEST_CASE("this machine tells how much memory is left") {
  const double share = FreeMemoryShare();
  CHECK(share > 0);
  CHECK(share < 1);
}

}  // namespace
}  // namespace coxswain::cluster
