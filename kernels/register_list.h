// The files that define ops, one line each, in the order of their names. X(add_n, RegisterAddN)
// stands for kernels/add_n.cc, which defines RegisterAddN(OpRegistry*). The declarations below,
// RegisterAllOps and the tests of the registry follow from this list.
#pragma once

#include "runtime/graph/op.h"

#define COX_OP_FILES(X)                          \
  X(add_n, RegisterAddN)                         \
  X(arg_max, RegisterArgMax)                     \
  X(bag_ops, RegisterBagOps)                     \
  X(binary_ops, RegisterBinaryOps)               \
  X(broadcast_ops, RegisterBroadcastOps)         \
  X(cast, RegisterCast)                          \
  X(check_gradient, RegisterCheckGradient)       \
  X(compare_ops, RegisterCompareOps)             \
  X(concat_ops, RegisterConcatOps)               \
  X(cross_entropy, RegisterCrossEntropyOps)      \
  X(dense_input_grad, RegisterDenseInputGrad)    \
  X(dropout, RegisterDropout)                    \
  X(embedding_bag, RegisterEmbeddingBag)         \
  X(gather_ops, RegisterGatherOps)               \
  X(masked_rank, RegisterMaskedRank)             \
  X(matmul, RegisterMatMul)                      \
  X(negative_sampling, RegisterNegativeSampling) \
  X(one_hot, RegisterOneHot)                     \
  X(pair_dot, RegisterPairDot)                   \
  X(pairwise_dots, RegisterPairwiseDots)         \
  X(parameter_ops, RegisterParameterOps)         \
  X(random_ops, RegisterRandomOps)               \
  X(ranking_losses, RegisterRankingLosses)       \
  X(reduce_ops, RegisterReduceOps)               \
  X(reshape_ops, RegisterReshapeOps)             \
  X(row_block_ops, RegisterRowBlockOps)          \
  X(row_ops, RegisterRowOps)                     \
  X(sampled_softmax, RegisterSampledSoftmax)     \
  X(sequence_ops, RegisterSequenceOps)           \
  X(shard_candidates, RegisterShardCandidates)   \
  X(shard_matmul, RegisterShardMatMul)           \
  X(slice_ops, RegisterSliceOps)                 \
  X(softmax, RegisterSoftmaxOps)                 \
  X(source_ops, RegisterSourceOps)               \
  X(top_k_ops, RegisterTopKOps)                  \
  X(transpose, RegisterTranspose)                \
  X(unary_ops, RegisterUnaryOps)                 \
  X(unigram_sampler, RegisterUnigramSampler)     \
  X(unique, RegisterUnique)                      \
  X(unique_shards, RegisterUniqueShards)

namespace coxswain::kernels {

#define COX_DECLARE(file, function) void function(graph::OpRegistry* registry);
COX_OP_FILES(COX_DECLARE)
#undef COX_DECLARE

}  // namespace coxswain::kernels
