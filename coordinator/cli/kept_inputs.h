// The files that predictions of a job's checkpoints need, beside them: written when the job begins,
// and again with a later checkpoint where they could not be written (a full disk) or somebody has
// removed them, as by an `rm -rf` of the whole directory.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "runtime/env/file_system.h"

namespace coxswain::cli {

class KeptInputs {
 public:
  using Save = std::function<absl::Status()>;  // as model::SaveInputs
  using Note = std::function<void(const std::string&)>;
  explicit KeptInputs(Note note, std::shared_ptr<env::FileSystem> files = env::NewRealFileSystem());

  // They are kept beside these checkpoints from now on; writes them. If this fails, training goes
  // on; the same error is told once.
  void Begin(std::string checkpoints, Save save);
  // A checkpoint was written. From any thread.
  void CheckpointWritten() { written_ = true; }
  // Writes them again where a checkpoint was written since, and they are not there. On the thread
  // that trains, as Begin: the data is read.
  void Look();

 private:
  void Write();

  const Note note_;
  const std::shared_ptr<env::FileSystem> files_;
  std::string checkpoints_;
  Save save_;  // null: not begun
  std::atomic<bool> written_{false};
  bool saved_ = false;  // what is there is this job's, if anything is
  std::string told_;    // the code of the last error, whose text may name other files each time
};

}  // namespace coxswain::cli
