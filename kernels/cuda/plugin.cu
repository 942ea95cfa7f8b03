// What the plugin exports.
#include "kernels/cuda/api.h"

extern "C" __attribute__((visibility("default"))) const CoxDeviceApi* coxswain_device_api(void) {
  return coxswain::cuda::Api();
}
