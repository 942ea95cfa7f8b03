// A closure to run: one scheduled run of a function.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coxswain/tensor.h"
#include "runtime/base/ids.h"
#include "runtime/base/stable_hash.h"
#include "runtime/base/sync_step.h"
#include "runtime/data/ticket.h"

namespace coxswain::core {

// What a closure with updates draws from, of a job with this seed: `position` steps of others with
// updates were scheduled before it. Not its id, for what a job draws must not depend on faults, and
// ids do: an evaluation that a lost PS has spoiled is scheduled again.
inline uint64_t SeedOfUpdates(uint64_t job_seed, int64_t position) {
  return Mix64(Mix64(job_seed) + 2 * static_cast<uint64_t>(position));
}

// Tensors are handles, so copies are cheap.
struct ClosureSpec {
  PlanId plan = 0;
  std::vector<Tensor> arguments;
  DatasetId dataset = 0;  // 0: no ticket
  Ticket ticket;
  uint64_t group = 0;  // of the ticket: closures of one group should run on one worker; 0: none
  uint32_t steps = 1;
  // The job's, of which Schedule makes the closure's own; a resumed closure has its own already.
  uint64_t seed = 0;
  uint64_t owner = 0;  // identifies the scheduler, for CancelClosures
  // If not 0, this is a closure of the checkpoint that the session was resumed from, under its old
  // id. These closures must be scheduled before any other, each once, in ascending order.
  ClosureId resumed = 0;
  // The synchronous step of the closure. A resumed closure has it as in the checkpoint, with
  // `first` set; Controller::ScheduleStep fills it in for others.
  SyncStep sync;
  // The closure must not start while the oldest closure with updates is more than this number of
  // steps behind.
  std::optional<int64_t> max_staleness;
  // When its caller wants no result any more, on the monotonic clock.
  absl::Duration deadline = absl::InfiniteDuration();
  int64_t position = 0;  // steps of closures with updates that were scheduled before it
};

// For messages: "closure 17 (examples 512 to 1024 of training epoch 0)".
std::string DescribeClosure(ClosureId id, const ClosureSpec& spec);

}  // namespace coxswain::core
