#include "coordinator/model/chosen_checkpoint.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/env/file_system.h"

namespace coxswain::model {

absl::StatusOr<std::optional<uint64_t>> ChooseNumber(
    const std::string& directory, Verify verify,
    const std::function<void(const std::string&)>& note) {
  const auto files = env::NewRealFileSystem();
  if (!files->Exists(directory)) {
    return absl::NotFoundError(absl::StrCat(directory, ": no such directory"));
  }
  if (files->Exists(absl::StrCat(directory, "/manifest.json"))) return std::optional<uint64_t>();
  ASSIGN_OR_RETURN(const checkpoint::ChosenCheckpoint chosen,
                   checkpoint::ChooseCheckpoint(files.get(), directory,
                                                {.sizes_only = verify == Verify::kSizes}));
  if (!chosen.good) return chosen.WhyNone(directory);
  for (const std::string& text : chosen.Notes()) note(text);
  return std::optional<uint64_t>(chosen.good->number);
}

bool IsRemoved(const std::string& directory, uint64_t number) {
  return !env::NewRealFileSystem()->Exists(
      absl::StrCat(directory, "/", checkpoint::CheckpointName(number)));
}

}  // namespace coxswain::model
