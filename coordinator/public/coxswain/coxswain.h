// Coxswain's public interface for programs that train: link coxswain::coxswain and include this
// header. (A program that only predicts with a saved model includes coxswain/saved_model.h.)
// Everything marked "within Coxswain" may change in any version.
#pragma once

#include "coxswain/checkpoint.h"
#include "coxswain/cluster.h"
#include "coxswain/cluster_coordinator.h"
#include "coxswain/dataset.h"
#include "coxswain/function_builder.h"
#include "coxswain/optimizers.h"
#include "coxswain/status.h"
#include "coxswain/strategy.h"
#include "coxswain/tensor.h"
