// The losses, one line each, in the order of docs/job.md. X(mse, MseLoss) stands for
// coordinator/model/losses/mse.cc, which defines `const job::LossKind& MseLoss()`.
#pragma once

#include "coordinator/job/loss_kind.h"

#define COX_LOSSES(X)                               \
  X(sampled_softmax, SampledSoftmaxLoss)            \
  X(sigmoid_cross_entropy, SigmoidCrossEntropyLoss) \
  X(softmax_cross_entropy, SoftmaxCrossEntropyLoss) \
  X(mse, MseLoss)                                   \
  X(negative_sampling, NegativeSamplingLoss)        \
  X(bpr, BprLoss)                                   \
  X(in_batch_softmax, InBatchSoftmaxLoss)           \
  X(full_softmax, FullSoftmaxLoss)                  \
  X(hinge, HingeLoss)                               \
  X(focal, FocalLoss)                               \
  X(mae, MaeLoss)                                   \
  X(huber, HuberLoss)                               \
  X(by_task, ByTaskLoss)                            \
  X(lambdarank, LambdaRankLoss)                     \
  X(listnet, ListNetLoss)

namespace coxswain::model {

#define COX_DECLARE(file, function) const job::LossKind& function();
COX_LOSSES(COX_DECLARE)
#undef COX_DECLARE

}  // namespace coxswain::model
