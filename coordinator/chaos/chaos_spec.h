// CHAOS.yaml: which faults a job is to survive, and when. docs/chaos.md tells what the keys mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "coordinator/job/schema.h"

namespace coxswain::chaos {

enum class TaskKind : uint8_t { kWorker = 0, kPs = 1, kCoordinator = 2 };
enum class FaultAction : uint8_t { kKill = 0, kStop = 1, kTerminate = 2 };
inline constexpr int kTaskKinds = 3;
inline constexpr int kFaultActions = 3;

absl::string_view TaskKindName(TaskKind kind);          // "worker", "ps", "coordinator"
absl::string_view FaultActionName(FaultAction action);  // "kill", "stop", "terminate"

// Uniformly drawn from [low, high].
struct DurationRange {
  absl::Duration low, high;
};

// One entry of `faults`: the same thing done again and again. Exactly one of `every`, `at` and
// `at_update` is there. All times count from the job's first training step.
struct FaultRule {
  TaskKind task = TaskKind::kWorker;
  int index = -1;  // of the task; -1: a random one each time
  FaultAction action = FaultAction::kKill;
  absl::Duration every;
  absl::Duration after;  // `every` counts from here
  std::vector<absl::Duration> at;
  std::vector<int64_t> at_update;  // numbers of updates that a shard has taken
  int64_t count = 0;               // of `every`; 0: no end
  absl::Duration jitter;           // each time is moved by at most this, either way
  DurationRange restart_delay;
  DurationRange stop_for;
  std::string where;  // "chaos.yaml:4:5"
};

struct ChaosSpec {
  uint64_t seed = 0;
  std::vector<FaultRule> faults;
  bool baseline = true;
  bool visitation = true;
  absl::Duration give_up_after;
};

// Errors: InvalidArgument with cause kConfiguration, one line "file:line:column: ..." for each
// thing that is wrong.
absl::StatusOr<ChaosSpec> ParseChaos(absl::string_view text, const std::string& file_name);
// Errors: those of ParseChaos; NotFound, PermissionDenied.
absl::StatusOr<ChaosSpec> ParseChaosFile(const std::string& path);

// Whether the cluster has the tasks that the rules name. Errors: as ParseChaos.
absl::Status CheckTargets(const ChaosSpec& spec, int num_ps, int num_workers);

// The keys, for the parser and for the test of docs/chaos.md.
const job::SchemaSection& ChaosSchema();

}  // namespace coxswain::chaos
