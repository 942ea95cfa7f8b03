// The shards by their ids; applying a synchronous step; then the transaction of a segment: reads,
// staging, and commit or hold.
#include "ps_server/shard_store.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "ps_server/combine_gradients.h"
#include "ps_server/delay_compensation.h"
#include "runtime/base/status.h"
#include "runtime/tensor/within_memory.h"

namespace coxswain::ps {
namespace {

// A segment's updates of one shard.
using Updates = absl::InlinedVector<const graph::Update*, 8>;

// Removes the updates that the ledger has. Two updates with one key in one segment (of a function
// whose updates have no numbers) do not count as duplicates of each other.
void DropKnown(const ClosureStep& of, const checkpoint::Ledger& ledger, Updates* updates) {
  if (updates->size() == 1) return;  // nearly always: Record sees it, with one look-up
  const auto known = [&](const graph::Update* u) {
    return ledger.Contains(of.closure, of.step, u->key);
  };
  updates->erase(std::remove_if(updates->begin(), updates->end(), known), updates->end());
}

// Records what DropKnown has left. False: the ledger has it.
bool Record(const ClosureStep& of, const Updates& updates, checkpoint::Ledger* ledger) {
  bool unknown = false;
  for (const graph::Update* u : updates) {
    if (ledger->Insert(of.closure, of.step, u->key)) unknown = true;
  }
  return unknown;
}

bool IsGradient(graph::Update::Kind kind) {
  return kind == graph::Update::Kind::kDense || kind == graph::Update::Kind::kSparse;
}

bool AnyGradient(const Updates& updates) {
  return std::any_of(updates.begin(), updates.end(),
                     [](const graph::Update* update) { return IsGradient(update->kind); });
}

// Gradients among them are replaced by `compensated` ones, if the shard's are to be.
void CompensateAll(const Shard& shard, const ReadMarks::Values& read, Updates* updates,
                   std::vector<graph::Update>* compensated) {
  const double lambda = shard.optimizer().delay_compensation();
  if (lambda == 0) return;
  compensated->reserve(updates->size());  // they are pointed to
  for (const graph::Update*& update : *updates) {
    if (!IsGradient(update->kind)) continue;
    update = &compensated->emplace_back(Compensate(*update, read, shard, lambda));
  }
}

// Rows that the updates bring.
int64_t IdsIn(const Updates& updates) {
  int64_t ids = 0;
  for (const graph::Update* update : updates) {
    const bool rows = update->kind == graph::Update::Kind::kSparse ||
                      update->kind == graph::Update::Kind::kScatterAdd;
    if (rows) ids += update->ids.num_elements();
  }
  return ids;
}

}  // namespace

void WorkDone::Add(const WorkDone& other) {
  updates += other.updates;
  duplicates += other.duplicates;
  pulled += other.pulled;
  pushed += other.pushed;
  staleness.AddAll(other.staleness);
}

WorkDone ShardStore::Entry::DoneHere() const {
  return {shard->applied() - applied_before, duplicates, pulled - pulled_before,
          pushed - pushed_before, staleness};
}

absl::Status ShardStore::Add(const proto::ShardSpec& spec, Shard::Fill fill) {
  RETURN_IF_ERROR(CheckNew(spec));
  ASSIGN_OR_RETURN(std::unique_ptr<Shard> shard, Shard::Create(spec, fill));
  return Add(std::move(shard));
}

absl::Status ShardStore::Add(std::unique_ptr<Shard> shard) {
  RETURN_IF_ERROR(CheckNew(shard->spec()));
  auto entry = std::make_shared<Entry>();
  entry->shard = std::move(shard);
  entry->applied_before = entry->shard->applied();
  const ShardId id = entry->shard->spec().id();
  shards_.emplace(id, std::move(entry));
  return absl::OkStatus();
}

void ShardStore::Put(std::unique_ptr<Shard> shard, checkpoint::Ledger ledger, int64_t pulled,
                     int64_t pushed, FetchedNumbers fetched) {
  auto entry = std::make_shared<Entry>();
  entry->fetched = std::move(fetched);
  entry->pulled = entry->pulled_before = pulled;
  entry->pushed = entry->pushed_before = pushed;
  entry->shard = std::move(shard);
  entry->applied_before = entry->shard->applied();
  entry->ledger = std::move(ledger);
  const ShardId id = entry->shard->id();
  if (const auto old = shards_.find(id); old != shards_.end()) {
    done_before_.Add(old->second->DoneHere());
  }
  shards_[id] = std::move(entry);
}

absl::Status ShardStore::CheckNew(const proto::ShardSpec& spec) const {
  const auto found = shards_.find(spec.id());
  if (found == shards_.end()) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("shard ", spec.id(), " is here already, of variable '",
                   found->second->shard->spec().variable().name(), "'; refused for variable '",
                   spec.variable().name(), "'"));
}

absl::Status ShardStore::Remove(ShardId id) {
  const auto found = shards_.find(id);
  if (found == shards_.end()) {
    return absl::NotFoundError(absl::StrCat("no shard ", id, " here to remove"));
  }
  done_before_.Add(found->second->DoneHere());
  shards_.erase(found);
  return absl::OkStatus();
}

void ShardStore::Clear() {
  done_before_ = Done();
  shards_.clear();
  sync_.Clear();
}

absl::StatusOr<std::shared_ptr<ShardStore::Entry>> ShardStore::FindEntry(ShardId id) const {
  const auto found = shards_.find(id);
  if (found != shards_.end()) return found->second;
  return absl::NotFoundError(
      absl::StrCat("no shard ", id, " here (", shards_.size(), " shards are)"));
}

absl::StatusOr<Shard*> ShardStore::Get(ShardId id) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, FindEntry(id));
  return entry->shard.get();
}

absl::StatusOr<checkpoint::Ledger*> ShardStore::GetLedger(ShardId id) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, FindEntry(id));
  return &entry->ledger;
}

absl::StatusOr<ShardStore::Cut> ShardStore::Snapshot(ShardId id) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<Entry> entry, FindEntry(id));
  std::shared_ptr<const ShardSnapshot> snapshot = entry->shard->Snapshot();
  if (!snapshot->status().ok()) {
    return Annotate(snapshot->status(), entry->shard->spec().variable().name());
  }
  return Cut{std::move(snapshot), entry->ledger.Serialize(),
             entry->fetched.Serialize(entry->ledger), entry->pulled, entry->pushed};
}

absl::StatusOr<std::optional<ShardStore::AppliedStep>> ShardStore::HeldEverywhere(
    const SyncStep& step, const ClosureStep& of) {
  RETURN_IF_ERROR(sync_.Check(step, of.closure));
  return ApplyReady(sync_.HeldEverywhere(step, of.closure, of.seed), of.seconds);
}

absl::StatusOr<std::optional<ShardStore::AppliedStep>> ShardStore::ApplyChosen(
    const SyncStep& step, const std::vector<ClosureId>& chosen, double seconds) {
  ASSIGN_OR_RETURN(std::optional<SyncSteps::Ready> ready, sync_.Choose(step, chosen));
  return ApplyReady(std::move(ready), seconds);
}

std::optional<ShardStore::AppliedStep> ShardStore::ApplyReady(std::optional<SyncSteps::Ready> ready,
                                                              double seconds) {
  if (!ready) return std::nullopt;
  if (!ready->step.each) return ApplyAsOne(*ready, seconds);
  AppliedStep all;
  while (!ready->of.empty()) {
    auto next = ready->of.begin();
#ifdef COXSWAIN_MUTATE_ORDER  // a build that must fail the simulator's tests
    next = std::prev(ready->of.end());
#endif
    SyncSteps::Ready one;
    one.step.first = next->first;
    one.of.insert(ready->of.extract(next));
    all.staleness = std::max(all.staleness, ApplyAsOne(one, seconds).staleness);
  }
  return all;
}

ShardStore::AppliedStep ShardStore::ApplyAsOne(const SyncSteps::Ready& ready,
                                               double seconds) noexcept {
  AppliedStep done;
  // By shard and key, each in the order of the closures. Closures of one step run one function; the
  // kind is part of the key because peers may not keep to this.
  using Key = std::pair<uint32_t, graph::Update::Kind>;
  std::map<ShardId, std::map<Key, Updates>> by_shard;
  for (const auto& [closure, contribution] : ready.of) {
    for (const graph::Update& update : contribution.updates) {
      by_shard[update.shard][{update.key, update.kind}].push_back(&update);
    }
  }
  const int64_t divisor = ready.step.mean ? ready.step.count : 1;
  const uint64_t seed = ready.of.empty() ? 0 : ready.of.begin()->second.seed;
  RowBatch on_gpu;
  for (const auto& [id, by_key] : by_shard) {
    const auto found = shards_.find(id);
    if (found == shards_.end()) continue;  // removed: its updates are dropped
    Entry* const entry = found->second.get();
    std::vector<graph::Update> step;
    for (const auto& [key, updates] : by_key) {
      if (IsGradient(updates[0]->kind)) {
        step.push_back(CombineGradients(updates, divisor));
      } else {
        for (const graph::Update* update : updates) step.push_back(*update);
      }
    }
    Updates all;
    for (const graph::Update& update : step) all.push_back(&update);
    int64_t late = 0;
    bool seen = false;
    for (const auto& [closure, contribution] : ready.of) {
      const auto read = contribution.reads.find(id);
      if (read == contribution.reads.end()) continue;
      seen = true;
      entry->staleness.Add(entry->shard->applied() - read->second);
      late = std::max(late, entry->shard->applied() - read->second);
    }
    if (seen) done.staleness = std::max(done.staleness, late);
    const Shard::NamedRows rows =
        entry->shard->ApplySegment(all, {seed, 0, seconds, late}, {}, &on_gpu);
    if (seen) entry->staleness.AddRows(rows.all, rows.changed);
    entry->pushed += IdsIn(all);
  }
  on_gpu.Run().IgnoreError();  // updates have none
  for (const auto& [closure, contribution] : ready.of) {
    for (const graph::Update& update : contribution.updates) {
      const auto found = shards_.find(update.shard);
      if (found != shards_.end()) found->second->ledger.Insert(closure, 0, update.key);
    }
  }
  return done;
}

void ShardStore::SetLowWater(ClosureId closure) {
  for (auto& [id, entry] : shards_) {
    entry->ledger.SetLowWater(closure);
    entry->reads.SetLowWater(closure);
    entry->fetched.SetLowWater(closure);
  }
  sync_.SetLowWater(closure);
}

std::vector<ShardId> ShardStore::Ids() const {
  std::vector<ShardId> ids;
  ids.reserve(shards_.size());
  for (const auto& shard : shards_) ids.push_back(shard.first);
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<ShardStats> ShardStore::Stats() const {
  std::vector<ShardStats> stats;
  stats.reserve(shards_.size());
  for (ShardId id : Ids()) {
    const Entry& entry = *shards_.at(id);
    const HashRows* hash = entry.shard->hash();
    stats.push_back({id, entry.shard->spec().variable().name(),
                     hash == nullptr ? entry.shard->rows() : hash->rows(),
                     entry.shard->memory_bytes(), entry.shard->applied(), entry.duplicates,
                     entry.pulled, entry.pushed, hash == nullptr ? 0 : hash->evicted(),
                     hash == nullptr ? 0 : hash->waiting(), entry.staleness});
  }
  return stats;
}

WorkDone ShardStore::Done() const {
  WorkDone done = done_before_;
  for (const auto& [id, entry] : shards_) done.Add(entry->DoneHere());
  return done;
}

absl::StatusOr<std::shared_ptr<ShardStore::Entry>> SegmentTransaction::FindEntry(ShardId id) const {
  for (const ShardStore* store : stores_) {
    const auto found = store->shards_.find(id);
    if (found != store->shards_.end()) return found->second;
  }
  return stores_[0]->FindEntry(id);
}

void SegmentTransaction::NoteRead(ShardId shard, const Tensor& ids, const Tensor& values,
                                  ShardStore::Entry* entry) const {
  if (updated_ == nullptr || !std::binary_search(updated_->begin(), updated_->end(), shard)) return;
  entry->reads.Note(stamp_, entry->shard->applied());
  if (entry->shard->optimizer().delay_compensation() > 0) entry->reads.Keep(stamp_, ids, values);
}

std::optional<ReadMarks::Reading> SegmentTransaction::TakeRead(ShardStore::Entry* entry) const {
  if (updated_ == nullptr) return std::nullopt;
  return entry->reads.Take(stamp_);
}

absl::StatusOr<Tensor> SegmentTransaction::Read(ShardId shard) {
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardStore::Entry> found, FindEntry(shard));
  absl::StatusOr<Tensor> value = found->shard->Read();
  if (value.ok()) NoteRead(shard, {}, *value, found.get());
  return value;
}

absl::StatusOr<Tensor> SegmentTransaction::Gather(ShardId shard, const Tensor& ids) {
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardStore::Entry> found, FindEntry(shard));
  absl::StatusOr<Tensor> rows = found->shard->Gather(ids);
  if (rows.ok()) {
    found->pulled += ids.num_elements();
    NoteRead(shard, ids, *rows, found.get());
  }
  return rows;
}

absl::StatusOr<Tensor> SegmentTransaction::GatherForDevice(ShardId shard, const Tensor& ids) {
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardStore::Entry> found, FindEntry(shard));
  if (rows_on_ == Device{} || found->shard->rows_on() != rows_on_) return Gather(shard, ids);
  absl::StatusOr<Tensor> rows = found->shard->GatherOnDevice(ids, &look_ups_);
  if (rows.ok()) {
    found->pulled += ids.num_elements();
    NoteRead(shard, ids, *rows, found.get());
  }
  return rows;
}

absl::StatusOr<Tensor> SegmentTransaction::ReadAverages(ShardId shard) {
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardStore::Entry> found, FindEntry(shard));
  return found->shard->ReadAverages();
}

absl::StatusOr<Tensor> SegmentTransaction::GatherAverages(ShardId shard, const Tensor& ids) {
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardStore::Entry> found, FindEntry(shard));
  found->pulled += ids.num_elements();
  return found->shard->GatherAverages(ids);
}

absl::Status SegmentTransaction::Stage(graph::Update update) {
  absl::StatusOr<std::shared_ptr<ShardStore::Entry>> entry = FindEntry(update.shard);
  absl::Status status = entry.ok() ? (*entry)->shard->Validate(update) : entry.status();
  Shard::Room room;
  if (status.ok() && (*entry)->shard->hash() != nullptr) {
    room = (*entry)->shard->RoomFor(update);
    // With that for all staged updates of the shard.
    Shard::Room all = room;
    for (const Staged& other : staged_) {
      if (other.entry == *entry) all += other.room;
    }
    status = (*entry)->shard->Reserve(all);
  }
  if (!status.ok()) {
    failed_ = true;
    return status;
  }
  staged_.push_back({std::move(entry).value(), std::move(update), room});
  return absl::OkStatus();
}

absl::StatusOr<Tensor> SegmentTransaction::FetchAdd(graph::Update update, ClosureId closure,
                                                    uint32_t step) {
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardStore::Entry> entry, FindEntry(update.shard));
  ASSIGN_OR_RETURN(Tensor now, entry->shard->Read());
  const uint32_t key = update.key;
  const bool again = entry->ledger.Contains(closure, step, key);
  RETURN_IF_ERROR(Stage(std::move(update)));
  if (!again) {
    entry->fetched.Set(closure, step, key,
                       std::string(static_cast<const char*>(now.raw()), now.bytes()));
    return now;
  }
  const std::string* const known = entry->fetched.Find(closure, step, key);
  if (known == nullptr || known->size() != now.bytes()) return now;
  Tensor before(now.dtype(), now.shape());
  std::memcpy(before.mutable_raw(), known->data(), known->size());
  return before;
}

CommitResult SegmentTransaction::Commit(const ClosureStep& of) {
  CommitResult result;
  std::vector<Staged> staged = std::exchange(staged_, {});
  if (std::exchange(failed_, false)) return result;
  // By shard, in the order of staging within each.
  const auto by_shard = [](const Staged& a, const Staged& b) {
    return a.update.shard < b.update.shard;
  };
  if (!std::is_sorted(staged.begin(), staged.end(), by_shard)) {
    std::stable_sort(staged.begin(), staged.end(), by_shard);
  }
  Updates updates;
  RowBatch on_gpu;
  for (size_t begin = 0, end = 0; begin < staged.size(); begin = end) {
    const std::shared_ptr<ShardStore::Entry>& entry = staged[begin].entry;
    const ShardId id = staged[begin].update.shard;
    const auto current = FindEntry(id);
    bool gone = !current.ok();
    updates.clear();
    for (end = begin; end < staged.size() && staged[end].update.shard == id; ++end) {
      gone = gone || staged[end].entry != *current;
      updates.push_back(&staged[end].update);
    }
    if (gone) {
      ++result.gone;
      continue;
    }
    const std::optional<ReadMarks::Reading> read = TakeRead(entry.get());
    DropKnown(of, entry->ledger, &updates);
    const int64_t late = read ? entry->shard->applied() - read->applied : 0;
    std::vector<graph::Update> compensated;
    absl::StatusOr<Shard::Memory> memory = WithinMemory([&] {
      if (late > 0) CompensateAll(*entry->shard, read->values, &updates, &compensated);
      return entry->shard->Prepare(updates);
    });
    if (!memory.ok()) {
      result.status.Update(Annotate(memory.status(), entry->shard->spec().variable().name()));
      continue;
    }
    // Half of it would be neither applied nor not: better no process than that.
    [&]() noexcept {
      if (!Record(of, updates, &entry->ledger)) {
        ++entry->duplicates;
        ++result.duplicates;
        return;
      }
      const Shard::NamedRows rows = entry->shard->ApplySegment(
          updates, {of.seed, of.step, of.seconds, late}, *std::move(memory), &on_gpu);
      entry->pushed += IdsIn(updates);
      ++result.applied;
      if (read && AnyGradient(updates)) {
        entry->staleness.Add(late);
        entry->staleness.AddRows(rows.all, rows.changed);
        result.staleness = std::max(result.staleness, late);
      }
    }();
  }
  on_gpu.Run().IgnoreError();  // updates have none
  return result;
}

ShardStore* SegmentTransaction::StoreOf(const Staged& staged) const {
  for (ShardStore* store : stores_) {
    const auto found = store->shards_.find(staged.update.shard);
    if (found != store->shards_.end() && found->second == staged.entry) return store;
  }
  return nullptr;
}

absl::StatusOr<CommitResult> SegmentTransaction::Hold(const SyncStep& step, const ClosureStep& of) {
  CommitResult result;
  std::vector<Staged> staged = std::exchange(staged_, {});
  if (std::exchange(failed_, false)) return result;
  for (ShardStore* store : stores_) RETURN_IF_ERROR(store->sync_.Check(step, of.closure));
  // First all updates are checked: two updates with one key in one segment (of a function whose
  // updates have no numbers) do not count as duplicates of each other.
  std::vector<std::pair<ShardStore*, Staged*>> held;
  std::map<ShardId, Shard::Room> rooms;
  std::vector<std::pair<Staged*, int64_t>> reads;
  for (Staged& s : staged) {
    ShardStore* const store = StoreOf(s);
    const graph::Update& update = s.update;
    if (store == nullptr) {
      ++result.gone;
    } else if (s.entry->ledger.Contains(of.closure, 0, update.key) ||
               store->sync_.Holds(step, of.closure, update)) {
      ++s.entry->duplicates;
      ++result.duplicates;
    } else {
      held.emplace_back(store, &s);
      if (IsGradient(update.kind)) {
        if (const auto read = TakeRead(s.entry.get())) reads.emplace_back(&s, read->applied);
      }
      if (s.entry->shard->hash() == nullptr) continue;
      // Room for all held updates: they are applied together.
      Shard::Room& room =
          rooms
              .try_emplace(update.shard, Shard::Room{store->sync_.IdsFor(update.shard),
                                                     store->sync_.NewRowsFor(update.shard)})
              .first->second;
      room += s.room;
      RETURN_IF_ERROR(s.entry->shard->Reserve(room));
    }
  }
  for (const auto& [s, read] : reads) {
    StoreOf(*s)->sync_.NoteRead(step, of.closure, s->update.shard, read);
  }
  RETURN_IF_ERROR(CatchAllocationErrors([&] {
    for (const auto& [store, s] : held) {
      const int64_t rows = s->room.new_rows;
      if (rows > 0) store->sync_.NoteNewRows(step, of.closure, s->update.shard, rows);
      store->sync_.Hold(step, of.closure, of.seed, std::move(s->update));
    }
    return absl::OkStatus();
  }));
  result.applied = static_cast<int>(held.size());
  return result;
}

}  // namespace coxswain::ps
