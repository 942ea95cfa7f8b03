// Every Register function of kernels/, one line each, in the order of the files' names. A new op's
// file defines its function; its line here and in register.cc are all that the rest of the house
// sees of it.
#pragma once

#include "runtime/graph/op.h"

namespace coxswain {

void RegisterAddN(OpRegistry* registry);
void RegisterArgMax(OpRegistry* registry);
void RegisterBinaryOps(OpRegistry* registry);
void RegisterBroadcastOps(OpRegistry* registry);
void RegisterCast(OpRegistry* registry);
void RegisterCompareOps(OpRegistry* registry);
void RegisterConcatOps(OpRegistry* registry);
void RegisterCrossEntropyOps(OpRegistry* registry);
void RegisterEmbeddingBag(OpRegistry* registry);
void RegisterGatherOps(OpRegistry* registry);
void RegisterMaskedRank(OpRegistry* registry);
void RegisterMatMul(OpRegistry* registry);
void RegisterNegativeSampling(OpRegistry* registry);
void RegisterOneHot(OpRegistry* registry);
void RegisterPairDot(OpRegistry* registry);
void RegisterPairwiseDots(OpRegistry* registry);
void RegisterParameterOps(OpRegistry* registry);
void RegisterRandomOps(OpRegistry* registry);
void RegisterReduceOps(OpRegistry* registry);
void RegisterReshapeOps(OpRegistry* registry);
void RegisterRowOps(OpRegistry* registry);
void RegisterSampledSoftmax(OpRegistry* registry);
void RegisterShardMatMul(OpRegistry* registry);
void RegisterSliceOps(OpRegistry* registry);
void RegisterSoftmaxOps(OpRegistry* registry);
void RegisterSourceOps(OpRegistry* registry);
void RegisterTopKOps(OpRegistry* registry);
void RegisterTranspose(OpRegistry* registry);
void RegisterUnaryOps(OpRegistry* registry);
void RegisterUnigramSampler(OpRegistry* registry);
void RegisterUnique(OpRegistry* registry);
void RegisterUniqueShards(OpRegistry* registry);

}  // namespace coxswain
