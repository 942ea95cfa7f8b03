#include "tests/testing/failing_memory.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "coxswain/tensor.h"
#include "runtime/cluster/free_memory.h"
#include "runtime/tensor/limits.h"

namespace coxswain::testing {
namespace {

thread_local FailingMemory* failing = nullptr;

// Of ScarceMemory; negative: there is none.
std::atomic<double> free_bytes = -1, fewer_each_time = 0;

bool Fails(size_t bytes) { return failing != nullptr && failing->Fails(bytes); }

}  // namespace

FailingMemory::FailingMemory(int64_t granted, size_t from_bytes)
    : granted_(granted), from_bytes_(from_bytes) {
  failing = this;
}

FailingMemory::~FailingMemory() { failing = nullptr; }

bool FailingMemory::Fails(size_t bytes) {
  if (bytes < from_bytes_) return false;
  if (granted_ > 0) {
    --granted_;
    return false;
  }
  failed_ = true;
  return true;
}

ScarceMemory::ScarceMemory(double bytes, double each_time) {
  free_bytes = bytes;
  fewer_each_time = each_time;
}

ScarceMemory::~ScarceMemory() { free_bytes = -1; }

// The linker brings calls here, and calls of __real_X to X (--wrap).
extern "C" {

void* __real__Znwm(size_t bytes);  // operator new
void* __wrap__Znwm(size_t bytes) {
  if (Fails(bytes)) throw std::bad_alloc();
  return __real__Znwm(bytes);
}

void* __real_calloc(size_t count, size_t bytes);
void* __wrap_calloc(size_t count, size_t bytes) {
  return Fails(count * bytes) ? nullptr : __real_calloc(count, bytes);
}

}  // extern "C"

// Buffer::Allocate, which may have a block that was used before.
Buffer AllocateForReal(size_t bytes) asm("__real__ZN8coxswain6Buffer8AllocateEm");
Buffer AllocateOrFail(size_t bytes) asm("__wrap__ZN8coxswain6Buffer8AllocateEm");
Buffer AllocateOrFail(size_t bytes) {
  if (Fails(bytes)) throw AllocationError("a test lets no memory be had");
  return AllocateForReal(bytes);
}

cluster::FreeMemory FindForReal() asm("__real__ZN8coxswain7cluster14FindFreeMemoryEv");
cluster::FreeMemory FindOrLie() asm("__wrap__ZN8coxswain7cluster14FindFreeMemoryEv");
cluster::FreeMemory FindOrLie() {
  const double bytes = free_bytes;
  if (bytes < 0) return FindForReal();
  free_bytes = std::max(0.0, bytes - fewer_each_time);
  return {bytes, 8e9, /*group=*/false};
}

}  // namespace coxswain::testing
