// Which files are known; what has to be read of a shard; reading it.
#include "coordinator/model/checkpoint_tables.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/env/system_error.h"

namespace coxswain::model {
namespace {

// How many checkpoints are remembered, and how many places that differ between them for each row of
// the table, at most: beyond that reading all rows is as fast.
constexpr size_t kMaxPast = 8;
constexpr size_t kRowsPerChanged = 4;
// More places than one in so many are not read one by one.
constexpr size_t kRowsPerPlace = 32;

// Identifies a file independent of its links.
absl::StatusOr<std::string> IdentityOf(const checkpoint::RowFiles::File& file, uint64_t* bytes) {
  struct stat found {};
  if (stat(file.path.c_str(), &found) != 0) return env::SystemError(errno, "stat", file.path);
  *bytes += static_cast<uint64_t>(found.st_size);
  return absl::StrCat(found.st_dev, ".", found.st_ino, ".", found.st_mtim.tv_sec, ".",
                      found.st_mtim.tv_nsec, ".", file.bytes, ".", file.crc32);
}

// Of the whole file and its deltas. Each row is in one of them, so that their bytes bound the
// memory that a manifest can ask for.
absl::StatusOr<std::vector<std::string>> IdentitiesOf(const TableFiles& files,
                                                      const TableFiles::Shard& shard) {
  std::vector<std::string> names;
  uint64_t bytes = 0;
  ASSIGN_OR_RETURN(names.emplace_back(), IdentityOf(shard.whole, &bytes));
  for (const checkpoint::RowFiles::File& delta : shard.deltas) {
    ASSIGN_OR_RETURN(names.emplace_back(), IdentityOf(delta, &bytes));
  }
  const uint64_t most = bytes / std::max<size_t>(1, files.layout.row_bytes);
  if (shard.places < 0 || static_cast<uint64_t>(shard.places) > most) {
    return absl::DataLossError(absl::StrCat(shard.whole.path, ": wanted ", shard.places,
                                            " rows of table '", files.name, "', its files of ",
                                            bytes, " bytes have at most ", most));
  }
  return names;
}

bool BeginsWith(const std::vector<std::string>& all, const std::vector<std::string>& first) {
  return !first.empty() && first.size() <= all.size() &&
         std::equal(first.begin(), first.end(), all.begin());
}

bool SameLayout(const TableLayout& a, const TableLayout& b) {
  return a.row_bytes == b.row_bytes && a.hash == b.hash && a.interleaved == b.interleaved &&
         a.mix.has_value() == b.mix.has_value() && (a.hash || a.begins == b.begins);
}

absl::Status Verify(const checkpoint::RowFiles::File& file) {
  if (!file.has_crc32) return absl::OkStatus();
  ASSIGN_OR_RETURN(const checkpoint::SafetensorsReader reader,
                   checkpoint::SafetensorsReader::Open(file.path));
  return reader.Verify(file.bytes, file.crc32);
}

// Puts those rows of a block into the draft that were not `seen` before.
absl::Status PutRows(const TableFiles& files, size_t shard, const RowBlock& block,
                     std::vector<bool>* seen, TableDraft* draft) {
  const char* row = block.rows.data();
  for (size_t i = 0; i < block.places.size(); ++i, row += files.layout.row_bytes) {
    const int64_t place = block.places[i];
    if (seen != nullptr) {
      if ((*seen)[static_cast<size_t>(place)]) continue;
      (*seen)[static_cast<size_t>(place)] = true;
    }
    if (files.layout.hash && block.counts[i] <= 0) {
      draft->Clear(shard, place);
      continue;
    }
    RETURN_IF_ERROR(draft->Put(shard, place, row, files.layout.hash ? block.ids[i] : 0));
  }
  return absl::OkStatus();
}

}  // namespace

bool CheckpointTables::Fits(const Table& table, const TableFiles& files) {
  if (table.layout == nullptr || table.tensor != files.tensor || table.dtype != files.dtype ||
      table.shards.size() != files.shards.size() || !SameLayout(*table.layout, files.layout)) {
    return false;
  }
  if (files.layout.hash || table.newest == nullptr) return true;
  for (size_t s = 0; s < files.shards.size(); ++s) {
    if (table.newest->slots(s).size() != files.shards[s].places) return false;
  }
  return true;
}

CheckpointTables::Table CheckpointTables::StartAnew(const TableFiles& files) {
  int64_t rows = 0;
  for (const TableFiles::Shard& shard : files.shards) rows += shard.places;
  Table table;
  table.tensor = files.tensor;
  table.dtype = files.dtype;
  table.layout = std::make_shared<const TableLayout>(files.layout);
  table.memory = std::make_shared<RowSlots>(SlotBytes(files.layout), rows);
  table.shards.resize(files.shards.size());
  memories_.erase(std::remove_if(memories_.begin(), memories_.end(),
                                 [](const auto& memory) { return memory.expired(); }),
                  memories_.end());
  memories_.push_back(table.memory);
  return table;
}

std::optional<CheckpointTables::Changes> CheckpointTables::ChangesOf(
    const Shard& shard, const std::vector<std::string>& files) {
  if (BeginsWith(files, shard.files)) return Changes{shard.files.size() - 1, {}};
  Changes changes;
  for (auto past = shard.past.rbegin(); past != shard.past.rend(); ++past) {
    changes.places.insert(changes.places.end(), past->changed.begin(), past->changed.end());
    if (!BeginsWith(files, past->files)) continue;
    changes.first_delta = past->files.size() - 1;
    return changes;
  }
  return std::nullopt;
}

absl::Status CheckpointTables::ReadAll(const TableFiles& files, size_t shard, const Shard& known,
                                       const std::vector<std::string>& names, TableDraft* draft) {
  std::vector<checkpoint::RowFiles::File> all = files.shards[shard].deltas;
  all.insert(all.begin(), files.shards[shard].whole);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto has = [&](const std::vector<std::string>& some) {
      return std::find(some.begin(), some.end(), names[i]) != some.end();
    };
    bytes_read_ += all[i].bytes;
    if (has(known.files) || std::any_of(known.past.begin(), known.past.end(),
                                        [&](const Past& past) { return has(past.files); })) {
      continue;
    }
    RETURN_IF_ERROR(Verify(all[i]));
  }
  return ReadAllRows(files, shard, [&](const RowBlock& block) {
    return PutRows(files, shard, block, nullptr, draft);
  });
}

absl::Status CheckpointTables::ReadShard(const TableFiles& files, size_t shard, const Shard& known,
                                         const std::vector<std::string>& names, TableDraft* draft) {
  const TableFiles::Shard& of = files.shards[shard];
  draft->Resize(shard, of.places);
  std::optional<Changes> changes = ChangesOf(known, names);
  if (!changes) return ReadAll(files, shard, known, names, draft);
  const auto take_unseen = [&](std::vector<bool>* seen) {
    return [&files, shard, seen, draft](const RowBlock& block) {
      return PutRows(files, shard, block, seen, draft);
    };
  };
  std::vector<bool> seen(static_cast<size_t>(of.places));
  // The last delta that has a row is right.
  for (size_t delta = of.deltas.size(); delta > changes->first_delta; --delta) {
    bytes_read_ += of.deltas[delta - 1].bytes;
    RETURN_IF_ERROR(ReadDeltaRows(files, shard, delta - 1, take_unseen(&seen)));
  }
  std::vector<int64_t> others;
  std::sort(changes->places.begin(), changes->places.end());
  for (const int64_t place : changes->places) {
    const bool there = place < of.places && !seen[static_cast<size_t>(place)];
    if (there && (others.empty() || others.back() != place)) others.push_back(place);
  }
  if (others.size() * kRowsPerPlace > seen.size()) {
    return ReadAllRows(files, shard, take_unseen(&seen));
  }
  return ReadPlaces(files, shard, others, take_unseen(&seen));
}

void CheckpointTables::MoveOn(std::vector<std::string> files, std::vector<int64_t> changed,
                              int64_t places, Shard* shard) {
  if (!shard->files.empty() && shard->files != files) {
    shard->past.push_back({std::move(shard->files), std::move(changed)});
  }
  shard->files = std::move(files);
  size_t all = 0;
  for (const Past& past : shard->past) all += past.changed.size();
  while (!shard->past.empty() &&
         (shard->past.size() > kMaxPast || all * kRowsPerChanged > static_cast<size_t>(places))) {
    all -= shard->past.front().changed.size();
    shard->past.pop_front();
  }
}

absl::StatusOr<std::shared_ptr<const TableVersion>> CheckpointTables::Load(
    const TableFiles& files) {
  std::vector<std::vector<std::string>> names;
  for (const TableFiles::Shard& shard : files.shards) {
    ASSIGN_OR_RETURN(names.emplace_back(), IdentitiesOf(files, shard));
  }
  absl::MutexLock lock(&mutex_);
  Table& known = tables_[files.name];
  Table anew;
  const bool fits = Fits(known, files);
  if (!fits) anew = StartAnew(files);
  Table& table = fits ? known : anew;
  bool same = table.newest != nullptr;
  for (size_t s = 0; s < names.size(); ++s) same = same && table.shards[s].files == names[s];
  if (same) return table.newest;
  TableDraft draft(table.memory, table.layout, table.newest, files.shards.size(), map_bytes_);
  for (size_t s = 0; s < names.size(); ++s) {
    RETURN_IF_ERROR(ReadShard(files, s, table.shards[s], names[s], &draft));
  }
  ASSIGN_OR_RETURN(auto version, draft.Finish(files.path));
  for (size_t s = 0; s < names.size(); ++s) {
    MoveOn(std::move(names[s]), draft.TakeChanged(s), files.shards[s].places, &table.shards[s]);
  }
  table.newest = version;
  if (!fits) known = std::move(anew);
  return version;
}

uint64_t CheckpointTables::bytes_read() const {
  absl::MutexLock lock(&mutex_);
  return bytes_read_;
}

int64_t CheckpointTables::bytes_held() const {
  absl::MutexLock lock(&mutex_);
  int64_t bytes = map_bytes_->bytes();
  for (const auto& memory : memories_) {
    if (const auto held = memory.lock()) bytes += held->bytes();
  }
  return bytes;
}

}  // namespace coxswain::model
