// The files that define ops, one line each, in the order of their names. X(add_n, AddAddN) stands
// for kernels/cuda/add_n.cu, which defines AddAddN(OpTable*).
#pragma once

#include "kernels/cuda/op.h"

#define COX_CUDA_OP_FILES(X)                \
  X(add_n, AddAddN)                         \
  X(arg_max, AddArgMax)                     \
  X(binary_ops, AddBinaryOps)               \
  X(broadcast_ops, AddBroadcastOps)         \
  X(cast, AddCast)                          \
  X(check_gradient, AddCheckGradient)       \
  X(compare_ops, AddCompareOps)             \
  X(concat_ops, AddConcatOps)               \
  X(cross_entropy, AddCrossEntropyOps)      \
  X(dense_input_grad, AddDenseInputGrad)    \
  X(dropout, AddDropout)                    \
  X(embedding_bag, AddEmbeddingBag)         \
  X(gather_ops, AddGatherOps)               \
  X(masked_rank, AddMaskedRank)             \
  X(matmul, AddMatMul)                      \
  X(negative_sampling, AddNegativeSampling) \
  X(one_hot, AddOneHot)                     \
  X(pair_dot, AddPairDot)                   \
  X(pairwise_dots, AddPairwiseDots)         \
  X(random_ops, AddRandomOps)               \
  X(ranking_losses, AddRankingLosses)       \
  X(reduce_ops, AddReduceOps)               \
  X(reshape_ops, AddReshapeOps)             \
  X(row_block_ops, AddRowBlockOps)          \
  X(row_ops, AddRowOps)                     \
  X(sampled_softmax, AddSampledSoftmax)     \
  X(sequence_ops, AddSequenceOps)           \
  X(slice_ops, AddSliceOps)                 \
  X(softmax, AddSoftmaxOps)                 \
  X(source_ops, AddSourceOps)               \
  X(top_k_ops, AddTopKOps)                  \
  X(transpose, AddTranspose)                \
  X(unary_ops, AddUnaryOps)

namespace coxswain::cuda {

#define COX_DECLARE(file, function) void function(OpTable* table);
COX_CUDA_OP_FILES(COX_DECLARE)
#undef COX_DECLARE

}  // namespace coxswain::cuda
