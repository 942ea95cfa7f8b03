// Coxswain's public interface. A program links coxswain::coxswain and includes this. Nothing else is
// public: what other headers of the installation there are may change in any version.
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
