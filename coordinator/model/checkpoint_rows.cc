// Files; rows by position; a table of a checkpoint.
#include "coordinator/model/checkpoint_rows.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/model/saved_reader.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/env/system_error.h"
#include "runtime/tensor/limits.h"

namespace coxswain::model {
namespace {

constexpr char kWeights[] = "weights";  // see ps_server/shard_parts.h

// Identifies a file independent of its links.
absl::StatusOr<std::string> IdentityOf(const checkpoint::RowFiles::File& file) {
  struct stat found {};
  if (stat(file.path.c_str(), &found) != 0) return env::SystemError(errno, "stat", file.path);
  return absl::StrCat(found.st_dev, ".", found.st_ino, ".", found.st_mtim.tv_sec, ".",
                      found.st_mtim.tv_nsec, ".", file.bytes, ".", file.crc32);
}

absl::StatusOr<LoadedRows> ReadRows(const checkpoint::RowFiles::File& file, bool delta, DType dtype,
                                    const Shape& wanted) {
  ASSIGN_OR_RETURN(const checkpoint::SafetensorsReader reader,
                   checkpoint::SafetensorsReader::Open(file.path));
  if (file.has_crc32) RETURN_IF_ERROR(reader.Verify(file.bytes, file.crc32));
  const checkpoint::SafetensorsEntry* const entry = reader.Find(kWeights);
  Shape shape = wanted;
  if (entry != nullptr && entry->shape.rank() > 0 && shape.rank() > 0) {
    shape.set_dim(0, delta ? file.rows : entry->shape.dim(0));
  }
  if (entry == nullptr || entry->dtype != dtype || entry->shape != shape) {
    return absl::DataLossError(absl::StrCat(
        file.path, ": wanted tensor '", kWeights, "' as ", DTypeName(dtype), shape.ToString(),
        ", found ",
        entry == nullptr ? "none"
                         : absl::StrCat(DTypeName(entry->dtype), entry->shape.ToString())));
  }
  LoadedRows loaded;
  ASSIGN_OR_RETURN(loaded.values, AllocateTensor(dtype, shape));
  RETURN_IF_ERROR(reader.Read(kWeights, 0, loaded.values.mutable_raw(), loaded.values.bytes()));
  if (!delta) return loaded;
  const checkpoint::SafetensorsEntry* const rows = reader.Find(checkpoint::kDeltaRows);
  if (rows == nullptr || rows->dtype != DType::kI64 || rows->shape != Shape{file.rows}) {
    return absl::DataLossError(absl::StrCat(file.path, ": wanted a tensor '",
                                            checkpoint::kDeltaRows, "' of ", file.rows, " rows"));
  }
  loaded.rows.resize(static_cast<size_t>(file.rows));
  RETURN_IF_ERROR(reader.Read(checkpoint::kDeltaRows, 0, loaded.rows.data(),
                              loaded.rows.size() * sizeof(int64_t)));
  return loaded;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const LoadedRows>> CheckpointFiles::Load(
    const checkpoint::RowFiles::File& file, bool delta, DType dtype, const Shape& shape) {
  ASSIGN_OR_RETURN(const std::string identity, IdentityOf(file));
  {
    absl::MutexLock lock(&mutex_);
    const auto found = loaded_.find(identity);
    if (found != loaded_.end()) {
      if (auto rows = found->second.lock()) return rows;
    }
  }
  ASSIGN_OR_RETURN(LoadedRows read, ReadRows(file, delta, dtype, shape));
  auto rows = std::make_shared<const LoadedRows>(std::move(read));
  absl::MutexLock lock(&mutex_);
  bytes_read_ += file.bytes;
  // Files without users are dropped.
  for (auto it = loaded_.begin(); it != loaded_.end();) {
    it = it->second.expired() ? loaded_.erase(it) : std::next(it);
  }
  loaded_[identity] = rows;
  return rows;
}

uint64_t CheckpointFiles::bytes_read() const {
  absl::MutexLock lock(&mutex_);
  return bytes_read_;
}

CheckpointRows::CheckpointRows(std::vector<Shard> shards, size_t row_bytes, bool interleaved,
                               std::optional<RowMix> mix)
    : row_bytes_(row_bytes), interleaved_(interleaved), mix_(mix), zeros_(row_bytes, '\0') {
  for (Shard& shard : shards) {
    Placed& placed = shards_.emplace_back();
    const Shape& whole = shard.whole->values.shape();
    placed.rows = whole.rank() == 0 ? 1 : whole.dim(0);
    size_t changed = 0;
    for (const auto& delta : shard.deltas) changed = std::max(changed, delta->rows.size());
    placed.newer.reserve(changed);
    for (const auto& delta : shard.deltas) {
      const char* row = static_cast<const char*>(delta->values.raw());
      for (const int64_t at : delta->rows) {
        placed.newer[at] = row;
        row += row_bytes_;
      }
    }
    placed.shard = std::move(shard);
  }
}

const char* CheckpointRows::Row(int64_t position) const {
  const auto count = static_cast<int64_t>(shards_.size());
  int64_t shard = 0, row = position;
  if (interleaved_) {
    const int64_t place = mix_ ? mix_->Place(position) : position;
    shard = place % count;
    row = place / count;
  } else {
    if (mix_) row = mix_->Place(position);
    const auto next = std::upper_bound(
        shards_.begin(), shards_.end(), row,
        [](int64_t wanted, const Placed& placed) { return wanted < placed.shard.begin; });
    shard = std::max<int64_t>(0, next - shards_.begin() - 1);
    row -= shards_[static_cast<size_t>(shard)].shard.begin;
  }
  const Placed& placed = shards_[static_cast<size_t>(shard)];
  if (!placed.newer.empty()) {
    if (const auto it = placed.newer.find(row); it != placed.newer.end()) return it->second;
  }
  if (row >= placed.rows) return zeros_.data();
  return static_cast<const char*>(placed.shard.whole->values.raw()) +
         static_cast<size_t>(row) * row_bytes_;
}

int64_t CheckpointRows::changed() const {
  int64_t rows = 0;
  for (const Placed& placed : shards_) rows += static_cast<int64_t>(placed.newer.size());
  return rows;
}

absl::StatusOr<SavedTensors> SavedSource::LoadTable(const std::string& name,
                                                    CheckpointFiles* files) const {
  ASSIGN_OR_RETURN(const SavedRows rows, Open(name));  // holds the headers against the manifest
  SavedTensors saved;
  saved.variable = rows.variable();
  if (!checkpoint_ || !saved.variable.table) {
    return absl::InternalError(absl::StrCat("'", name, "' is no table of a checkpoint"));
  }
  size_t at = 0;
  while (variables_[at].name != name) ++at;
  std::vector<Piece> pieces = pieces_[at].pieces;
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.index < b.index; });
  std::vector<CheckpointRows::Shard> shards;
  for (size_t i = 0; i < pieces.size(); ++i) {
    CheckpointRows::Shard& shard = shards.emplace_back();
    shard.begin = rows.pieces_[i].begin;
    ASSIGN_OR_RETURN(shard.whole, files->Load(pieces[i].whole, false, saved.variable.dtype,
                                              saved.variable.shape));
    for (const checkpoint::RowFiles::File& delta : pieces[i].deltas) {
      ASSIGN_OR_RETURN(shard.deltas.emplace_back(),
                       files->Load(delta, true, saved.variable.dtype, saved.variable.shape));
      RETURN_IF_ERROR(checkpoint::CheckDeltaRows(delta.path, shard.deltas.back()->rows, 0,
                                                 rows.pieces_[i].rows));
    }
  }
  saved.rows = std::make_shared<const CheckpointRows>(std::move(shards), rows.row_bytes(),
                                                      rows.interleaved_, rows.mix_);
  if (!saved.variable.hash) return saved;
  ASSIGN_OR_RETURN(saved.ids, AllocateTensor(DType::kI64, Shape{rows.rows()}));
  RETURN_IF_ERROR(rows.ReadIds(0, rows.rows(), saved.ids.mutable_data<int64_t>()));
  saved.live.resize(static_cast<size_t>(rows.rows()));
  RETURN_IF_ERROR(rows.ReadLive(0, rows.rows(), saved.live.data()));
  return saved;
}

}  // namespace coxswain::model
