// `coxswain checkpoint list|verify|inspect DIR`: what a person wants to know about checkpoints. DIR
// is a directory of checkpoints or one of them. As all commands, each returns the exit code and has
// printed what there is to say.
#pragma once

#include <string>

namespace coxswain::cli {

struct CheckpointFlags {
  std::string directory;
  bool json = false;
};

// All checkpoints, newest first, with what is wrong with them as far as manifests and the sizes of
// files tell. Exit code 2 when there is no such directory, as of the other two.
int ListCheckpointsCommand(const CheckpointFlags& flags);

// Reads every byte. Exit code 3 when the newest is damaged or there is none.
int VerifyCheckpointsCommand(const CheckpointFlags& flags);

// What the newest one holds whose manifest can be read. Exit code 3 when none can.
int InspectCheckpointCommand(const CheckpointFlags& flags);

}  // namespace coxswain::cli
