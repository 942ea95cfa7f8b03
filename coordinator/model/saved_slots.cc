#include "coordinator/model/saved_slots.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "coordinator/api/slot_rows.h"
#include "coordinator/model/saved_hash.h"
#include "coordinator/model/saved_reader.h"
#include "kernels/optimizers/optimizer_info.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/cluster/control.h"

namespace coxswain::model {
namespace {

constexpr int64_t kChunkBytes = 8 << 20;

// Streams a part of a variable's rows, in the variable's order, independent of its shards; with
// sharding "hash", in the order of the rows' places, see runtime/base/row_mix.h.
absl::Status WriteRows(ParameterServerStrategy* strategy, const VariableInfo& info,
                       const PartToSave& part, checkpoint::SafetensorsWriter* out) {
  const int64_t row_elements =
      part.per_row || info.rows() == 0 ? 1 : info.shape.num_elements() / info.rows();
  const size_t row_bytes = static_cast<size_t>(row_elements) * SizeOf(part.dtype);
  const int64_t chunk =
      std::max<int64_t>(1, kChunkBytes / static_cast<int64_t>(std::max<size_t>(1, row_bytes)));
  const int64_t shards = static_cast<int64_t>(info.shards.size());
  const auto read = [&](int64_t shard, int64_t begin, int64_t count) {
    return ReadSlot(*strategy, info, static_cast<int>(shard), begin, count, part.slot);
  };
  if (info.strategy == "div") {
    for (int64_t s = 0; s < shards; ++s) {
      const int64_t rows = info.shards[static_cast<size_t>(s)].rows();
      for (int64_t begin = 0; begin < rows; begin += chunk) {
        ASSIGN_OR_RETURN(const Tensor some, read(s, begin, std::min(chunk, rows - begin)));
        RETURN_IF_ERROR(out->Append(some.raw(), some.bytes()));
      }
    }
    return absl::OkStatus();
  }
  // Row (or place) r is row r / shards of shard r % shards.
  std::string block;
  const int64_t longest = info.shards[0].rows();
  for (int64_t begin = 0; begin < longest; begin += chunk) {
    std::vector<Tensor> parts;
    int64_t total = 0;
    for (int64_t s = 0; s < shards; ++s) {
      const int64_t count = std::min(chunk, info.shards[static_cast<size_t>(s)].rows() - begin);
      if (count <= 0) {
        parts.emplace_back();
        continue;
      }
      ASSIGN_OR_RETURN(Tensor some, read(s, begin, count));
      total += count;
      parts.push_back(std::move(some));
    }
    block.resize(static_cast<size_t>(total) * row_bytes);
    for (int64_t i = 0; i < total; ++i) {
      const Tensor& some = parts[static_cast<size_t>(i % shards)];
      std::memcpy(
          block.data() + static_cast<size_t>(i) * row_bytes,
          static_cast<const char*>(some.raw()) + static_cast<size_t>(i / shards) * row_bytes,
          row_bytes);
    }
    RETURN_IF_ERROR(out->Append(block.data(), block.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<nlohmann::ordered_json> WriteParts(ParameterServerStrategy* strategy,
                                                  const VariableInfo& info,
                                                  const std::vector<PartToSave>& parts,
                                                  env::FileSystem* files, const std::string& path) {
  std::unique_ptr<checkpoint::SafetensorsWriter> out;
  if (info.hash()) {
    ASSIGN_OR_RETURN(out, WriteHashTable(strategy, info, parts, files, path));
  } else {
    std::vector<checkpoint::SafetensorsEntry> entries;
    for (const PartToSave& part : parts) {
      entries.push_back({part.tensor, part.dtype, part.ShapeOf(info, info.rows())});
    }
    ASSIGN_OR_RETURN(out, checkpoint::SafetensorsWriter::Create(files, path, entries,
                                                                {{"variable", info.name}}));
    for (const PartToSave& part : parts) {
      RETURN_IF_ERROR(WriteRows(strategy, info, part, out.get()));
    }
    RETURN_IF_ERROR(out->Finish());
  }
  return nlohmann::ordered_json{{"bytes", out->bytes()}, {"crc32", out->crc32()}};
}

}  // namespace

Shape PartToSave::ShapeOf(const VariableInfo& info, int64_t rows) const {
  if (per_row) return Shape{rows};
  if (width > 0) return Shape{rows, width};
  Shape shape = info.shape;
  if (shape.rank() > 0) shape.set_dim(0, rows);
  return shape;
}

absl::StatusOr<nlohmann::ordered_json> WriteValues(ParameterServerStrategy* strategy,
                                                   const VariableInfo& info, env::FileSystem* files,
                                                   const std::string& path) {
  std::vector<PartToSave> parts = {
      {info.hash() ? "rows" : "values", cluster::kAverages, info.dtype}};
  // Training that goes on from the model is to know which rows have not been used for long.
  if (info.hash() && EvictsRows(info.shards[0].variable().hash())) {
    parts.push_back({kUsesPart, cluster::kUses, DType::kI64, false, cluster::kUseNumbers});
  }
  return WriteParts(strategy, info, parts, files, path);
}

absl::StatusOr<nlohmann::ordered_json> WriteSlots(ParameterServerStrategy* strategy,
                                                  const VariableInfo& info, env::FileSystem* files,
                                                  const std::string& directory,
                                                  const std::string& file) {
  const std::string& kind = info.optimizer.kind();
  if (kind.empty()) return nlohmann::ordered_json();
  ASSIGN_OR_RETURN(const int64_t steps, ReadGradientSteps(*strategy, info));
  nlohmann::ordered_json slots = {{"optimizer", kind}, {"steps", steps}};
  std::vector<PartToSave> parts;
  if (strategy->ema_decay() > 0) {
    slots["weights"] = true;
    parts.push_back({kWeightsPart, 0, info.dtype});
  }
  int slot = 0;
  for (const kernels::SlotInfo& of : kernels::SlotsOfKind(kind)) {
    parts.push_back({of.name, ++slot, info.value_dtype(), of.per_row});
  }
  if (parts.empty()) return slots;
  RETURN_IF_ERROR(files->MakeDirs(absl::StrCat(directory, "/", kSlotsFolder)));
  ASSIGN_OR_RETURN(const nlohmann::ordered_json written,
                   WriteParts(strategy, info, parts, files, absl::StrCat(directory, "/", file)));
  slots["file"] = file;
  slots.update(written);
  return slots;
}

}  // namespace coxswain::model
