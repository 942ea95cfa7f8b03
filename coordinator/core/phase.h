// What a coordinator is about, one thing at a time:
//
//   starting -> running -> draining -> saving -> moving -> running      shards move, for balance
//               running -> waiting -> restoring -> running              a PS was lost
//
// Draining and saving lead back to running when the move is given up. A PS that is lost leads to
// waiting from wherever shards were there or came back; so does a checkpoint that cannot be read,
// or a move that failed. Each leads to failed, and that to ending.
#pragma once

#include <cstdint>

namespace coxswain::core {

enum class Phase : uint8_t {
  kStarting,   // not all PS, or no worker, have been there yet
  kRunning,    // closures run
  kDraining,   // shards are to move: no closure begins, some still run
  kSaving,     // none runs, and a checkpoint is written
  kMoving,     // shards are restored from it elsewhere
  kWaiting,    // for lost PS
  kRestoring,  // lost shards go back to a checkpoint
  kFailed,     // the job cannot go on
  kEnding,     // tasks that go away are no news
};

// All shards are there: what is asked of them is answered.
constexpr bool ShardsAreThere(Phase phase) {
  return phase == Phase::kRunning || phase == Phase::kDraining || phase == Phase::kSaving;
}
// They are made anew at this moment.
constexpr bool ShardsComeBack(Phase phase) {
  return phase == Phase::kMoving || phase == Phase::kRestoring;
}
// For balance; nothing else is begun meanwhile.
constexpr bool ShardsMove(Phase phase) {
  return phase == Phase::kDraining || phase == Phase::kSaving || phase == Phase::kMoving;
}

}  // namespace coxswain::core
