#include "runtime/env/lost_pages.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "absl/base/call_once.h"

namespace coxswain::env {
namespace {

// State that a signal handler may access.
std::atomic<int64_t> lost_pages{0};
static_assert(std::atomic<int64_t>::is_always_lock_free);
uintptr_t page_bytes = 4096;
struct sigaction before {};

// Maps an empty page where the file has none any more; the failed read is then repeated. mmap is a
// plain system call, so it may be called here.
void OnBusError(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (info->si_code == BUS_ADRERR) {
    ++lost_pages;  // first, so that a reader of the page finds the count changed
    const uintptr_t page = reinterpret_cast<uintptr_t>(info->si_addr) & ~(page_bytes - 1);
    void* const placed = mmap(reinterpret_cast<void*>(page), page_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    errno = error;
    if (placed != MAP_FAILED) return;
  }
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    return before.sa_sigaction(signal, info, context);
  }
  // The signal occurs again at once, and ends the process.
  sigaction(signal, &before, nullptr);
}

absl::once_flag guarded;

}  // namespace

void GuardMappedFiles() {
  absl::call_once(guarded, [] {
    page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
  });
}

int64_t LostPages() { return lost_pages.load(); }

}  // namespace coxswain::env
