#include "coordinator/model/saved_hash.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "runtime/base/status.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::model {
namespace {

constexpr int64_t kChunkBytes = 8 << 20;
constexpr char kIds[] = "ids";
constexpr char kRows[] = "rows";

int64_t RowBytes(const VariableInfo& info) {
  return info.row_elements() * static_cast<int64_t>(SizeOf(info.dtype));
}

int64_t ChunkRows(const VariableInfo& info) {
  return std::max<int64_t>(1, kChunkBytes / std::max<int64_t>(8, RowBytes(info)));
}

absl::Status CopyFile(const std::string& path, checkpoint::SafetensorsWriter* out) {
  ASSIGN_OR_RETURN(const auto file, env::RandomAccessFile::Open(path));
  std::string block;
  for (uint64_t at = 0; at < file->size(); at += block.size()) {
    block.resize(static_cast<size_t>(std::min<uint64_t>(kChunkBytes, file->size() - at)));
    RETURN_IF_ERROR(file->Read(at, block.data(), block.size()));
    RETURN_IF_ERROR(out->Append(block.data(), block.size()));
  }
  return absl::OkStatus();
}

// Ids and rows of all shards into files of their own. Returns how many.
absl::StatusOr<int64_t> Collect(ParameterServerStrategy* strategy, const VariableInfo& info,
                                env::WritableFile* ids, env::WritableFile* rows) {
  int64_t count = 0;
  for (int shard = 0; shard < static_cast<int>(info.shards.size()); ++shard) {
    int64_t place = 0;
    do {
      ASSIGN_OR_RETURN(const ParameterServerStrategy::IdsAndRows read,
                       strategy->ReadIds(info, shard, place, ChunkRows(info), Values::kAverages));
      RETURN_IF_ERROR(ids->Append(read.ids.raw(), read.ids.bytes()));
      RETURN_IF_ERROR(rows->Append(read.rows.raw(), read.rows.bytes()));
      count += read.ids.dim(0);
      place = read.next;
    } while (place > 0);
  }
  return count;
}

}  // namespace

absl::StatusOr<std::unique_ptr<checkpoint::SafetensorsWriter>> WriteHashTable(
    ParameterServerStrategy* strategy, const VariableInfo& info, env::FileSystem* files,
    const std::string& path) {
  const std::string ids_path = absl::StrCat(path, ".ids"), rows_path = absl::StrCat(path, ".rows");
  ASSIGN_OR_RETURN(auto ids, files->Create(ids_path));
  ASSIGN_OR_RETURN(auto rows, files->Create(rows_path));
  ASSIGN_OR_RETURN(const int64_t count, Collect(strategy, info, ids.get(), rows.get()));
  RETURN_IF_ERROR(ids->Close());
  RETURN_IF_ERROR(rows->Close());
  Shape shape = info.shape;
  shape.set_dim(0, count);
  ASSIGN_OR_RETURN(auto out,
                   checkpoint::SafetensorsWriter::Create(
                       files, path, {{kIds, DType::kI64, Shape{count}}, {kRows, info.dtype, shape}},
                       {{"variable", info.name}}));
  RETURN_IF_ERROR(CopyFile(ids_path, out.get()));
  RETURN_IF_ERROR(CopyFile(rows_path, out.get()));
  RETURN_IF_ERROR(out->Finish());
  RETURN_IF_ERROR(files->RemoveAll(ids_path));
  RETURN_IF_ERROR(files->RemoveAll(rows_path));
  return out;
}

}  // namespace coxswain::model
