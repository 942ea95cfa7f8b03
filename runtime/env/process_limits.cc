#include "runtime/env/process_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::env {
namespace {

// Programs and libraries, stacks and heaps of the threads; some of them come with each core. Tried
// on 2 cores: with half of that some start-ups fail.
constexpr uint64_t kBaseBytes = uint64_t{1536} << 20;
constexpr uint64_t kBytesPerCore = uint64_t{64} << 20;

constexpr int64_t kStackMib = 8;  // of a thread, where the system is not told otherwise

uint64_t Needed() {
  return kBaseBytes + kBytesPerCore * std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

void RaiseFileLimit() {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  // A kernel that says no leaves it as it is, which is no worse than before.
  (void)setrlimit(RLIMIT_NOFILE, &files);
}

absl::Status CheckAddressSpace() {
  rlimit space = {};
  if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY) {
    return absl::OkStatus();
  }
  if (space.rlim_cur >= Needed()) return absl::OkStatus();
  return WithDetail(absl::FailedPreconditionError(absl::StrCat(
                        "this process may use ", space.rlim_cur >> 20,
                        " MiB of address space (`ulimit -v`), and needs ", Needed() >> 20,
                        " MiB for its threads alone: lift that limit; what bounds memory that is "
                        "really used is a "
                        "cgroup")),
                    {ErrorCause::kConfiguration, false, "", 0});
}

bool HasAddressSpaceFor(uint64_t bytes) {
  rlimit space = {};
  return getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY ||
         space.rlim_cur >= Needed() + bytes;
}

absl::Status CheckThreads(absl::string_view flag, int64_t threads) {
  RETURN_IF_ERROR(CheckAddressSpace());
  const int64_t mib = threads * kStackMib;
  if (HasAddressSpaceFor(static_cast<uint64_t>(mib) << 20)) return absl::OkStatus();
  return WithDetail(absl::FailedPreconditionError(absl::StrCat(
                        flag, ": ", threads, " threads take ", mib, " MiB of address space, for ",
                        "which `ulimit -v` leaves no room: wanted fewer, or that limit lifted")),
                    {ErrorCause::kConfiguration, false, "", 0});
}

}  // namespace coxswain::env
