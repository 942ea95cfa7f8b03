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
  files.Write("sys/fs/cgroup/jobs/ps/memory.stat",
              "anon 700\ninactive_file 20\nactive_file 25\nslab_reclaimable 5\n");
  CHECK(FreeMemoryShare(root) == 0.15);
  files.Write("sys/fs/cgroup/jobs/ps/memory.current", "2000\n");
  CHECK(FreeMemoryShare(root) == 0);
}

TEST_CASE(
    "free memory: that of the machine with its swap space, or of a group around the process") {
  const DataFiles files;
  const std::string root = files.Path("");
  CHECK(FindFreeMemoryBelow(root).limit == 0);  // nothing is told
  std::filesystem::create_directories(files.Path("proc/self"));
  std::filesystem::create_directories(files.Path("sys/fs/cgroup/jobs/ps"));
  files.Write("proc/meminfo", "MemTotal: 4096 kB\nMemAvailable: 2048 kB\nSwapFree: 1024 kB\n");
  CHECK(FindFreeMemoryBelow(root).bytes == 3 << 20);
  CHECK(FindFreeMemoryBelow(root).ToString() == "3 MiB of the 5 MiB that the machine has");
  files.Write("proc/self/cgroup", "0::/jobs/ps\n");
  files.Write("sys/fs/cgroup/jobs/memory.max", "2097152\n");
  files.Write("sys/fs/cgroup/jobs/memory.current", "524288\n");
  files.Write("sys/fs/cgroup/jobs/memory.swap.max", "0\n");
  CHECK(FindFreeMemoryBelow(root).ToString() ==
        "1.5 MiB of the 2 MiB that its control group may use");
  files.Write("sys/fs/cgroup/jobs/ps/memory.max", "1048576\n");
  files.Write("sys/fs/cgroup/jobs/ps/memory.current", "1048576\n");
  CHECK(FindFreeMemoryBelow(root).bytes == 1 << 20);  // that it can swap out
  files.Write("sys/fs/cgroup/jobs/ps/memory.swap.max", "1024\n");
  files.Write("sys/fs/cgroup/jobs/ps/memory.swap.current", "1000\n");
  CHECK(FindFreeMemoryBelow(root).bytes == 24);
}

TEST_CASE(
    "free memory: what control groups of the older kind may use, also inside of a container") {
  const DataFiles files;
  const std::string root = files.Path("");
  std::filesystem::create_directories(files.Path("proc/self"));
  std::filesystem::create_directories(files.Path("sys/fs/cgroup/memory/jobs"));
  files.Write("proc/self/cgroup", "5:cpu,memory:/jobs\n");
  files.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  files.Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n");
  CHECK(FindFreeMemoryBelow(root).limit == 0);
  files.Write("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "1000\n");
  files.Write("sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "900\n");
  files.Write("sys/fs/cgroup/memory/jobs/memory.stat",
              "inactive_file 1\ntotal_inactive_file 50\ntotal_active_file 30\n");
  CHECK(FindFreeMemoryBelow(root).bytes == 180);
  CHECK(FindFreeMemoryBelow(root).group);
  // Outside, the container's group is in one of its machine's.
  files.Write("proc/self/cgroup", "5:memory:/machine/container\n");
  files.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "700\n");
  CHECK(FindFreeMemoryBelow(root).bytes == 695);
}

TEST_CASE("this machine tells how much memory is left") {
  const double share = FreeMemoryShare();
  CHECK(share > 0);
  CHECK(share < 1);
}

}  // namespace
}  // namespace coxswain::cluster
