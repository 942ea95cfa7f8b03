// Functions of two inputs with NumPy's broadcasting, element by element.
#pragma once

#include "kernels/cuda/walk.h"

namespace coxswain::cuda {

// The walk over `out`, whose shape the inputs' shapes broadcast to; strides are 0 where an input
// repeats.
Walk BroadcastWalk(const CoxTensor& a, const CoxTensor& b, const CoxTensor& out);

template <typename F, typename T, typename R>
struct BinaryFunction {
  const T *a, *b;
  Walk walk;

  COX_DEVICE R operator()(int64_t i) const {
    int64_t at_a = i, at_b = i;
    if (!(walk.a_dense && walk.b_dense)) walk.Find(i, &at_a, &at_b);
    return F::Apply(a[at_a], b[at_b]);
  }
};

// output 0 = F::Apply(input 0, input 1), with inputs of T and an output of R.
template <typename F, typename T, typename R>
Status RunBinary(const Run& run) {
  const CoxTensor &a = run.input(0), &b = run.input(1), &out = run.output(0);
  const BinaryFunction<F, T, R> f{Data<T>(a), Data<T>(b), BroadcastWalk(a, b, out)};
  return FillElements(run.queue(), Data<R>(out), Elements(out), f);
}

}  // namespace coxswain::cuda
