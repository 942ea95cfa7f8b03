// Coxswain's public interface: a program links coxswain::coxswain and includes this. Whatever it
// says is "within Coxswain" may change in any version.
#pragma once

#include "coxswain/checkpoint.h"
#include "coxswain/cluster.h"
#include "coxswain/cluster_coordinator.h"
#include "coxswain/dataset.h"
#include "coxswain/function_builder.h"
#include "coxswain/optimizers.h"
#include "coxswain/saved_model.h"
#include "coxswain/status.h"
#include "coxswain/strategy.h"
#include "coxswain/tensor.h"
