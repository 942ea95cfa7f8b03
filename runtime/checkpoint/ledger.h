// What one shard has applied: the set of (closure, step, key), and the closure below which
// everything is complete. It makes updates idempotent: retries, resends after a lost ack, zombies
// and a straggler's twin are told from first deliveries by it. A key numbers the function's updates
// of this shard (runtime/function/number_updates.h), however the function is cut into segments.
//
// Closure ids are those of one session epoch, dense and handed out in order, so the set stays as
// small as the window of closures in flight; the low-water mark trims it. Other ids are correct
// too, only larger to keep. Thread model: owned by its shard's event loop.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/base/ids.h"

namespace coxswain::checkpoint {

class Ledger {
 public:
  // Whether the update was applied: it is in the set, or its closure is below the low-water mark.
  bool Contains(ClosureId closure, uint32_t step, uint32_t key) const;

  // Records the update. False when it was there already (see Contains): it must be dropped.
  bool Insert(ClosureId closure, uint32_t step, uint32_t key);

  // Every closure below `closure` is complete, on every shard. A mark never goes back: a lower one
  // than the present is ignored.
  void SetLowWater(ClosureId closure);
  ClosureId low_water() const { return low_water_; }

  // Recorded updates at or above the low-water mark.
  int64_t size() const { return size_; }

  // Forgets everything: a new epoch counts closures anew.
  void Clear();

  // One line of ASCII, fit for a JSON string: "low closure:step/key,... closure:...", in order.
  // Equal ledgers give equal text.
  std::string Serialize() const;
  // Errors: InvalidArgument naming the part that is not understood.
  static absl::StatusOr<Ledger> Parse(absl::string_view text);

  bool operator==(const Ledger& other) const {
    return low_water_ == other.low_water_ && entries_ == other.entries_;
  }

 private:
  // (step << 32 | key), sorted. A packed closure has several; they come nearly in order.
  using Keys = absl::InlinedVector<uint64_t, 2>;

  ClosureId low_water_ = 0;
  absl::flat_hash_map<ClosureId, Keys> entries_;
  int64_t size_ = 0;
};

}  // namespace coxswain::checkpoint
