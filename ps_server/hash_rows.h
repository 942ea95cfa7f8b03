// The rows of a shard of a hash table: admission and eviction of ids.
//
// Rows have numbers, "places", in storage that grows in place. Two parts of a row (shard_parts.h)
// are kept here: "id", and "count", its number of updates (at least 1; 0: the place is free). Free
// places form a list: each has the next one in its "id". So a snapshot of the parts includes the
// free list, and a restored shard goes on exactly like the saved one.
//
// The state is a function of the sequence of updates with their closures, steps and times.
//
// Thread model: one event loop.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
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
#include "runtime/cluster/control.h"

namespace coxswain::ps {

// The step of an update, and the time of its arrival.
struct UpdateTime {
  // The closure's, from which all is drawn that is left to chance (core/closure.h): it does not
  // depend on what else was scheduled, as the closure's number does.
  uint64_t seed = 0;
  uint32_t step = 0;
  double seconds = 0;     // of a clock that only goes on; for ttl_seconds
  int64_t staleness = 0;  // of its gradients
};

class HashRows {
 public:
  // The tensors of a file for ids that wait for a row, beside the parts of the rows.
  static constexpr const char* kWaitingNames[] = {"waiting_ids", "waiting_counts", "waiting_seen"};

  // Where `rows_in` is a GPU, the block of rows is there, and only the parts beside it are here.
  // Where it is a file, that is a new one in `directory`. Errors: InvalidArgument for a spec that
  // contradicts itself; ResourceExhausted; those of TableFile.
  static absl::StatusOr<std::unique_ptr<HashRows>> Create(const proto::ShardSpec& spec,
                                                          const PartPlan& plan,
                                                          RowsIn rows_in = RowsIn::kHost,
                                                          const std::string& directory = "");

  int64_t places() const { return places_; }  // places in the storage, including free ones
  int64_t rows() const { return index_.size(); }
  int64_t free_places() const { return places_ - rows(); }
  int64_t max_rows() const { return max_rows_; }  // of this shard; 0: no bound
  bool ids_wait() const { return spec_.min_count() > 1; }
  // Whether every id that an update names has a row afterwards.
  bool admits_all() const { return !ids_wait() && spec_.admission_probability() == 0; }
  int64_t evicted() const { return evicted_; }
  int64_t dropped() const { return dropped_; }  // gradients dropped because their id had no row
  int64_t waiting() const { return waiting_.size(); }
  int64_t memory_bytes() const;
  // The memory of the rows on the host, or a file's; it stays the same as long as the shard lives.
  const TableMemory& memory() const { return memory_; }

  // The places of ids, -1 for those without a row.
  void Find(const int64_t* ids, int64_t n, int64_t* places) const {
    index_.FindAll(ids, n, places);
  }
  // How many of the ids have no row; one that comes twice counts twice.
  int64_t CountWithoutRow(const int64_t* ids, int64_t n) const;
  bool IsFree(int64_t place) const { return count(place) == 0; }
  int64_t id(int64_t place) const { return Load<int64_t>(ids_, place); }

  // Makes room for `n` more rows, and for ids that wait for one. Errors: ResourceExhausted; then
  // nothing has changed.
  absl::Status Reserve(int64_t n);

  struct NewRow {
    int64_t id;
    int64_t place;
  };
  // The same for the shard's `number`-th update; there must be room. Ids without a row may get one,
  // and are added to `made`; their places do not change until Begin.
  void FindOrAdmit(const int64_t* ids, int64_t n, int64_t number, const UpdateTime& time,
                   int64_t* places, std::vector<NewRow>* made);
  // The same, but all ids get a row.
  void FindOrMake(const int64_t* ids, int64_t n, int64_t* places, std::vector<NewRow>* made);
  // Sets the id and the count of a new row, which no update has touched: the one that makes it is
  // to touch it.
  void Begin(const NewRow& row);
  // Marks these places as used by the shard's `number`-th update.
  void Use(const int64_t* places, int64_t n, int64_t number);
  // Counts one more update for each place, the shard's `number`-th, and marks them as used.
  void Count(const int64_t* places, int64_t n, int64_t number);

  // After the `number`-th update.
  cluster::RowUse UseOf(int64_t place, int64_t number) const;
  // Before any update: rows go on from how they were used in another table.
  void SetUses(const int64_t* places, int64_t n, const cluster::RowUse* uses);

  // Evicts rows after the `number`-th update, which named `n` ids: those that have not been updated
  // for too long, and those above the limit. For the former it examines a bounded number of places,
  // in turn. Before a place changes, `before_change` is called with it.
  void Evict(int64_t number, const UpdateTime& time, int64_t n,
             absl::FunctionRef<void(int64_t)> before_change);

  // Removes all rows, in the shard's `number`-th update.
  void RemoveAll(int64_t number, absl::FunctionRef<void(int64_t)> before_change);

  // The state to save beside the parts; and the waiting ids as tensors, in the order of
  // kWaitingNames.
  proto::HashTableState State() const;
  std::vector<Tensor> Waiting() const;

  // Restoring, in this order: Resize makes room for all places; the caller writes the parts; the
  // last call builds the rest. Errors: InvalidArgument for an invalid state; ResourceExhausted.
  absl::Status Resize(const proto::HashTableState& state);
  absl::Status Restore(const proto::HashTableState& state, const std::vector<Tensor>& waiting);

 private:
  HashRows(const proto::ShardSpec& spec, const PartPlan& plan, RowsIn rows_in);
  absl::Status ReserveRows(int64_t n);
  // Says whose error it is, when there was to be room for `n` more.
  absl::Status Named(const absl::Status& status, int64_t n) const;
  bool Admit(int64_t id, int64_t number, const UpdateTime& time);
  // Once, when so many ids wait that counts are lost.
  void TellOfForgotten(int64_t forgotten_before) const;
  int64_t TakePlace();
  // Removes the row, in the shard's `number`-th update.
  void Release(int64_t place, int64_t number);
  // Rows whose last update is this one or an earlier one have expired.
  int64_t ExpiredUpTo(int64_t number) const;
  // Makes the table as old as it is now, in seconds in which some parameter server had it. Returns
  // by how many.
  double Age(double seconds);
  void NoteTime(int64_t number);
  // How many places to look at for expired rows, `seconds` after the last update, with one that
  // names `n` ids.
  int64_t PlacesToSweep(double seconds, int64_t n) const;
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
  absl::Status ReserveAddresses(const TableFile& file);

  const proto::HashTableSpec spec_;
  const PartPlan plan_;
  const size_t row_stride_;  // of the block of rows on the host; 0: it is not here
  const std::string name_;
  const int64_t index_of_, count_of_;  // this shard's index and the number of shards of the table
  uint64_t draw_base_ = 0;             // hash of seed and name
  int64_t max_rows_ = 0;
  bool by_frequency_ = false;

  GrowingStorage row_storage_, side_storage_;
  TableMemory memory_;
  PartPlace ids_, counts_, touched_;
  PartPlace used_;  // the same as touched_, or a separate part
  HashIndex index_;
  WaitingIds waiting_;
  int64_t places_ = 0;
  int64_t first_free_ = -1;
  int64_t hand_ = 0;
  int64_t evicted_ = 0;
  int64_t dropped_ = 0;
  double age_ = 0;                     // at the last update
  std::optional<double> last_update_;  // by UpdateTime::seconds; none: it is from a file, or new
  struct Mark {
    double age;
    int64_t number;
  };
  std::vector<Mark> marks_;  // ascending
  // No row was used before this update: below 1 for rows that were used in another table.
  int64_t first_use_ = 1;
};

}  // namespace coxswain::ps
