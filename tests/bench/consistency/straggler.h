// A worker that is slow: its process is stopped most of the time.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <thread>

namespace coxswain {

class Straggler {
 public:
  // The process gets one part in `slowdown` of the time, in turns of a few milliseconds. Goes on
  // until destroyed.
  Straggler(pid_t pid, double slowdown);
  ~Straggler();
  Straggler(const Straggler&) = delete;
  Straggler& operator=(const Straggler&) = delete;

 private:
  void Run(pid_t pid, double slowdown);

  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace coxswain
