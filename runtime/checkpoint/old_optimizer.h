// Optimizers in manifests of older programs.
#pragma once

#include "runtime/checkpoint/message_json.h"

namespace coxswain::checkpoint {

// An OptimizerSpec as JSON had a field for each parameter of any optimizer, in which 0 meant a
// default. Where `optimizer` is such a one it becomes what MessageFromJson reads today, with the
// numbers that were meant: defaults have changed since. What cannot be read is left for
// MessageFromJson to refuse.
void BringUpToDate(Json* optimizer);

}  // namespace coxswain::checkpoint
