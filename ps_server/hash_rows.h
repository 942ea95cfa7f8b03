// Which rows a shard of a hash table has: ids come by admission and go by eviction.
//
// Rows have numbers, "places", in storage that grows in place. Two parts of a row (shard_parts.h)
// are kept here: "id", and "count", the updates that it has taken (at least 1; 0: the place is
// free). Free places are a list: each has the next one in its "id". So a snapshot of the parts is
// one of the free list, too, and a restored shard goes on as the one that was saved.
//
// Everything is a function of the sequence of updates with their closures, steps and times.
//
// Thread model: one event loop.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "coxswain/tensor.h"
#include "protos/control.pb.h"
#include "protos/variable.pb.h"
#include "ps_server/growing_storage.h"
#include "ps_server/hash_index.h"
#include "ps_server/shard_parts.h"
#include "ps_server/waiting_ids.h"
#include "runtime/base/ids.h"

namespace coxswain::ps {

// The step that an update is of, and when it came.
struct UpdateTime {
  ClosureId closure = 0;
  uint32_t step = 0;
  double seconds = 0;     // since 1970; for ttl_seconds
  int64_t staleness = 0;  // of its gradients
};

class HashRows {
 public:
  // What a file has of ids that wait for a row, beside the parts of the rows.
  static constexpr const char* kWaitingNames[] = {"waiting_ids", "waiting_counts", "waiting_seen"};

  // Errors: InvalidArgument for a spec that contradicts itself; ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<HashRows>> Create(const proto::ShardSpec& spec,
                                                          const PartPlan& plan);

  int64_t places() const { return places_; }  // of the storage, free ones among them
  int64_t rows() const { return index_.size(); }
  int64_t evicted() const { return evicted_; }
  int64_t dropped() const { return dropped_; }  // gradients of ids without a row
  int64_t waiting() const { return waiting_.size(); }
  int64_t memory_bytes() const;
  // Where the rows are; the same for as long as the shard lives.
  const TableMemory& memory() const { return memory_; }

  // The places of ids, -1 for those without a row.
  void Find(const int64_t* ids, int64_t n, int64_t* places) const {
    index_.FindAll(ids, n, places);
  }
  bool IsFree(int64_t place) const { return count(place) == 0; }
  int64_t id(int64_t place) const { return Load<int64_t>(ids_, place); }

  // Room for `n` more rows. Errors: ResourceExhausted; then nothing has changed.
  absl::Status Reserve(int64_t n);

  struct NewRow {
    int64_t id;
    int64_t place;
  };
  // The same for an update, which is the shard's `number`-th; there is room. Ids without a row may
  // get one, and are added to `made`; until Begin their places are still as they were.
  void FindOrAdmit(const int64_t* ids, int64_t n, int64_t number, const UpdateTime& time,
                   int64_t* places, std::vector<NewRow>* made);
  // The same, and all ids get one.
  void FindOrMake(const int64_t* ids, int64_t n, int64_t* places, std::vector<NewRow>* made);
  // The new row's id and count are set.
  void Begin(const NewRow& row);
  // The shard's `number`-th update names these places: they are in use.
  void Use(const int64_t* places, int64_t n, int64_t number);
  // One more update for each place, the shard's `number`-th, which uses them.
  void Count(const int64_t* places, int64_t n, int64_t number);

  // After the `number`-th update, which named `n` ids: rows go that have not been updated for too
  // long or are too many. Looks at a bounded number of rows. Before a place changes,
  // `before_change` is called with it.
  void Evict(int64_t number, const UpdateTime& time, int64_t n,
             absl::FunctionRef<void(int64_t)> before_change);

  // All rows go, in the shard's `number`-th update.
  void RemoveAll(int64_t number, absl::FunctionRef<void(int64_t)> before_change);

  // What is to be saved beside the parts; the waiting ids as tensors, in the order of
  // kWaitingNames.
  proto::HashTableState State() const;
  std::vector<Tensor> Waiting() const;

  // Restoring, in this order: makes room for all places; the parts are written; the rest is built.
  // Errors: InvalidArgument for what was not saved so; ResourceExhausted.
  absl::Status Resize(const proto::HashTableState& state);
  absl::Status Restore(const proto::HashTableState& state, const std::vector<Tensor>& waiting);

 private:
  HashRows(const proto::ShardSpec& spec, const PartPlan& plan);
  bool Admit(int64_t id, int64_t number, const UpdateTime& time);
  int64_t TakePlace();
  // The row goes, in the shard's `number`-th update.
  void Release(int64_t place, int64_t number);
  // The last update that makes a row untouched by any later one go; 0: none.
  int64_t ExpiredUpTo(int64_t number, const UpdateTime& time);
  void NoteTime(int64_t number, double seconds);
  int64_t PickVictim();
  absl::Status RestoreFreeList(const proto::HashTableState& state);

  template <typename T>
  static T Load(const PartPlace& part, int64_t place) {
    T value;
    std::memcpy(&value, part.Row(place), sizeof(value));
    return value;
  }
  template <typename T>
  static void Store(const PartPlace& part, int64_t place, T value) {
    std::memcpy(part.Row(place), &value, sizeof(value));
  }
  uint32_t count(int64_t place) const { return Load<uint32_t>(counts_, place); }
  int64_t used(int64_t place) const { return Load<int64_t>(used_, place); }
  void set_count(int64_t place, uint32_t count) { Store(counts_, place, count); }
  void set_id(int64_t place, int64_t id) { Store(ids_, place, id); }
  absl::Status ReserveAddresses();

  const proto::HashTableSpec spec_;
  const PartPlan plan_;
  const std::string name_;
  const int64_t index_of_, count_of_;  // this shard among those of the table
  uint64_t draw_base_ = 0;             // hash of seed and name
  int64_t max_rows_ = 0;               // of this shard; 0: no bound
  bool by_frequency_ = false;

  GrowingStorage row_storage_, side_storage_;
  TableMemory memory_;
  PartPlace ids_, counts_, touched_;
  PartPlace used_;  // the same as touched_, or a part of its own
  HashIndex index_;
  WaitingIds waiting_;
  int64_t places_ = 0;
  int64_t first_free_ = -1;
  int64_t hand_ = 0;
  int64_t evicted_ = 0;
  int64_t dropped_ = 0;
  struct Mark {
    double seconds;
    int64_t number;
  };
  std::vector<Mark> marks_;  // ascending
};

}  // namespace coxswain::ps
