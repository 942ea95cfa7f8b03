// Rows in memory: a model's file is mapped, a checkpoint's shards are put together.
#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/model/checkpoint_tables.h"
#include "coordinator/model/saved_reader.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/env/file_system.h"
#include "runtime/tensor/limits.h"

namespace coxswain::model {
namespace {

// The rows of a hash table whose places are in use, put together.
absl::Status DropFreeRows(const SavedRows& rows, SavedTensors* saved) {
  std::vector<char> live(static_cast<size_t>(rows.rows()));
  RETURN_IF_ERROR(rows.ReadLive(0, rows.rows(), live.data()));
  char* const values = static_cast<char*>(saved->values.mutable_raw());
  auto* const ids = saved->ids.mutable_data<int64_t>();
  int64_t used = 0;
  for (int64_t row = 0; row < rows.rows(); ++row) {
    if (live[static_cast<size_t>(row)] == 0) continue;
    ids[used] = ids[row];
    std::memmove(values + static_cast<size_t>(used) * rows.row_bytes(),
                 values + static_cast<size_t>(row) * rows.row_bytes(), rows.row_bytes());
    ++used;
  }
  saved->values = saved->values.SliceRows(0, used);
  saved->ids = saved->ids.SliceRows(0, used);
  saved->variable.shape.set_dim(0, used);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SavedTensors> SavedSource::Load(const std::string& name) const {
  ASSIGN_OR_RETURN(const SavedRows rows, Open(name));
  SavedTensors saved;
  saved.variable = rows.variable();
  if (!checkpoint_) {
    saved.mixed = rows.mix_.has_value();
    const auto files = env::NewRealFileSystem();
    ASSIGN_OR_RETURN(const checkpoint::SafetensorsFile file,
                     checkpoint::SafetensorsFile::Open(files.get(), rows.pieces_[0].files->path()));
    ASSIGN_OR_RETURN(saved.values, file.Read(rows.values_));
    if (saved.variable.hash) {
      ASSIGN_OR_RETURN(saved.ids, file.Read(rows.ids_));
    }
    return saved;
  }
  ASSIGN_OR_RETURN(saved.values, AllocateTensor(saved.variable.dtype, saved.variable.shape));
  RETURN_IF_ERROR(rows.Read(0, rows.rows(), saved.values.mutable_raw()));
  if (!saved.variable.hash) return saved;
  ASSIGN_OR_RETURN(saved.ids, AllocateTensor(DType::kI64, Shape{rows.rows()}));
  RETURN_IF_ERROR(rows.ReadIds(0, rows.rows(), saved.ids.mutable_data<int64_t>()));
  RETURN_IF_ERROR(DropFreeRows(rows, &saved));
  return saved;
}

absl::StatusOr<SavedTensors> SavedSource::LoadTable(const std::string& name,
                                                    CheckpointTables* tables) const {
  ASSIGN_OR_RETURN(const SavedRows rows, Open(name));  // holds the headers against the manifest
  SavedTensors saved;
  saved.variable = rows.variable();
  if (!checkpoint_ || !saved.variable.table) {
    return absl::InternalError(absl::StrCat("'", name, "' is no table of a checkpoint"));
  }
  std::vector<Piece> pieces = pieces_[IndexOf(name)].pieces;
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.index < b.index; });
  TableFiles files;
  files.name = name;
  files.path = path_;
  files.tensor = rows.values_;
  files.dtype = saved.variable.dtype;
  files.row_elements = rows.row_elements();
  files.layout.row_bytes = rows.row_bytes();
  files.layout.hash = saved.variable.hash;
  files.layout.interleaved = rows.interleaved_;
  files.layout.mix = rows.mix_;
  for (size_t i = 0; i < pieces.size(); ++i) {
    files.layout.begins.push_back(rows.pieces_[i].begin);
    files.shards.push_back(
        {rows.pieces_[i].files, pieces[i].whole, pieces[i].deltas, rows.pieces_[i].rows});
  }
  ASSIGN_OR_RETURN(saved.rows, tables->Load(files));
  return saved;
}

}  // namespace coxswain::model
