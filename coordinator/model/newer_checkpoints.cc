#include "coordinator/model/newer_checkpoints.h"

#include <algorithm>
#include <utility>

#include "runtime/checkpoint/manifest.h"

namespace coxswain::model {

absl::StatusOr<std::vector<SeenCheckpoint>> NewerCheckpoints(
    env::FileSystem* files, const std::string& directory, const std::optional<SeenCheckpoint>& seen,
    const std::function<std::string(uint64_t number)>& identity_of) {
  std::vector<SeenCheckpoint> newer;
  const auto names = files->List(directory);
  if (absl::IsNotFound(names.status())) return newer;
  if (!names.ok()) return names.status();
  std::vector<uint64_t> numbers;
  for (const std::string& name : *names) {
    if (const auto number = checkpoint::ParseCheckpointName(name)) numbers.push_back(*number);
  }
  std::sort(numbers.rbegin(), numbers.rend());
  const bool anew = seen && !numbers.empty() && numbers[0] < seen->number;
  for (const uint64_t number : numbers) {
    if (seen && !anew && number < seen->number) break;
    SeenCheckpoint found{number, identity_of(number)};
    if (seen && number == seen->number && found.identity == seen->identity) break;
    newer.push_back(std::move(found));
  }
  return newer;
}

}  // namespace coxswain::model
