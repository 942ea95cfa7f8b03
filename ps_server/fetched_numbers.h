// What FetchAdd has returned from a shard: what was there before the addition, by (closure, step,
// key). A step that comes again after it was applied gets the same.
//
// It goes with the ledger: below the low-water mark it is forgotten, and a shard is saved with
// both. Thread model: its lane's.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/base/ids.h"
#include "runtime/checkpoint/ledger.h"

namespace coxswain::ps {

class FetchedNumbers {
 public:
  // `bytes`: those of the value.
  void Set(ClosureId closure, uint32_t step, uint32_t key, std::string bytes) {
    values_[{closure, step, key}] = std::move(bytes);
  }
  // Null: not known. Valid until the next change.
  const std::string* Find(ClosureId closure, uint32_t step, uint32_t key) const;
  // Forgets what closures below this one had.
  void SetLowWater(ClosureId closure);

  bool empty() const { return values_.empty(); }
  // Whether each value has so many bytes.
  bool AllHave(size_t bytes) const;

  // "closure:step/key=value closure:...", in order, each value in hexadecimal; of those updates
  // that the ledger has. Others were not applied, and have it anew when they come again.
  std::string Serialize(const checkpoint::Ledger& ledger) const;
  // Errors: InvalidArgument naming the part that is not understood.
  static absl::StatusOr<FetchedNumbers> Parse(absl::string_view text);

 private:
  absl::btree_map<std::tuple<ClosureId, uint32_t, uint32_t>, std::string> values_;
};

}  // namespace coxswain::ps
