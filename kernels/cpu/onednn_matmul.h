// Products of f32 matrices on the CPU, in f32 or in bf16. The only wrapper of oneDNN.
//
// Thread model: thread-safe. oneDNN (Debian's) runs on OpenMP, and two libraries that each start as
// many threads as there are cores take several times as long as one; so each thread that comes
// through here sets its OpenMP thread count to 1, and large products are split over the compute
// pool instead.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "runtime/env/compute_pool.h"

namespace coxswain::kernels {

// c[i] = op(a[i]) op(b[i]) for i in [0, batch), all row-major and dense, op transposing or not:
// a[i] is [m,k] (transpose_a: [k,m]), b[i] is [k,n] (transpose_b: [n,k]), c[i] is [m,n].
struct MatMulProblem {
  int64_t batch = 1;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool relu = false;  // c = max(c, 0) after the product and the bias
  // The numbers of a and b are rounded to bf16 (see bf16.h); their products are summed in f32, and
  // c and the bias stay f32. Ignored where it would not pay: on a machine without instructions for
  // it (see Bf16IsFast), and for products with a dimension below kLeastBf16Dim.
  bool bf16 = false;
  // The bits of c do not depend on the pool: how the product is cut, and with that the order of
  // sums, depends on the shape alone. Costs some percent, and a pool of more than 8 threads is of
  // no more use than one of 8.
  bool same_on_any_threads = false;
};

inline constexpr int64_t kLeastBf16Dim = 16;

// Whether this machine multiplies bf16 faster than f32. The first call that finds that it does not
// logs a warning.
bool Bf16IsFast();

// `bias`: [n], added to every row of every product, or null. Any dimension may be 0 (with k == 0
// the product is 0). `c` must not overlap the inputs. Primitives are kept per thread, so that a
// product of a shape that this thread has seen starts at once. Errors: InvalidArgument for a
// dimension that is negative or beyond 32 bits; Internal, with oneDNN's message, when it
// fails.
absl::Status MatMulF32(const MatMulProblem& problem, const float* a, const float* b,
                       const float* bias, float* c, env::ComputePool* pool);

// Rows of a panel are a multiple of this.
inline constexpr int64_t kPanelRows = 64;

// The same for one product (batch 1) whose result is gone through once more: its rows are made in
// panels that stay in the second-level cache, and after each `look(begin, end)` is called, on
// several threads at once, `begin` being a multiple of kPanelRows. Each row is in one panel. How
// rows are cut depends on the number of threads, and with it the result's last bits, unless the
// problem wants it otherwise.
absl::Status MatMulPanelsF32(const MatMulProblem& problem, const float* a, const float* b, float* c,
                             env::ComputePool* pool,
                             absl::FunctionRef<void(int64_t, int64_t)> look);

}  // namespace coxswain::kernels
