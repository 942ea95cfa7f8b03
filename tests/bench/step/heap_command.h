// What a step asks of the heap, and what another row adds to it: the benchmark heap.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace coxswain {

struct HeapFlags {
  std::vector<std::string> shapes = {"sparse32", "talk", "ctr", "dlrm"};
  double seconds = 1;
};

CLI::App* AddHeapCommand(CLI::App* app, HeapFlags* flags);

// Prints a line for each shape, as it is and with four times the examples. Errors: as MeasureStep;
// Internal when each further id of the larger step costs a hundredth of an allocation or more, or
// when what is allocated in a step could hold the tensors that travel in it.
absl::Status RunHeap(const HeapFlags& flags);

}  // namespace coxswain
