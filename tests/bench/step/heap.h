// What this process asks of the heap: the benchmark's program counts every operator new, whoever
// calls it, shared libraries such as Protobuf's too. Tensors lie in buffers of their own
// (runtime/tensor/buffer.h), whose blocks are not taken by operator new.
#pragma once

#include <cstdint>

namespace coxswain {

struct HeapCount {
  int64_t allocations = 0;
  int64_t bytes = 0;
};

// Since the program began, over all threads.
HeapCount ReadHeapCount();

}  // namespace coxswain
