// Coxswain's public interface. A program links coxswain::coxswain and includes this.
#pragma once

#include "coordinator/api/checkpoint.h"
#include "coordinator/api/cluster.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/api/dataset_builder.h"
#include "coordinator/api/function_builder.h"
#include "coordinator/api/optimizers.h"
#include "coordinator/api/partitioner.h"
#include "coordinator/api/strategy.h"
#include "coordinator/api/variable.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
