// What is behind a value, the last row of each sequence and its gradient; the formulas are in
// kernels/sequence_ops.cc.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/segments.h"

namespace coxswain::cuda {
namespace {

// Reports an offset with which the sequences are not all of the rows.
struct CheckOffset {
  Segments sequences;

  COX_DEVICE void operator()(int64_t i) const {
    const int64_t offset = sequences.offsets[i], before = i == 0 ? 0 : sequences.offsets[i - 1];
    const int64_t bound = i == 0 ? 1 : sequences.rows + 1;
    const bool ends = i < sequences.count || offset == sequences.rows;
    if (offset >= before && offset < bound && ends) return;
    sequences.faults.Index(sequences.input, i, offset, bound);
  }
};

Status CheckSequences(const Run& run, const Segments& sequences) {
  return ForElements(run.queue(), sequences.count + 1, CheckOffset{sequences});
}

struct FromEnd {
  Segments sequences;
  int64_t most;

  COX_DEVICE int64_t operator()(int64_t i) const {
    const int64_t behind = sequences.Find(i).last - 1 - i;
    return behind < most ? behind : most;
  }
};

int64_t ReadMost(const Node& node) { return node.Integer("most", INT32_MAX); }

Status RunFromEnd(const int64_t& most, const Run& run) {
  const CoxTensor& out = run.output(0);
  const Segments sequences = SegmentsOf(run, 0, out.dims[0]);
  COX_CUDA_RETURN_IF_ERROR(CheckSequences(run, sequences));
  return FillElements(run.queue(), Data<int64_t>(out), out.dims[0], FromEnd{sequences, most});
}

template <typename T>
struct TakeLast {
  Segments sequences;
  int64_t width;
  const T* x;

  COX_DEVICE T operator()(int64_t i) const {
    const int64_t s = i / width, column = i - s * width;
    const RowRange of = sequences.Of(s, false);
    return of.first == of.last ? T{0} : x[(of.last - 1) * width + column];
  }
};

template <typename T>
struct PutLast {
  Segments sequences;
  int64_t width;
  const T* g;
  T* dx;

  COX_DEVICE void operator()(int64_t i) const {
    const int64_t s = i / width, column = i - s * width;
    const RowRange of = sequences.Of(s, false);
    if (of.first != of.last) dx[(of.last - 1) * width + column] = g[i];
  }
};

Status RunLastRows(const Run& run) {
  const CoxTensor &x = run.input(0), &out = run.output(0);
  const Segments sequences = SegmentsOf(run, 1, x.dims[0]);
  COX_CUDA_RETURN_IF_ERROR(CheckSequences(run, sequences));
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    return FillElements(run.queue(), Data<T>(out), Elements(out),
                        TakeLast<T>{sequences, x.dims[1], Data<T>(x)});
  });
}

Status RunLastRowsGrad(const Run& run) {
  const CoxTensor &g = run.input(0), &dx = run.output(0);
  const Segments sequences = SegmentsOf(run, 2, dx.dims[0]);
  COX_CUDA_RETURN_IF_ERROR(CheckSequences(run, sequences));
  COX_CUDA_RETURN_IF_ERROR(FillZero(run.stream(), dx.data, Bytes(dx)));
  return DispatchFloat(g.dtype, [&](auto zero) {
    using T = decltype(zero);
    return ForElements(run.queue(), Elements(g),
                       PutLast<T>{sequences, g.dims[1], Data<T>(g), Data<T>(dx)});
  });
}

}  // namespace

void AddSequenceOps(OpTable* table) {
  table->Add("FromEnd", {COX_I32}, ReadMost, RunFromEnd);
  table->Add("LastRows", Floats(), RunLastRows);
  table->Add("LastRowsGrad", Floats(), RunLastRowsGrad);
}

}  // namespace coxswain::cuda
