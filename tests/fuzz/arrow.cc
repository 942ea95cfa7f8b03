// A file of Arrow's own (IPC, Feather): all of its columns are read, in memory and streamed. Arrow
// itself is not instrumented, so that libFuzzer sees our half of the way alone.
#include <cstdlib>

#include "tests/fuzz/columns.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (!coxswain::fuzz::CanReadColumns()) std::exit(0);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  coxswain::fuzz::ReadColumns("arrow", coxswain::fuzz::Text(data, size));
  return 0;
}
