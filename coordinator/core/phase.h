// The phases of a coordinator:
//
//   starting -> running -> draining -> saving -> moving -> running      shards move, for balance
//               running -> waiting -> restoring -> running              a PS was lost
//
// Draining and saving lead back to running when the move is given up. The loss of a PS leads from
// running, draining, saving, moving and restoring to waiting; so does a checkpoint that cannot be
// read, or a move that failed. Every phase can lead to failed, and failed leads to ending.
#pragma once

#include <cstdint>

namespace coxswain::core {

enum class Phase : uint8_t {
  kStarting,   // some PS, or all workers, have not connected yet
  kRunning,    // closures run
  kDraining,   // shards will move: no closure begins, some still run
  kSaving,     // none runs, and a checkpoint is written
  kMoving,     // shards are restored from it on other PS
  kWaiting,    // for lost PS
  kRestoring,  // lost shards go back to a checkpoint
  kFailed,     // the job cannot go on
  kEnding,     // lost tasks are not reported any more
};

// Whether all shards are available and answer requests.
constexpr bool ShardsAreThere(Phase phase) {
  return phase == Phase::kRunning || phase == Phase::kDraining || phase == Phase::kSaving;
}
// Whether shards are being restored.
constexpr bool ShardsComeBack(Phase phase) {
  return phase == Phase::kMoving || phase == Phase::kRestoring;
}
// Whether shards move for balance; no other operation begins meanwhile.
constexpr bool ShardsMove(Phase phase) {
  return phase == Phase::kDraining || phase == Phase::kSaving || phase == Phase::kMoving;
}

}  // namespace coxswain::core
