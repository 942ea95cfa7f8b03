#include "kernels/cpu/narrow_product.h"

#include "kernels/cpu/row_math.h"
#include "kernels/cpu/simd.h"

namespace coxswain::kernels {
namespace {

COX_SIMD_INLINE float Activate(float x, bool relu) { return relu && x < 0.0f ? 0.0f : x; }

// c[i] = a[i] b, a's rows dense.
void RowDots(const MatMulProblem& p, const float* a, const float* b, float* c, int64_t begin,
             int64_t end) {
  RunSimd([=]() COX_SIMD_BODY {
    for (int64_t i = begin; i < end; ++i) {
      c[i] = RowProduct(a + i * p.k, b, p.k);
    }
  });
}

// c[i] = a[.,i] b, a's columns being c's rows: row by row of a, four at a time.
void ColumnDots(const MatMulProblem& p, const float* a, const float* b, float* c, int64_t begin,
                int64_t end) {
  RunSimd([=]() COX_SIMD_BODY {
    for (int64_t i = begin; i < end; ++i) c[i] = 0.0f;
    int64_t k = 0;
    for (; k + 4 <= p.k; k += 4) {
      const float *r0 = a + k * p.m, *r1 = r0 + p.m, *r2 = r1 + p.m, *r3 = r2 + p.m;
      const float b0 = b[k], b1 = b[k + 1], b2 = b[k + 2], b3 = b[k + 3];
      COX_SIMD_LOOP
      for (int64_t i = begin; i < end; ++i) {
        c[i] += (r0[i] * b0 + r1[i] * b1) + (r2[i] * b2 + r3[i] * b3);
      }
    }
    for (; k < p.k; ++k) {
      const float* row = a + k * p.m;
      const float x = b[k];
      COX_SIMD_LOOP
      for (int64_t i = begin; i < end; ++i) c[i] += row[i] * x;
    }
  });
}

// c[i,j] = a[i] b[j]
void Outer(const MatMulProblem& p, const float* a, const float* b, float* c, int64_t begin,
           int64_t end) {
  RunSimd([=]() COX_SIMD_BODY {
    for (int64_t i = begin; i < end; ++i) {
      const float x = a[i];
      float* row = c + i * p.n;
      COX_SIMD_LOOP
      for (int64_t j = 0; j < p.n; ++j) row[j] = x * b[j];
    }
  });
}

void AddBias(const MatMulProblem& p, const float* bias, float* c, int64_t begin, int64_t end) {
  const bool relu = p.relu;
  RunSimd([=]() COX_SIMD_BODY {
    for (int64_t i = begin; i < end; ++i) {
      float* row = c + i * p.n;
      COX_SIMD_LOOP
      for (int64_t j = 0; j < p.n; ++j) {
        row[j] = Activate(bias == nullptr ? row[j] : row[j] + bias[j], relu);
      }
    }
  });
}

}  // namespace

bool IsNarrow(const MatMulProblem& p) { return p.batch == 1 && p.k > 0 && (p.n == 1 || p.k == 1); }

void NarrowProduct(const MatMulProblem& p, const float* a, const float* b, const float* bias,
                   float* c, int64_t begin, int64_t end) {
  if (p.k == 1) {
    Outer(p, a, b, c, begin, end);
  } else if (p.transpose_a) {
    ColumnDots(p, a, b, c, begin, end);
  } else {
    RowDots(p, a, b, c, begin, end);
  }
  if (bias != nullptr || p.relu) AddBias(p, bias, c, begin, end);
}

}  // namespace coxswain::kernels
