#include "kernels/register.h"

#include "kernels/register_list.h"

namespace coxswain {

void RegisterAllOps(OpRegistry* registry) {
  RegisterAddN(registry);
  RegisterArgMax(registry);
  RegisterBinaryOps(registry);
  RegisterBroadcastOps(registry);
  RegisterCast(registry);
  RegisterCompareOps(registry);
  RegisterConcatOps(registry);
  RegisterCrossEntropyOps(registry);
  RegisterEmbeddingBag(registry);
  RegisterGatherOps(registry);
  RegisterMaskedRank(registry);
  RegisterMatMul(registry);
  RegisterNegativeSampling(registry);
  RegisterOneHot(registry);
  RegisterPairDot(registry);
  RegisterPairwiseDots(registry);
  RegisterParameterOps(registry);
  RegisterRandomOps(registry);
  RegisterReduceOps(registry);
  RegisterReshapeOps(registry);
  RegisterRowOps(registry);
  RegisterSampledSoftmax(registry);
  RegisterShardMatMul(registry);
  RegisterSliceOps(registry);
  RegisterSoftmaxOps(registry);
  RegisterSourceOps(registry);
  RegisterTopKOps(registry);
  RegisterTranspose(registry);
  RegisterUnaryOps(registry);
  RegisterUnigramSampler(registry);
  RegisterUnique(registry);
  RegisterUniqueShards(registry);
}

}  // namespace coxswain
