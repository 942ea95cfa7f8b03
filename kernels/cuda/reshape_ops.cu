// The same elements under another shape: a copy, unless the output shares the input's memory.
#include "kernels/cuda/op_list.h"

namespace coxswain::cuda {
namespace {

Status RunReshape(const Run& run) { return PassOn(run, run.input(0), run.output(0)); }

}  // namespace

void AddReshapeOps(OpTable* table) {
  for (const char* op : {"Reshape", "ReshapeLike", "ExpandDims", "Squeeze"}) {
    table->Add(op, AllTypes(), RunReshape);
  }
}

}  // namespace coxswain::cuda
