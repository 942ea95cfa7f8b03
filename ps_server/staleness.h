// How late gradients are: how many updates their shard took between the reading of the values that
// a gradient was computed from and its application.
//
// A shard notes for each closure that will update it at which update it was read, and forgets that
// with the update, or when the closure is over everywhere. Notes are no state: they are in no
// snapshot, and a gradient whose reading was not seen (its shard came here meanwhile) is not
// counted.
//
// Thread model: that of the shard's lane.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coxswain/tensor.h"
#include "runtime/base/ids.h"

namespace coxswain::ps {

// How many gradients were how late.
struct StalenessCounts {
  static constexpr int kBuckets = 16;
  // 0, 1, 2 to 3, 4 to 7, ...; the last one has all from 2^14 on.
  std::array<int64_t, kBuckets> counts{};
  int64_t sum = 0;
  int64_t most = 0;
  // Rows of tables that these gradients named, and those of them that had changed since they were
  // read.
  int64_t rows = 0;
  int64_t rows_changed = 0;

  static int BucketOf(int64_t staleness);
  void Add(int64_t staleness);
  void AddRows(int64_t all, int64_t changed);
  void AddAll(const StalenessCounts& other);
};

// An attempt of one step of a closure.
struct ReadStamp {
  ClosureId closure = 0;
  uint32_t attempt = 0, step = 0;
  bool operator==(const ReadStamp&) const = default;
};

class ReadMarks {
 public:
  // What was read of a shard: of a table rows with their local ids, of a dense variable its value,
  // without ids. Handles: nothing is copied.
  using Values = absl::InlinedVector<std::pair<Tensor, Tensor>, 1>;
  struct Reading {
    int64_t applied = 0;  // updates before
    Values values;        // where somebody wants them
  };
  // The shard is read after this number of updates. Of several readings the first one counts, and a
  // later attempt or step takes the place of an earlier one.
  void Note(const ReadStamp& stamp, int64_t applied);
  // And these values were read, after that.
  void Keep(const ReadStamp& stamp, Tensor ids, Tensor values);
  // What was noted of this attempt and step. It is forgotten.
  std::optional<Reading> Take(const ReadStamp& stamp);
  // All closures below this one are over.
  void SetLowWater(ClosureId closure);
  size_t size() const { return marks_.size(); }

 private:
  struct Mark {
    ReadStamp stamp;
    Reading reading;
  };
  absl::flat_hash_map<ClosureId, Mark> marks_;  // its order is never seen
};

// The learning rate that a late gradient has.
enum class LateRate : uint8_t {
  kNone,     // as all have
  kInverse,  // divided by its staleness, where that is more than 1
  kRoot,     // or by the root of it
};

// `word`: as OptimizerSpec has it, "" and "none" for kNone. Errors: InvalidArgument.
absl::StatusOr<LateRate> LateRateOf(absl::string_view word);
double RateFactor(LateRate rate, int64_t staleness);

}  // namespace coxswain::ps
