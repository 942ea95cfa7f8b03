// What a device is in the plugin, for the files that call CUDA's libraries.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "kernels/cuda/device.h"

struct CoxDevice {
  int index = 0;
  cudaMemPool_t pool = nullptr;
  cublasLtHandle_t products = nullptr;  // serves any number of threads
};
