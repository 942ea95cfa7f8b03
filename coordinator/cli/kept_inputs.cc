#include "coordinator/cli/kept_inputs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/saved_manifest.h"

namespace coxswain::cli {

KeptInputs::KeptInputs(Note note, std::shared_ptr<env::FileSystem> files)
    : note_(std::move(note)), files_(std::move(files)) {}

void KeptInputs::Begin(std::string checkpoints, Save save) {
  checkpoints_ = std::move(checkpoints);
  save_ = std::move(save);
  Write();
}

void KeptInputs::Write() {
  const absl::Status saved = save_();
  saved_ = saved.ok();
  const std::string code = saved.ok() ? "" : absl::StatusCodeToString(saved.code());
  const std::string told = std::exchange(told_, code);
  if (told == code) return;
  if (saved.ok()) {
    note_(absl::StrCat("note: ", model::InputsOf(checkpoints_), " is written now"));
    return;
  }
  note_(absl::StrCat("note: ", model::InputsOf(checkpoints_),
                     " is not written, and is tried again with each checkpoint; without it nothing "
                     "can follow the checkpoints (serve, predict): ",
                     saved.message()));
}

void KeptInputs::Look() {
  if (save_ == nullptr || !written_.exchange(false)) return;
  const std::string manifest =
      absl::StrCat(model::InputsOf(checkpoints_), "/", model::kSavedInputs.file);
  if (saved_ && files_->Exists(manifest)) return;
  const bool removed = saved_;
  Write();
  if (!saved_ || !removed) return;
  note_(absl::StrCat("note: ", model::InputsOf(checkpoints_),
                     " was removed; it is written again, for the checkpoints from now on"));
}

}  // namespace coxswain::cli
