// The kinds of models, one line each, in the order of docs/job.md. X(mlp, MlpKind) stands for
// coordinator/model/kinds/mlp.cc, which defines `const job::ModelKind& MlpKind()`.
#pragma once

#include "coordinator/job/model_kind.h"

#define COX_MODEL_KINDS(X)                         \
  X(two_tower, TwoTowerKind)                       \
  X(matrix_factorization, MatrixFactorizationKind) \
  X(wide_deep, WideDeepKind)                       \
  X(mlp, MlpKind)                                  \
  X(logistic_regression, LogisticRegressionKind)   \
  X(dlrm, DlrmKind)                                \
  X(deepfm, DeepFmKind)                            \
  X(word2vec, Word2VecKind)                        \
  X(linear_regression, LinearRegressionKind)       \
  X(dcn_v2, DcnV2Kind)                             \
  X(din, DinKind)                                  \
  X(shared_bottom, SharedBottomKind)               \
  X(mmoe, MmoeKind)                                \
  X(sasrec, SasrecKind)                            \
  X(fm, FmKind)                                    \
  X(ffm, FfmKind)                                  \
  X(autoint, AutoIntKind)

namespace coxswain::model {

#define COX_DECLARE(file, function) const job::ModelKind& function();
COX_MODEL_KINDS(COX_DECLARE)
#undef COX_DECLARE

}  // namespace coxswain::model
