// Rows in the type in which they are stored; ids with their rows; spans of rows to the shards that
// have them; rows by a map, of which few lie elsewhere, or any.
#include "coordinator/model/copy_rows.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/slot_rows.h"
#include "kernels/cpu/bf16.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/tensor/limits.h"

namespace coxswain::model {
namespace {

constexpr int64_t kChunkBytes = int64_t{8} << 20;
constexpr int64_t kSpanBytes = int64_t{64} << 20;

int64_t RowsIn(int64_t bytes, size_t row_bytes) {
  return std::max<int64_t>(1, bytes / static_cast<int64_t>(std::max<size_t>(1, row_bytes)));
}

// How a part of a variable is stored.
DType StoredAs(const VariableInfo& info, const PartOfRows& part) {
  return part.slot == 0 ? info.dtype : info.value_dtype();
}

// Rows in the type in which they are to be stored: averages are wider than weights in bf16.
absl::Status ReadAs(const SavedRows& rows, DType dtype, int64_t begin, int64_t count, void* out) {
  if (rows.variable().dtype == dtype) return rows.Read(begin, count, out);
  if (dtype == DType::kF32) return rows.ReadFloats(begin, count, static_cast<float*>(out));
  if (dtype != DType::kBF16) {
    return absl::InternalError(absl::StrCat("variable '", rows.variable().name, "': rows in ",
                                            DTypeName(rows.variable().dtype), " for ",
                                            DTypeName(dtype)));
  }
  std::vector<float> wide(static_cast<size_t>(count * rows.row_elements()));
  RETURN_IF_ERROR(rows.ReadFloats(begin, count, wide.data()));
  kernels::ToBf16(wide.data(), static_cast<int64_t>(wide.size()), static_cast<BFloat16*>(out));
  return absl::OkStatus();
}

Shape ShapeOf(const VariableInfo& info, const PartOfRows& part, int64_t rows) {
  if (part.per_row || info.shape.rank() == 0) return Shape{rows};
  Shape shape = info.shape;
  shape.set_dim(0, rows);
  return shape;
}

size_t WidthOf(const VariableInfo& info, const PartOfRows& part, DType dtype) {
  return static_cast<size_t>(part.per_row ? 1 : info.row_elements()) * SizeOf(dtype);
}

// Some ids with their rows; free places are left out.
struct IdBlock {
  std::vector<int64_t> ids;
  std::string values;

  absl::Status Read(const SavedRows& rows, DType dtype, int64_t begin, int64_t count) {
    const size_t width = static_cast<size_t>(rows.row_elements()) * SizeOf(dtype);
    values.resize(static_cast<size_t>(count) * width);
    ids.resize(static_cast<size_t>(count));
    live.assign(static_cast<size_t>(count), 1);
    RETURN_IF_ERROR(ReadAs(rows, dtype, begin, count, values.data()));
    RETURN_IF_ERROR(rows.ReadIds(begin, count, ids.data()));
    if (rows.has_free_rows()) RETURN_IF_ERROR(rows.ReadLive(begin, count, live.data()));
    size_t kept = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (live[i] == 0) continue;
      ids[kept] = ids[i];
      std::memmove(values.data() + kept * width, values.data() + i * width, width);
      ++kept;
    }
    ids.resize(kept);
    values.resize(kept * width);
    return absl::OkStatus();
  }

 private:
  std::vector<char> live;
};

}  // namespace

int64_t RowMap::taken() const {
  return same + std::count_if(behind.begin(), behind.end(), [](int64_t row) { return row >= 0; });
}

absl::Status CopyDense(const SavedRows& rows, const std::shared_ptr<const VariableInfo>& info,
                       ParameterServerStrategy* strategy, const PartOfRows& part) {
  if (part.slot != 0) {
    RowMap all;
    all.same = info->rows();
    return CopyMapped(rows, *info, all, strategy, part);
  }
  ASSIGN_OR_RETURN(Tensor value, AllocateTensor(rows.variable().dtype, rows.variable().shape));
  RETURN_IF_ERROR(rows.Read(0, rows.rows(), value.mutable_raw()));
  return strategy->Assign(Variable(info), value);
}

absl::StatusOr<int64_t> CopyIds(const SavedRows& rows, const VariableInfo& info,
                                ParameterServerStrategy* strategy, const PartOfRows& part) {
  const DType dtype = StoredAs(info, part);
  const int64_t chunk = RowsIn(kChunkBytes, WidthOf(info, part, dtype));
  IdBlock block;
  int64_t taken = 0;
  for (int64_t begin = 0; begin < rows.rows(); begin += chunk) {
    RETURN_IF_ERROR(block.Read(rows, dtype, begin, std::min(chunk, rows.rows() - begin)));
    const auto n = static_cast<int64_t>(block.ids.size());
    if (n == 0) continue;
    Tensor ids(DType::kI64, Shape{n}), values(dtype, ShapeOf(info, part, n));
    std::memcpy(ids.mutable_raw(), block.ids.data(), ids.bytes());
    std::memcpy(values.mutable_raw(), block.values.data(), values.bytes());
    RETURN_IF_ERROR(WriteSlotOfIds(*strategy, info, ids, values, part.slot));
    taken += n;
  }
  return taken;
}

absl::Status CopyUses(const SavedRows& rows, const VariableInfo& info,
                      ParameterServerStrategy* strategy) {
  const int64_t chunk = RowsIn(kChunkBytes, sizeof(cluster::RowUse));
  std::vector<int64_t> ids;
  std::vector<cluster::RowUse> uses;
  std::vector<char> live;
  for (int64_t begin = 0; begin < rows.rows(); begin += chunk) {
    const int64_t count = std::min(chunk, rows.rows() - begin);
    ids.resize(static_cast<size_t>(count));
    uses.resize(static_cast<size_t>(count));
    live.assign(static_cast<size_t>(count), 1);
    RETURN_IF_ERROR(rows.ReadIds(begin, count, ids.data()));
    RETURN_IF_ERROR(rows.ReadUses(begin, count, uses.data()));
    if (rows.has_free_rows()) RETURN_IF_ERROR(rows.ReadLive(begin, count, live.data()));
    size_t kept = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (live[i] == 0) continue;
      ids[kept] = ids[i];
      uses[kept++] = uses[i];
    }
    if (kept == 0) continue;
    const auto n = static_cast<int64_t>(kept);
    Tensor of_ids(DType::kI64, Shape{n}), of_uses(DType::kI64, Shape{n, cluster::kUseNumbers});
    std::memcpy(of_ids.mutable_raw(), ids.data(), of_ids.bytes());
    std::memcpy(of_uses.mutable_raw(), uses.data(), of_uses.bytes());
    RETURN_IF_ERROR(WriteSlotOfIds(*strategy, info, of_ids, of_uses, cluster::kUses));
  }
  return absl::OkStatus();
}

absl::Status WriteSpan(const VariableInfo& info, int64_t begin, int64_t end, DType dtype,
                       const char* rows, ParameterServerStrategy* strategy,
                       const PartOfRows& part) {
  const size_t row_bytes = WidthOf(info, part, dtype);
  const bool div = info.strategy == "div";
  const auto shards = static_cast<int64_t>(info.shards.size());
  const int64_t most = RowsIn(kChunkBytes, row_bytes);
  for (int64_t s = 0; s < shards; ++s) {
    const proto::ShardSpec& shard = info.shards[static_cast<size_t>(s)];
    // Its rows whose number in the table is in the span.
    const auto local = [&](int64_t row) {
      const int64_t at = div ? row - shard.row_begin() : (row - s + shards - 1) / shards;
      return std::clamp<int64_t>(at, 0, shard.rows());
    };
    for (int64_t from = local(begin); from < local(end); from += most) {
      const int64_t count = std::min(most, local(end) - from);
      Tensor some(dtype, ShapeOf(info, part, count));
      auto* out = static_cast<char*>(some.mutable_raw());
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = info.GlobalRow(static_cast<int>(s), from + i) - begin;
        std::memcpy(out + static_cast<size_t>(i) * row_bytes,
                    rows + static_cast<size_t>(row) * row_bytes, row_bytes);
      }
      RETURN_IF_ERROR(WriteSlot(*strategy, info, static_cast<int>(s), from, some, part.slot));
    }
  }
  return absl::OkStatus();
}

namespace {

// The first `count` rows, which lie in the same order on both sides.
absl::Status CopyFirst(const SavedRows& rows, const VariableInfo& info, int64_t count,
                       ParameterServerStrategy* strategy, const PartOfRows& part) {
  const DType dtype = StoredAs(info, part);
  const size_t width = WidthOf(info, part, dtype);
  if (width == 0) return absl::OkStatus();
  const int64_t span = RowsIn(kSpanBytes, width);
  std::string buffer;
  for (int64_t begin = 0; begin < count; begin += span) {
    const int64_t end = std::min(count, begin + span);
    buffer.resize(static_cast<size_t>(end - begin) * width);
    RETURN_IF_ERROR(ReadAs(rows, dtype, begin, end - begin, buffer.data()));
    RETURN_IF_ERROR(WriteSpan(info, begin, end, dtype, buffer.data(), strategy, part));
  }
  return absl::OkStatus();
}

absl::Status CopyBehind(const SavedRows& rows, const VariableInfo& info, const RowMap& map,
                        ParameterServerStrategy* strategy, const PartOfRows& part) {
  const DType dtype = StoredAs(info, part);
  std::string row(WidthOf(info, part, dtype), '\0');
  for (size_t i = 0; i < map.behind.size(); ++i) {
    if (map.behind[i] < 0) continue;
    RETURN_IF_ERROR(ReadAs(rows, dtype, map.behind[i], 1, row.data()));
    const int64_t at = map.same + static_cast<int64_t>(i);
    RETURN_IF_ERROR(WriteSpan(info, at, at + 1, dtype, row.data(), strategy, part));
  }
  return absl::OkStatus();
}

// A part of a shard's rows as it is now. Averages of rows that nothing has trained are the weights.
absl::StatusOr<Tensor> ReadNow(const ParameterServerStrategy& strategy, const VariableInfo& info,
                               int shard, int64_t begin, int64_t n, int slot) {
  if (slot != cluster::kAverages) return ReadSlot(strategy, info, shard, begin, n, slot);
  ASSIGN_OR_RETURN(const Tensor weights, ReadSlot(strategy, info, shard, begin, n, 0));
  if (weights.dtype() != DType::kBF16) return weights;
  Tensor wide(DType::kF32, weights.shape());
  std::transform(weights.values<BFloat16>().begin(), weights.values<BFloat16>().end(),
                 wide.mutable_data<float>(), [](BFloat16 v) { return v.ToFloat(); });
  return wide;
}

absl::Status ReadOtherwise(const VariableInfo& info, const Tensor& read) {
  return absl::InternalError(absl::StrCat("variable '", info.name, "' was read as ",
                                          DTypeName(read.dtype()), read.shape().ToString()));
}

// What is saved is in memory: rows go anywhere.
absl::Status CopyAnywhere(const SavedRows& rows, const VariableInfo& info, const RowMap& map,
                          ParameterServerStrategy* strategy, const PartOfRows& part) {
  const DType dtype = StoredAs(info, part);
  const size_t width = WidthOf(info, part, dtype);
  if (width == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(Tensor saved, AllocateTensor(dtype, ShapeOf(info, part, rows.rows())));
  RETURN_IF_ERROR(ReadAs(rows, dtype, 0, rows.rows(), saved.mutable_raw()));
  const auto saved_row = [&](int64_t row) {
    return row < map.same ? row : map.behind[static_cast<size_t>(row - map.same)];
  };
  const int64_t chunk = RowsIn(kChunkBytes, width);
  for (int s = 0; s < static_cast<int>(info.shards.size()); ++s) {
    const int64_t count = info.shards[static_cast<size_t>(s)].rows();
    for (int64_t begin = 0; begin < count; begin += chunk) {
      const int64_t n = std::min(chunk, count - begin);
      ASSIGN_OR_RETURN(const Tensor now, ReadNow(*strategy, info, s, begin, n, part.slot));
      Tensor next(dtype, ShapeOf(info, part, n));
      if (now.dtype() != dtype || now.bytes() != next.bytes()) return ReadOtherwise(info, now);
      auto* const out = static_cast<char*>(next.mutable_raw());
      std::memcpy(out, now.raw(), now.bytes());
      for (int64_t i = 0; i < n; ++i) {
        const int64_t row = saved_row(info.GlobalRow(s, begin + i));
        if (row < 0) continue;
        std::memcpy(out + static_cast<size_t>(i) * width,
                    static_cast<const char*>(saved.raw()) + static_cast<size_t>(row) * width,
                    width);
      }
      RETURN_IF_ERROR(WriteSlot(*strategy, info, s, begin, next, part.slot));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CopyMapped(const SavedRows& rows, const VariableInfo& info, const RowMap& map,
                        ParameterServerStrategy* strategy, const PartOfRows& part) {
  constexpr int64_t kFew = 4096;
  // Of a table by "hash" neighbours lie on different shards, at places apart.
  if (info.strategy == "hash" || map.taken() - map.same > kFew) {
    return CopyAnywhere(rows, info, map, strategy, part);
  }
  RETURN_IF_ERROR(CopyFirst(rows, info, map.same, strategy, part));
  return CopyBehind(rows, info, map, strategy, part);
}

absl::Status CopyElements(const SavedRows& rows, const VariableInfo& info, const ElementMap& map,
                          ParameterServerStrategy* strategy, const PartOfRows& part) {
  const DType dtype = StoredAs(info, part);
  const size_t element = SizeOf(dtype), width = WidthOf(info, part, dtype);
  const size_t saved_width = static_cast<size_t>(rows.row_elements()) * element;
  const bool by_column = !map.columns.empty() && !part.per_row;
  std::string saved(static_cast<size_t>(rows.rows()) * saved_width, '\0');
  RETURN_IF_ERROR(ReadAs(rows, dtype, 0, rows.rows(), saved.data()));
  for (int s = 0; s < static_cast<int>(info.shards.size()); ++s) {
    const int64_t count = info.shards[static_cast<size_t>(s)].rows();
    ASSIGN_OR_RETURN(const Tensor now, ReadNow(*strategy, info, s, 0, count, part.slot));
    Tensor next(dtype, ShapeOf(info, part, count));
    if (now.dtype() != dtype || now.bytes() != next.bytes()) return ReadOtherwise(info, now);
    auto* out = static_cast<char*>(next.mutable_raw());
    std::memcpy(out, now.raw(), now.bytes());
    for (int64_t i = 0; i < count; ++i, out += width) {
      const int64_t row = map.rows[static_cast<size_t>(info.GlobalRow(s, i))];
      if (row < 0) continue;
      const char* const from = saved.data() + static_cast<size_t>(row) * saved_width;
      if (!by_column) std::memcpy(out, from, width);
      for (size_t c = 0; by_column && c < map.columns.size(); ++c) {
        if (map.columns[c] < 0) continue;
        std::memcpy(out + c * element, from + static_cast<size_t>(map.columns[c]) * element,
                    element);
      }
    }
    RETURN_IF_ERROR(WriteSlot(*strategy, info, s, 0, next, part.slot));
  }
  return absl::OkStatus();
}

absl::Status CopyTable(const SavedRows& rows, const std::shared_ptr<const VariableInfo>& info,
                       ParameterServerStrategy* strategy) {
  RowMap all;
  all.same = rows.rows();
  return CopyMapped(rows, *info, all, strategy);
}

}  // namespace coxswain::model
