// What Prometheus' own libraries tell of every process, under the same names.
#pragma once

#include "runtime/metrics/family.h"

namespace coxswain::metrics {

// Of this process; what /proc does not say is left out.
Families ProcessFamilies();

}  // namespace coxswain::metrics
