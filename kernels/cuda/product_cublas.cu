// Products by cuBLASLt, with bias and ReLU in the epilogue.
//
// cuBLASLt thinks in columns: a row-major matrix is its transpose there, and c' = op(b)' op(a)'. So
// b comes first, and the bias, one value for each column of c, is one for each row of c'.
//
// Which algorithm suits a shape is asked once and kept. Those that sum in place are not allowed:
// their order, and so the last bits, would be up to chance.
#include <array>
#include <map>
#include <mutex>

#include "kernels/cuda/device_cuda.h"
#include "kernels/cuda/product.h"

namespace coxswain::cuda {
namespace {

constexpr uint64_t kMostWorkspace = uint64_t{32} << 20;  // what NVIDIA advises for Hopper
constexpr size_t kMostPlans = 256;                       // of an op: shapes differ by rows
constexpr uint32_t kMostAlignment = 256;

Status Check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return Status();
  const CoxCode code = status == CUBLAS_STATUS_ALLOC_FAILED ? COX_RESOURCE_EXHAUSTED : COX_INTERNAL;
  return Status(code, std::string(what) + ": " + cublasLtGetStatusString(status));
}
#define COX_CHECK_CUBLAS(call) COX_CUDA_RETURN_IF_ERROR(Check(call, #call))

template <typename T>
Status Set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, T value) {
  return Check(cublasLtMatmulDescSetAttribute(desc, name, &value, sizeof(value)),
               "cublasLtMatmulDescSetAttribute");
}
template <typename T>
Status Set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name, T value) {
  return Check(cublasLtMatrixLayoutSetAttribute(layout, name, &value, sizeof(value)),
               "cublasLtMatrixLayoutSetAttribute");
}
template <typename T>
Status Set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name,
           T value) {
  return Check(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof(value)),
               "cublasLtMatmulPreferenceSetAttribute");
}

uint32_t AlignmentOf(const void* memory) {
  uint32_t alignment = kMostAlignment;
  while (reinterpret_cast<uintptr_t>(memory) % alignment != 0) alignment /= 2;
  return alignment;
}

// One product as cuBLASLt describes it. These are plain structs: no library call frees them.
struct Description {
  cublasLtMatmulDescOpaque_t product;
  cublasLtMatrixLayoutOpaque_t first, second, result;  // b, a and c
};

class CublasMultiplier final : public Multiplier {
 public:
  explicit CublasMultiplier(const ProductKind& kind) : kind_(kind) {}

  Status Multiply(const Run& run, const Product& p) override {
    Description d;
    COX_CUDA_RETURN_IF_ERROR(Describe(p, &d));
    const cublasLtHandle_t handle = run.stream()->device->products;
    cublasLtMatmulHeuristicResult_t plan;
    COX_CUDA_RETURN_IF_ERROR(FindPlan(handle, p, &d, &plan));
    Scratch workspace;
    COX_CUDA_RETURN_IF_ERROR(workspace.Allocate(run.stream(), plan.workspaceSize));
    const float one = 1.0f, zero = 0.0f;
    const double wide_one = 1.0, wide_zero = 0.0;
    const bool wide = kind_.inputs == COX_F64;
    const void* alpha = wide ? static_cast<const void*>(&wide_one) : &one;
    const void* beta = wide ? static_cast<const void*>(&wide_zero) : &zero;
    COX_CHECK_CUBLAS(cublasLtMatmul(handle, &d.product, alpha, p.b, &d.first, p.a, &d.second, beta,
                                    p.c, &d.result, p.c, &d.result, &plan.algo,
                                    workspace.data<void>(), plan.workspaceSize,
                                    static_cast<cudaStream_t>(run.queue().stream)));
    return StatusOfLaunch();
  }

 private:
  using Key = std::array<int64_t, 7>;

  cudaDataType_t InputType() const {
    return kind_.inputs == COX_BF16  ? CUDA_R_16BF
           : kind_.inputs == COX_F64 ? CUDA_R_64F
                                     : CUDA_R_32F;
  }

  Status Layout(const Product& p, cudaDataType_t type, int64_t rows, int64_t columns,
                int64_t column, cublasLtMatrixLayoutOpaque_t* layout) const {
    COX_CHECK_CUBLAS(cublasLtMatrixLayoutInit(layout, type, static_cast<uint64_t>(rows),
                                              static_cast<uint64_t>(columns), column));
    if (p.batch == 1) return Status();
    COX_CUDA_RETURN_IF_ERROR(
        Set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(p.batch)));
    return Set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, columns * column);
  }

  Status Describe(const Product& p, Description* d) const {
    if (p.batch > INT32_MAX) return InvalidArgument("wanted fewer than 2^31 products at once");
    const bool wide = kind_.inputs == COX_F64;
    const cudaDataType_t out = wide ? CUDA_R_64F : CUDA_R_32F;
    COX_CHECK_CUBLAS(cublasLtMatmulDescInit(&d->product,
                                            wide         ? CUBLAS_COMPUTE_64F
                                            : kind_.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                         : CUBLAS_COMPUTE_32F,
                                            out));
    const cublasOperation_t none = CUBLAS_OP_N, transpose = CUBLAS_OP_T;
    COX_CUDA_RETURN_IF_ERROR(Set(&d->product, CUBLASLT_MATMUL_DESC_TRANSA,
                                 static_cast<int32_t>(kind_.transpose_b ? transpose : none)));
    COX_CUDA_RETURN_IF_ERROR(Set(&d->product, CUBLASLT_MATMUL_DESC_TRANSB,
                                 static_cast<int32_t>(kind_.transpose_a ? transpose : none)));
    if (kind_.bias || kind_.relu) {
      const uint32_t epilogue = !kind_.bias  ? CUBLASLT_EPILOGUE_RELU
                                : kind_.relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                                             : CUBLASLT_EPILOGUE_BIAS;
      COX_CUDA_RETURN_IF_ERROR(Set(&d->product, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
    }
    if (kind_.bias) {
      COX_CUDA_RETURN_IF_ERROR(Set(&d->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias));
    }
    // A stored row is a column there.
    COX_CUDA_RETURN_IF_ERROR(Layout(p, InputType(), StoredColumns(kind_.transpose_b, p.k, p.n),
                                    StoredRows(kind_.transpose_b, p.k, p.n), p.b_row, &d->first));
    COX_CUDA_RETURN_IF_ERROR(Layout(p, InputType(), StoredColumns(kind_.transpose_a, p.m, p.k),
                                    StoredRows(kind_.transpose_a, p.m, p.k), p.a_row, &d->second));
    return Layout(p, out, p.n, p.m, p.n, &d->result);
  }

  // The best algorithm for the shape and the addresses' alignment.
  Status FindPlan(cublasLtHandle_t handle, const Product& p, Description* d,
                  cublasLtMatmulHeuristicResult_t* plan) {
    const uint32_t a = AlignmentOf(p.a), b = AlignmentOf(p.b);
    // The bias is read as the result is written.
    uint32_t c = AlignmentOf(p.c);
    if (kind_.bias && AlignmentOf(p.bias) < c) c = AlignmentOf(p.bias);
    const Key key = {p.batch, p.m, p.n, p.k, a, b, c};
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto known = plans_.find(key); known != plans_.end()) {
      *plan = known->second;
      return Status();
    }
    cublasLtMatmulPreferenceOpaque_t preference;
    COX_CHECK_CUBLAS(cublasLtMatmulPreferenceInit(&preference));
    COX_CUDA_RETURN_IF_ERROR(
        Set(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace));
    const uint32_t in_order =
        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    COX_CUDA_RETURN_IF_ERROR(
        Set(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, in_order));
    COX_CUDA_RETURN_IF_ERROR(Set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b));
    COX_CUDA_RETURN_IF_ERROR(Set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a));
    COX_CUDA_RETURN_IF_ERROR(Set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c));
    COX_CUDA_RETURN_IF_ERROR(Set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c));
    int found = 0;
    COX_CHECK_CUBLAS(cublasLtMatmulAlgoGetHeuristic(handle, &d->product, &d->first, &d->second,
                                                    &d->result, &d->result, &preference, 1, plan,
                                                    &found));
    if (found == 0) return Status(COX_INTERNAL, "cuBLASLt knows no algorithm for a product");
    COX_CHECK_CUBLAS(plan->state);
    if (plans_.size() >= kMostPlans) plans_.clear();
    plans_.emplace(key, *plan);
    return Status();
  }

  const ProductKind kind_;
  std::mutex mutex_;
  std::map<Key, cublasLtMatmulHeuristicResult_t> plans_;
};

}  // namespace

std::unique_ptr<Multiplier> NewMultiplier(const ProductKind& kind) {
  return std::make_unique<CublasMultiplier>(kind);
}

}  // namespace coxswain::cuda
