// What becomes of a training where something fails: programs choose it, and so do jobs.
#pragma once

#include <cstdint>

namespace coxswain {

// What becomes of the others when a closure fails by its own fault: bad data, a failing op, or one
// that was given up because workers died of it. Lost tasks are nobody's fault: they are no errors,
// and a cluster that cannot go on ends everything under each policy.
enum class ErrorPolicy : uint8_t {
  kFailFast,  // the first error cancels what is queued and in flight
  kCollect,   // the others run; Join returns the first error, errors() all
  kIgnore,    // the others run; Join is OK, failed() counts. The closure's future has its error
};

// What becomes of the time since the checkpoint when a parameter server is lost.
enum class PsLossPolicy : uint8_t {
  kRollback,    // all shards go back together; the closures since then run again
  kReplay,      // only the lost shards go back; the closures since then run again, and the other
                // shards drop what they have
  kAcceptLoss,  // only the lost shards go back, and training goes on: their updates are lost
};

}  // namespace coxswain
