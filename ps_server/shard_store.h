// The shards of one lane of a PS, each with its ledger, and the transaction with which one segment
// of a step reads and changes them.
//
// Thread model: everything here belongs to one lane. Returned tensors may be used on any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "protos/variable.pb.h"
#include "ps_server/fetched_numbers.h"
#include "ps_server/row_batch.h"
#include "ps_server/shard.h"
#include "ps_server/shard_snapshot.h"
#include "ps_server/staleness.h"
#include "ps_server/sync_steps.h"
#include "runtime/base/ids.h"
#include "runtime/checkpoint/ledger.h"
#include "runtime/graph/variable_access.h"

namespace coxswain::ps {

struct ShardStats {
  ShardId id = 0;
  std::string variable;
  int64_t rows = 0;        // for a hash table, the current number
  int64_t bytes = 0;       // memory, including slots and padding
  int64_t applied = 0;     // segments since the variable was made
  int64_t duplicates = 0;  // segments dropped by this store because the ledger had them
  int64_t pulled = 0;      // rows gathered, and rows in updates, since the shard was created
  int64_t pushed = 0;
  int64_t evicted = 0;        // hash tables: rows
  int64_t waiting = 0;        // hash tables: ids that have no row yet
  StalenessCounts staleness;  // of gradients that this store applied
};

// What a store has done, whatever became of its shards since: numbers that only grow.
struct WorkDone {
  int64_t updates = 0;     // segments applied
  int64_t duplicates = 0;  // segments dropped
  int64_t pulled = 0;      // rows gathered, and rows in updates
  int64_t pushed = 0;
  StalenessCounts staleness;

  void Add(const WorkDone& other);
};

// The step of a closure that updates are of. No member has a default: with a seed that was
// forgotten, all closures would draw alike.
struct ClosureStep {
  ClosureId closure;
  uint32_t step;   // 0 for a closure of a synchronous step
  double seconds;  // of Env::Monotonic, when the updates came; for tables with ttl_seconds
  uint64_t seed;   // the closure's, see UpdateTime
};

class ShardStore {
 public:
  ShardStore() = default;
  ShardStore(const ShardStore&) = delete;
  ShardStore& operator=(const ShardStore&) = delete;

  // Makes a shard with an empty ledger.
  // Errors: AlreadyExists; those of Shard::Create.
  absl::Status Add(const proto::ShardSpec& spec, Shard::Fill fill = Shard::Fill::kInitialize);
  // Adds a shard that was created elsewhere. Errors: AlreadyExists.
  absl::Status Add(std::unique_ptr<Shard> shard);
  // Adds a shard with its ledger; replaces the shard with the same id, if there is one.
  void Put(std::unique_ptr<Shard> shard, checkpoint::Ledger ledger, int64_t pulled = 0,
           int64_t pushed = 0, FetchedNumbers fetched = {});
  // Errors: NotFound.
  absl::Status Remove(ShardId id);
  void Clear();

  // Owned by the store, valid until the shard is removed. Errors: NotFound.
  absl::StatusOr<Shard*> Get(ShardId id) const;
  absl::StatusOr<checkpoint::Ledger*> GetLedger(ShardId id) const;

  // Shard and ledger at this moment, without copying; see ShardSnapshot.
  struct Cut {
    std::shared_ptr<const ShardSnapshot> snapshot;
    std::string ledger, fetched;
    int64_t pulled = 0, pushed = 0;  // as in ShardStats
  };
  // Errors: NotFound; ResourceExhausted.
  absl::StatusOr<Cut> Snapshot(ShardId id) const;

  // The synchronous steps of these shards.
  SyncSteps& sync() { return sync_; }
  // What a synchronous step has done when it was applied.
  struct AppliedStep {
    int64_t staleness = -1;  // the most of its gradients; -1: it has none
  };
  // See SyncSteps. A value: this was the last closure of the step, and the step has been applied,
  // as one update of each shard (or one for each closure: SyncStep::each), whose ledger now has all
  // of its closures. Errors: those of SyncSteps::Check.
  absl::StatusOr<std::optional<AppliedStep>> HeldEverywhere(const SyncStep& step,
                                                            const ClosureStep& of);
  // Applies a step with backups, with the closures that the coordinator has chosen; nothing where
  // that was done. Errors: those of SyncSteps::Choose.
  absl::StatusOr<std::optional<AppliedStep>> ApplyChosen(const SyncStep& step,
                                                         const std::vector<ClosureId>& chosen,
                                                         double seconds);

  // Of every shard: see Ledger::SetLowWater and ReadMarks. And of what is held.
  void SetLowWater(ClosureId closure);

  size_t size() const { return shards_.size(); }
  // By ascending id.
  std::vector<ShardId> Ids() const;
  std::vector<ShardStats> Stats() const;
  WorkDone Done() const;

 private:
  friend class SegmentTransaction;
  struct Entry {
    std::unique_ptr<Shard> shard;
    checkpoint::Ledger ledger;
    int64_t duplicates = 0;
    int64_t pulled = 0, pushed = 0;
    // What it had when it came here.
    int64_t applied_before = 0, pulled_before = 0, pushed_before = 0;
    ReadMarks reads;
    StalenessCounts staleness;
    FetchedNumbers fetched;  // by closures that are not over

    WorkDone DoneHere() const;
  };

  absl::Status CheckNew(const proto::ShardSpec& spec) const;
  absl::StatusOr<std::shared_ptr<Entry>> FindEntry(ShardId id) const;
  // Nothing where nothing is ready.
  std::optional<AppliedStep> ApplyReady(std::optional<SyncSteps::Ready> ready, double seconds);
  AppliedStep ApplyAsOne(const SyncSteps::Ready& ready, double seconds) noexcept;

  // Shared, so that a transaction notices when a shard was removed before its commit. The map's
  // order must not be observable: use Ids() to list shards.
  absl::flat_hash_map<ShardId, std::shared_ptr<Entry>> shards_;
  WorkDone done_before_;  // on shards that are not here any more
  SyncSteps sync_;
};

// The number of a segment's shards that applied updates, that dropped all of them as duplicates, or
// that no longer existed (removed, or replaced, after their updates were staged).
struct CommitResult {
  int applied = 0;
  int duplicates = 0;
  int gone = 0;  // must not be acknowledged: the update is not in any ledger
  // ResourceExhausted: there was no memory to apply the updates of one shard at least, which has
  // none of them. They must not be acknowledged.
  absl::Status status;
  int64_t staleness = -1;  // of the latest gradient that was applied; -1: of none it is known
};

// A transaction for one segment (the updates that arrive together) of one step of one closure.
// Reads see the store, not the staged updates. Without Commit nothing changes. Must not outlive the
// stores, of which there is nearly always one.
class SegmentTransaction : public graph::VariableAccess {
 public:
  using Stores = absl::InlinedVector<ShardStore*, 1>;
  explicit SegmentTransaction(ShardStore* store) : stores_({store}) {}
  // `stores` has at least one element; a shard may be in only one of them.
  explicit SegmentTransaction(Stores stores) : stores_(std::move(stores)) {}

  // Whose segment it is, so that the staleness of its gradients is counted: that of shards that it
  // reads now and updates later, which are those of `updated` (ascending; it must outlive this).
  void CountStaleness(const ReadStamp& stamp, const std::vector<ShardId>* updated) {
    stamp_ = stamp;
    updated_ = updated;
  }

  // Rows that are in the memory of this GPU may be returned there, where GatherForDevice is asked.
  void TakeRowsOn(Device gpu) { rows_on_ = gpu; }

  absl::StatusOr<Tensor> Read(ShardId shard) override;
  absl::StatusOr<Tensor> Gather(ShardId shard, const Tensor& ids) override;
  absl::StatusOr<Tensor> GatherForDevice(ShardId shard, const Tensor& ids) override;
  // After the reads: rows that GatherForDevice returned in the memory of a GPU have their values
  // then, for streams that wait for the row streams. Errors: those of DeviceRows::Gather.
  absl::Status FinishReads() { return look_ups_.Run(); }
  absl::StatusOr<Tensor> ReadAverages(ShardId shard) override;
  absl::StatusOr<Tensor> GatherAverages(ShardId shard, const Tensor& ids) override;
  // Checks the update completely and keeps it. After an error the segment must be dropped as a
  // whole: Commit then does nothing.
  absl::Status Stage(graph::Update update) override;
  absl::StatusOr<Tensor> FetchAdd(graph::Update update, ClosureId closure, uint32_t step) override;

  bool failed() const { return failed_; }

  // For each shard with staged updates: drops those whose key its ledger has for this step, applies
  // all others together, and records them. It cannot fail for other reasons than a shortage of
  // memory, which is found before anything of the shard changes. Duplicates are found update by
  // update, so
  // an attempt may be cut into other segments than the one before. A sparse update without rows
  // counts too, so that every shard can take one update per step. The transaction is empty
  // afterwards.
  CommitResult Commit(const ClosureStep& of);

  // In place of Commit, for a closure of a synchronous step: holds the staged updates until the
  // step is complete, and drops updates that are already held or applied. The transaction is empty
  // afterwards. `applied` of the result counts shards that hold new updates. Errors: those of
  // SyncSteps::Check; ResourceExhausted. After an error, no update of this segment is held, or such
  // that are dropped as duplicates when they come again.
  absl::StatusOr<CommitResult> Hold(const SyncStep& step, const ClosureStep& of);

 private:
  struct Staged {
    std::shared_ptr<ShardStore::Entry> entry;
    graph::Update update;
    Shard::Room room;
  };

  absl::StatusOr<std::shared_ptr<ShardStore::Entry>> FindEntry(ShardId id) const;
  // These values of the shard are read; dense: all, and there are no ids.
  void NoteRead(ShardId shard, const Tensor& ids, const Tensor& values,
                ShardStore::Entry* entry) const;
  // What this step of the closure read of it; that is forgotten. Nothing: not seen.
  std::optional<ReadMarks::Reading> TakeRead(ShardStore::Entry* entry) const;
  // The store that has the shard; null: none has it any more.
  ShardStore* StoreOf(const Staged& staged) const;

  const Stores stores_;
  std::vector<Staged> staged_;
  bool failed_ = false;
  Device rows_on_;
  RowBatch look_ups_;
  ReadStamp stamp_;
  const std::vector<ShardId>* updated_ = nullptr;  // null: nothing is counted
};

}  // namespace coxswain::ps
