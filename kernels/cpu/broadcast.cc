#include "kernels/cpu/broadcast.h"

#include <algorithm>

#include "runtime/base/status.h"
#include "runtime/tensor/broadcast.h"
#include "runtime/tensor/limits.h"

namespace coxswain::kernels {
namespace {

// Dimension i of the output, as an input sees it (aligned at the right end).
int64_t AlignedDim(const Shape& shape, int i, int rank) {
  const int own = i - (rank - shape.rank());
  return own < 0 ? 1 : shape.dim(own);
}

}  // namespace

int64_t BroadcastPlan::rows() const {
  int64_t n = 1;
  for (size_t i = 0; i + 1 < dims.size(); ++i) n *= dims[i];
  return n;
}

absl::StatusOr<BroadcastPlan> PlanBroadcast(const Shape& a, const Shape& b) {
  BroadcastPlan plan;
  ASSIGN_OR_RETURN(plan.shape, BroadcastShapes(a, b));
  RETURN_IF_ERROR(CheckedElements(plan.shape).status());
  const int rank = plan.shape.rank();
  int64_t a_size = 1, b_size = 1;  // elements of the dimensions further in
  // Innermost first; reversed at the end.
  for (int i = rank - 1; i >= 0; --i) {
    const int64_t n = plan.shape.dim(i);
    if (n == 1) continue;
    const bool a_full = AlignedDim(a, i, rank) == n, b_full = AlignedDim(b, i, rank) == n;
    const int64_t a_stride = a_full ? a_size : 0, b_stride = b_full ? b_size : 0;
    if (!plan.dims.empty() && (plan.a_strides.back() != 0) == a_full &&
        (plan.b_strides.back() != 0) == b_full) {
      plan.dims.back() *= n;
    } else {
      plan.dims.push_back(n);
      plan.a_strides.push_back(a_stride);
      plan.b_strides.push_back(b_stride);
    }
    if (a_full) a_size *= n;
    if (b_full) b_size *= n;
  }
  if (plan.dims.empty()) {  // one element
    plan.dims = {1};
    plan.a_strides = {1};
    plan.b_strides = {1};
  }
  std::reverse(plan.dims.begin(), plan.dims.end());
  std::reverse(plan.a_strides.begin(), plan.a_strides.end());
  std::reverse(plan.b_strides.begin(), plan.b_strides.end());
  return plan;
}

void ForEachRow(const BroadcastPlan& plan, env::ComputePool* pool,
                absl::FunctionRef<void(int64_t, int64_t, int64_t, int64_t)> body) {
  const int64_t row = plan.row(), rows = plan.rows();
  if (row == 0 || rows == 0) return;
  if (rows == 1) {
    pool->ParallelFor(row, kElementGrain, [&](int64_t begin, int64_t end) {
      body(begin * plan.a_strides.back(), begin * plan.b_strides.back(), begin, end - begin);
    });
    return;
  }
  const int outer = static_cast<int>(plan.dims.size()) - 1;
  pool->ParallelFor(rows, std::max<int64_t>(1, kElementGrain / row),
                    [&](int64_t begin, int64_t end) {
                      absl::InlinedVector<int64_t, 4> index(outer);
                      int64_t a = 0, b = 0;
                      for (int64_t i = outer - 1, left = begin; i >= 0; --i) {
                        index[i] = left % plan.dims[i];
                        left /= plan.dims[i];
                        a += index[i] * plan.a_strides[i];
                        b += index[i] * plan.b_strides[i];
                      }
                      for (int64_t r = begin; r < end; ++r) {
                        body(a, b, r * row, row);
                        for (int i = outer - 1; i >= 0; --i) {
                          a += plan.a_strides[i];
                          b += plan.b_strides[i];
                          if (++index[i] < plan.dims[i]) break;
                          index[i] = 0;
                          a -= plan.a_strides[i] * plan.dims[i];
                          b -= plan.b_strides[i] * plan.dims[i];
                        }
                      }
                    });
}

}  // namespace coxswain::kernels
