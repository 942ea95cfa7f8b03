// A system that watches no more descriptors than it does. In a program that is linked with
// --wrap=epoll_ctl (tests/CMakeLists.txt): there calls of what is compiled here go through
// failing_epoll.cc.
#pragma once

namespace coxswain::net_testing {

// As long as it lives, in all threads. One at a time.
class FailingEpoll {
 public:
  FailingEpoll();
  ~FailingEpoll();
  FailingEpoll(const FailingEpoll&) = delete;
  FailingEpoll& operator=(const FailingEpoll&) = delete;
};

}  // namespace coxswain::net_testing
