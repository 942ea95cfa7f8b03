// A shortage of memory, when and where a test wants it. In programs that are linked with
// coxswain_failing_memory (tests/CMakeLists.txt): there `operator new`, Buffer::Allocate and calloc
// of all that is compiled here go through failing_memory.cc, and so does what asks how much memory
// is free.
#pragma once

#include <cstddef>
#include <cstdint>

namespace coxswain::testing {

// As long as it lives, in its thread: of the requests for `from_bytes` or more the first `granted`
// are met, and no other. A test that counts `granted` up from 0 until nothing fails has tried every
// place where something can.
class FailingMemory {
 public:
  // What grows with the data, and not the few hundred bytes of a task or a message.
  static constexpr size_t kLarge = 4096;

  explicit FailingMemory(int64_t granted, size_t from_bytes = kLarge);
  ~FailingMemory();
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;

  bool failed() const { return failed_; }
  // Whether this request is to fail.
  bool Fails(size_t bytes);

 private:
  int64_t granted_;
  const size_t from_bytes_;
  bool failed_ = false;
};

// As long as it lives, in all threads: so many bytes are free, and `each_time` fewer after each
// question.
class ScarceMemory {
 public:
  explicit ScarceMemory(double bytes, double each_time = 0);
  ~ScarceMemory();
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;
};

}  // namespace coxswain::testing
