#include "coordinator/model/saved_hash.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/slot_rows.h"
#include "coordinator/api/variable_info.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::model {
namespace {

constexpr int64_t kChunkBytes = 8 << 20;
constexpr char kIds[] = "ids";

int64_t ChunkRows(const VariableInfo& info) {
  const int64_t row_bytes = info.row_elements() * static_cast<int64_t>(SizeOf(info.value_dtype()));
  // All parts of as many rows have to fit into one reply, whichever is the widest.
  constexpr int64_t kFewestBytes = sizeof(cluster::RowUse);
  return std::max<int64_t>(1, kChunkBytes / std::max(kFewestBytes, row_bytes));
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

// The parts of the rows at the next places of a shard, each into its file, and before them the ids
// into theirs. Returns the ids; `place` moves on.
absl::StatusOr<Tensor> CollectSome(ParameterServerStrategy* strategy, const VariableInfo& info,
                                   const std::vector<PartToSave>& parts, int shard, int64_t* place,
                                   const std::vector<std::unique_ptr<env::WritableFile>>& out) {
  Tensor ids;
  int64_t next = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    ASSIGN_OR_RETURN(const ParameterServerStrategy::IdsAndRows read,
                     ReadSlotOfIds(*strategy, info, shard, *place, ChunkRows(info), parts[p].slot));
    if (p == 0) {
      ids = read.ids;
      next = read.next;
      RETURN_IF_ERROR(out.back()->Append(ids.raw(), ids.bytes()));
    } else if (read.ids.bytes() != ids.bytes() ||
               (ids.bytes() > 0 && std::memcmp(read.ids.raw(), ids.raw(), ids.bytes()) != 0)) {
      return absl::AbortedError(
          absl::StrCat("table '", info.name, "' was changed while it was being saved"));
    }
    RETURN_IF_ERROR(out[p]->Append(read.rows.raw(), read.rows.bytes()));
  }
  *place = next;
  return ids;
}

// Of all shards. Returns how many ids there are.
absl::StatusOr<int64_t> Collect(ParameterServerStrategy* strategy, const VariableInfo& info,
                                const std::vector<PartToSave>& parts,
                                const std::vector<std::unique_ptr<env::WritableFile>>& out) {
  int64_t count = 0;
  for (int shard = 0; shard < static_cast<int>(info.shards.size()); ++shard) {
    int64_t place = 0;
    do {
      ASSIGN_OR_RETURN(const Tensor ids, CollectSome(strategy, info, parts, shard, &place, out));
      count += ids.dim(0);
    } while (place > 0);
  }
  return count;
}

}  // namespace

bool EvictsRows(const proto::HashTableSpec& spec) {
  return spec.ttl_steps() > 0 || spec.ttl_seconds() > 0 || spec.max_rows() > 0;
}

absl::StatusOr<std::unique_ptr<checkpoint::SafetensorsWriter>> WriteHashTable(
    ParameterServerStrategy* strategy, const VariableInfo& info,
    const std::vector<PartToSave>& parts, env::FileSystem* files, const std::string& path) {
  std::vector<std::string> paths;  // of the parts, and then the ids
  for (const PartToSave& part : parts) paths.push_back(absl::StrCat(path, ".", part.tensor));
  paths.push_back(absl::StrCat(path, ".", kIds));
  std::vector<std::unique_ptr<env::WritableFile>> collected;
  for (const std::string& file : paths) {
    ASSIGN_OR_RETURN(collected.emplace_back(), files->Create(file));
  }
  ASSIGN_OR_RETURN(const int64_t count, Collect(strategy, info, parts, collected));
  for (const auto& file : collected) RETURN_IF_ERROR(file->Close());
  std::vector<checkpoint::SafetensorsEntry> entries = {{kIds, DType::kI64, Shape{count}}};
  for (const PartToSave& part : parts) {
    entries.push_back({part.tensor, part.dtype, part.ShapeOf(info, count)});
  }
  ASSIGN_OR_RETURN(auto out, checkpoint::SafetensorsWriter::Create(files, path, entries,
                                                                   {{"variable", info.name}}));
  RETURN_IF_ERROR(CopyFile(paths.back(), out.get()));
  for (size_t p = 0; p < parts.size(); ++p) RETURN_IF_ERROR(CopyFile(paths[p], out.get()));
  RETURN_IF_ERROR(out->Finish());
  for (const std::string& file : paths) RETURN_IF_ERROR(files->RemoveAll(file));
  return out;
}

}  // namespace coxswain::model
