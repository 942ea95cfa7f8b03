#include "kernels/product.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/compute.h"

namespace coxswain::kernels {
namespace {

// c += op(a) op(b) in f64, in blocks of k and n that stay in the cache.
void MatMulF64(const MatMulProblem& p, const double* a, const double* b, const double* bias,
               double* c) {
  constexpr int64_t kBlock = 64;
  const int64_t a_row = p.transpose_a ? 1 : p.k, a_column = p.transpose_a ? p.m : 1;
  const int64_t b_row = p.transpose_b ? 1 : p.n, b_column = p.transpose_b ? p.k : 1;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) c[i * p.n + j] = bias == nullptr ? 0.0 : bias[j];
  }
  for (int64_t k0 = 0; k0 < p.k; k0 += kBlock) {
    const int64_t k1 = std::min(p.k, k0 + kBlock);
    for (int64_t n0 = 0; n0 < p.n; n0 += kBlock) {
      const int64_t n1 = std::min(p.n, n0 + kBlock);
      for (int64_t i = 0; i < p.m; ++i) {
        for (int64_t k = k0; k < k1; ++k) {
          const double x = a[i * a_row + k * a_column];
          const double* row = b + k * b_row;
          for (int64_t j = n0; j < n1; ++j) c[i * p.n + j] += x * row[j * b_column];
        }
      }
    }
  }
  if (!p.relu) return;
  for (int64_t i = 0; i < p.m * p.n; ++i) c[i] = std::max(c[i], 0.0);
}

}  // namespace

absl::StatusOr<Computing> ReadComputing(const Attrs& attrs) {
  Computing computing;
  computing.same_on_any_threads = graph::AttrOr<bool>(attrs, kSameOnAnyThreadsAttr, false);
  const std::string compute = graph::AttrOr<std::string>(attrs, kComputeAttr, "");
  computing.bf16 = compute == "bf16";
  // Only GPUs have tf32.
  if (computing.bf16 || compute.empty() || compute == "tf32") return computing;
  return absl::InvalidArgumentError(absl::StrCat(
      "attribute '", kComputeAttr, "': wanted '', 'bf16' or 'tf32', found '", compute, "'"));
}

Attrs WithCompute(Attrs attrs, const Attrs& from) {
  for (const char* name : {kComputeAttr, kSameOnAnyThreadsAttr}) {
    if (const auto it = from.find(name); it != from.end()) attrs.insert(*it);
  }
  return attrs;
}

absl::Status ComputeProduct(const MatMulProblem& problem, const Tensor& a, const Tensor& b,
                            const Tensor* bias, Tensor* out, env::ComputePool* pool) {
  if (out->num_elements() == 0) return absl::OkStatus();
  if (a.dtype() == DType::kF32) {
    return MatMulF32(problem, a.data<float>(), b.data<float>(),
                     bias != nullptr ? bias->data<float>() : nullptr, out->mutable_data<float>(),
                     pool);
  }
  for (int64_t i = 0; i < problem.batch; ++i) {
    MatMulF64(problem, a.data<double>() + i * problem.m * problem.k,
              b.data<double>() + i * problem.k * problem.n,
              bias != nullptr ? bias->data<double>() : nullptr,
              out->mutable_data<double>() + i * problem.m * problem.n);
  }
  return absl::OkStatus();
}

}  // namespace coxswain::kernels
