// The synchronous steps that are not applied yet, as one lane of a PS knows them.
//
// A step is applied in three moves, and no move needs the coordinator or makes a worker wait:
//
//   1. Each of its closures pushes its gradients. They are held here, not applied, and are in no
//      ledger. What comes twice is known by closure, shard and key; the first one stays.
//   2. When all parameter servers have answered a closure's pushes, its worker says so to all of
//      them: what this closure contributes is held everywhere.
//   3. The lane that has heard this of all closures of the step applies it, as one update.
//
// So a lane applies a step only when nothing of the step is missing anywhere. A closure whose
// worker dies runs again, and either all lanes are still as they were when the step began, or its
// gradients are held everywhere and what it computes now is dropped. That makes the result the same
// to the bit whatever workers die.
//
// Of a step with backups (SyncStep::backup) more closures are tried than it takes. Which ones it
// takes must be the same in all lanes, so the coordinator says so (Choose), in place of the second
// move: it has heard from these that all they contribute is held everywhere. What others have
// brought, or bring later, is dropped.
//
// Free steps (SyncStep::free) are applied in any order, and nobody waits for one.
//
// What is held is no state: it is in no snapshot, and goes when the PS is set up anew. Its closures
// run again then.
//
// Thread model: its lane's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/ids.h"
#include "runtime/base/sync_step.h"
#include "runtime/graph/variable_access.h"

namespace coxswain::ps {

class SyncSteps {
 public:
  // The next one may be under way in some lanes when the last one's end is heard of in this one.
  static constexpr size_t kMostOpen = 4;
  // Of free ones as many as workers compute at a time.
  static constexpr size_t kMostFreeOpen = size_t{1} << 14;

  // What one closure has brought.
  struct Contribution {
    std::vector<graph::Update> updates;  // as they came
    // By shard that has gradients among them: after how many of its updates it was read.
    std::map<ShardId, int64_t> reads;
    std::map<ShardId, int64_t> new_rows;  // that it may make at most, of hash tables
    bool everywhere = false;              // and so it is on every other PS
    uint64_t seed = 0;                    // of the closure; see UpdateTime
  };
  struct Ready {
    SyncStep step;
    std::map<ClosureId, Contribution> of;  // by closure
  };

  // Whether this step, which is not free, is applied here, since the PS was set up. 0 is.
  bool Applied(ClosureId first) const { return first <= applied_; }
  bool Applied(const SyncStep& step) const;

  // Errors: InvalidArgument for a closure whose step was said to be another one, or that is of one
  // step more than can be open. Internal for one whose step is not the next one here: an earlier
  // one is open, or a later one was applied without it. The coordinator sees to it that neither
  // happens; if it were wrong, the job would end rather than lose a step.
  absl::Status Check(const SyncStep& step, ClosureId closure) const;
  // Whether there is an update by this closure, shard and key.
  bool Holds(const SyncStep& step, ClosureId closure, const graph::Update& update) const;
  // Ids of rows that are held for a shard, for all closures.
  int64_t IdsFor(ShardId shard) const;
  // Of these, those that may get a row, as NoteNewRows was told.
  int64_t NewRowsFor(ShardId shard) const;
  // Keeps what Check has found good and Holds has not found. The transport may have lent memory for
  // it, of which it has little: beyond these bounds what is held is a copy. Else what completes a
  // large step could not come, because all of that memory is held until it does.
  static constexpr size_t kMostLent = 128;  // updates
  static constexpr size_t kMostLentBytes = size_t{256} << 20;
  void Hold(const SyncStep& step, ClosureId closure, uint64_t seed, graph::Update update);
  // Beside what is held for the shard.
  void NoteRead(const SyncStep& step, ClosureId closure, ShardId shard, int64_t applied) {
    At(step).of[closure].reads.emplace(shard, applied);
  }
  void NoteNewRows(const SyncStep& step, ClosureId closure, ShardId shard, int64_t rows) {
    At(step).of[closure].new_rows[shard] += rows;
  }
  // All that the closure contributes is held everywhere. Returns the step when this was true of
  // its last closure; it counts as applied then.
  std::optional<Ready> HeldEverywhere(const SyncStep& step, ClosureId closure, uint64_t seed);

  // The coordinator has chosen which closures of a step with backups it takes, ascending; all that
  // they contribute is held everywhere. Returns the step with these; it counts as applied then.
  // Nothing where it was applied before. Errors: InvalidArgument, where they cannot be that.
  absl::StatusOr<std::optional<Ready>> Choose(const SyncStep& step,
                                              const std::vector<ClosureId>& chosen);
  // All closures below this one are over: what is still held for them is of attempts that nobody
  // waits for.
  void SetLowWater(ClosureId closure);

  // All that is held is forgotten, and which steps were applied.
  void Clear();
  size_t open() const { return open_.size(); }
  // Whether there were any since then.
  bool used() const { return applied_ != 0 || !applied_steps_.empty() || !open_.empty(); }

 private:
  struct Open {
    SyncStep step;
    uint32_t everywhere = 0;          // closures
    size_t lent = 0, lent_bytes = 0;  // updates that are held as they came
    std::map<ClosureId, Contribution> of;
  };
  absl::Status CheckOrder(const SyncStep& step, ClosureId closure) const;
  Open& At(const SyncStep& step);
  Ready TakeReady(const SyncStep& step);
  bool MayHoldAsItCame() const;

  ClosureId applied_ = 0;              // the newest that is not free, by its first closure
  std::set<ClosureId> applied_steps_;  // all that are not below the low-water mark, free or not
  ClosureId low_water_ = 0;
  std::map<ClosureId, Open> open_;
};

}  // namespace coxswain::ps
