#include "kernels/cuda/host/emulated_api.h"

#include "kernels/cuda/api.h"
#include "kernels/cuda/launch.h"

const CoxDeviceApi* coxswain_emulated_device_api() { return coxswain::cuda::Api(); }

void coxswain_emulated_run_backwards(int backwards) { coxswain::cuda::backwards = backwards != 0; }
