#include "kernels/cuda/op.h"

#include <algorithm>

namespace coxswain::cuda {

void OpTable::Add(const char* op, const DTypes& dtypes, Status (*run)(const Run&)) {
  Add(op, [dtypes, run](const Node& node, OpFunction* made) {
    COX_CUDA_RETURN_IF_ERROR(WantFirst(node, dtypes));
    *made = run;
    return Status();
  });
}

Status OpTable::Make(const Node& node, OpFunction* op) const {
  const auto line = makers_.find(node.op());
  if (line == makers_.end()) return NotFound("no kernel for op '" + std::string(node.op()) + "'");
  return line->second(node, op);
}

Status WantFirst(const Node& node, const DTypes& dtypes) {
  if (node.num_inputs() > 0 &&
      std::find(dtypes.begin(), dtypes.end(), node.input_dtype(0)) != dtypes.end()) {
    return Status();
  }
  return NotFound("no kernel for op '" + std::string(node.op()) + "' and this type of input 0");
}

size_t SizeOf(int32_t dtype) {
  switch (dtype) {
    case COX_BOOL:
      return 1;
    case COX_BF16:
      return 2;
    case COX_F32:
    case COX_I32:
      return 4;
    case COX_F64:
    case COX_I64:
      return 8;
    default:
      return 0;
  }
}

int64_t DimsProduct(const CoxTensor& t, int begin, int end) {
  int64_t product = 1;
  for (int i = begin; i < end; ++i) product *= t.dims[i];
  return product;
}

bool SameShape(const CoxTensor& a, const CoxTensor& b) {
  return a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims);
}

Status PassOn(const Run& run, const CoxTensor& from, const CoxTensor& to) {
  if (from.data == to.data) return Status();
  return CopyOnDevice(run.stream(), to.data, from.data, Bytes(from));
}

}  // namespace coxswain::cuda
