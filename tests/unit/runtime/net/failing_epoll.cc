#include "tests/unit/runtime/net/failing_epoll.h"

#include <sys/epoll.h>

#include <atomic>
#include <cerrno>

namespace coxswain::net_testing {
namespace {

std::atomic<bool> failing{false};

}  // namespace

FailingEpoll::FailingEpoll() { failing = true; }
FailingEpoll::~FailingEpoll() { failing = false; }

// The linker brings calls here, and calls of __real_X to X (--wrap).
extern "C" {

int __real_epoll_ctl(int epoll, int what, int fd, epoll_event* event);
int __wrap_epoll_ctl(int epoll, int what, int fd, epoll_event* event) {
  if (what != EPOLL_CTL_ADD || !failing) return __real_epoll_ctl(epoll, what, fd, event);
  errno = ENOSPC;  // fs.epoll.max_user_watches
  return -1;
}

}  // extern "C"

}  // namespace coxswain::net_testing
