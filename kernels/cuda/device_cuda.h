// What a device is in the plugin, for the files that call CUDA's libraries.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <mutex>
#include <set>

#include "kernels/cuda/device.h"

struct CoxDevice {
  int index = 0;
  size_t most_kept = 0;  // bytes, of a stream: StreamMemory
  cudaMemPool_t pool = nullptr;
  cublasLtHandle_t products = nullptr;  // serves any number of threads
  std::mutex mutex;                     // of `streams`
  std::set<CoxStream*> streams;         // all that there are
};
