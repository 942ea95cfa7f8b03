// The kinds of worlds that are tested.
#pragma once

#include "tests/sim/scenario.h"

namespace coxswain::sim {

// Only workers fail.
Scenario WorkerFaults(Random* random);
Scenario PackedClosures(Random* random);

}  // namespace coxswain::sim
