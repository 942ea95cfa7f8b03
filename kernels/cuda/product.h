// Products of matrices: cuBLASLt's in the plugin (product_cublas.cu), plain loops in the emulated
// build (host/product_host.cc).
#pragma once

#include <memory>

#include "kernels/cuda/op.h"

namespace coxswain::cuda {

// What the products of one op have in common.
struct ProductKind {
  bool transpose_a = false, transpose_b = false;
  bool bias = false, relu = false;  // not for f64
  int32_t inputs = COX_F32;         // COX_F32, COX_F64, or COX_BF16 summed in f32
  bool tf32 = false;                // f32 inputs are multiplied as TF32
};

// c = activation(op(a) op(b) + bias), all row-major; c [batch, m, n] is dense.
struct Product {
  int64_t batch, m, n, k;  // all 1 or more
  const void *a, *b;
  int64_t a_row, b_row;  // elements from one stored row to the next
  const void* bias;
  void* c;
};

class Multiplier {
 public:
  virtual ~Multiplier() = default;
  // Several threads call it at once.
  virtual Status Multiply(const Run& run, const Product& product) = 0;
};

std::unique_ptr<Multiplier> NewMultiplier(const ProductKind& kind);

// What makes output 0 of inputs 0 and 1 (and of the bias, input 2, if `kind` has one): matrices, or
// with `rank` 3 batches of them. f32 inputs are rounded to bf16 first if the node says so. `kind`
// gets its dtype from the node.
OpFunction ProductOf(const Node& node, ProductKind kind, int rank);

// Rows and columns of op(x)'s storage: x as it lies in memory.
inline int64_t StoredRows(bool transposed, int64_t rows, int64_t columns) {
  return transposed ? columns : rows;
}
inline int64_t StoredColumns(bool transposed, int64_t rows, int64_t columns) {
  return transposed ? rows : columns;
}

}  // namespace coxswain::cuda
