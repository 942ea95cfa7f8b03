// The CUDA plugin's kernels on the host, for tests: one device whose memory is the host's. Its
// streams run at once what is enqueued, on the calling thread; only notifications come from a
// thread of its own. Fresh memory is full of NaN.
#pragma once

#include "runtime/device/device_api.h"

#ifdef __cplusplus
extern "C" {
#endif

const CoxDeviceApi* coxswain_emulated_device_api(void);

/* Runs the threads of each block from the last to the first (or, with 0, as usual): what depends on
 * their order is wrong. */
void coxswain_emulated_run_backwards(int backwards);

#ifdef __cplusplus
} /* extern "C" */
#endif
