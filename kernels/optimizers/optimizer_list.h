// Every optimizer: its file, and its line in the list. The order is that of docs/job.md.
#pragma once

#include "kernels/optimizers/adagrad.h"
#include "kernels/optimizers/adam.h"
#include "kernels/optimizers/adamw.h"
#include "kernels/optimizers/ftrl.h"
#include "kernels/optimizers/lazy_adam.h"
#include "kernels/optimizers/momentum.h"
#include "kernels/optimizers/rmsprop.h"
#include "kernels/optimizers/rowwise_adagrad.h"
#include "kernels/optimizers/sgd.h"

// Calls the macro X with the struct of each.
#define COX_OPTIMIZERS(X)             \
  X(kernels::SgdOptimizer)            \
  X(kernels::MomentumOptimizer)       \
  X(kernels::AdagradOptimizer)        \
  X(kernels::RowwiseAdagradOptimizer) \
  X(kernels::RmspropOptimizer)        \
  X(kernels::AdamOptimizer)           \
  X(kernels::LazyAdamOptimizer)       \
  X(kernels::AdamWOptimizer)          \
  X(kernels::FtrlOptimizer)
