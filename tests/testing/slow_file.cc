#include "tests/testing/slow_file.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>
#include <utility>

#include "absl/time/clock.h"

namespace coxswain {

SlowFile::SlowFile(const std::string& path) : path_(path) {
  signal(SIGIO, SIG_IGN);  // by which the system tells the holder that somebody waits
  fd_ = open(path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  REQUIRE(fd_ >= 0);
  REQUIRE(fcntl(fd_, F_SETLEASE, F_WRLCK) == 0);
}

SlowFile::~SlowFile() { Release(); }

bool SlowFile::AwaitReader(absl::Duration timeout) const {
  const absl::Time deadline = absl::Now() + timeout;
  // What the lease is about to become is told from the moment that somebody waits.
  while (fcntl(fd_, F_GETLEASE) == F_WRLCK) {
    if (absl::Now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

void SlowFile::Write(const std::string& text) {
  REQUIRE(write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  Release();
}

void SlowFile::Release() {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0) return;
  fcntl(fd, F_SETLEASE, F_UNLCK);
  close(fd);
}

}  // namespace coxswain
