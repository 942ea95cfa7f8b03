#include "coordinator/model/copy_rows.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cpu/bf16.h"
#include "runtime/base/status.h"
#include "runtime/tensor/limits.h"

namespace coxswain::model {
namespace {

constexpr int64_t kChunkBytes = int64_t{8} << 20;
constexpr int64_t kSpanBytes = int64_t{64} << 20;

int64_t RowsIn(int64_t bytes, size_t row_bytes) {
  return std::max<int64_t>(1, bytes / static_cast<int64_t>(std::max<size_t>(1, row_bytes)));
}

absl::StatusOr<Tensor> ReadAll(const SavedRows& rows) {
  ASSIGN_OR_RETURN(Tensor value, AllocateTensor(rows.variable().dtype, rows.variable().shape));
  RETURN_IF_ERROR(rows.Read(0, rows.rows(), value.mutable_raw()));
  return value;
}

// Some ids with their rows; free places are left out.
struct IdBlock {
  std::vector<int64_t> ids;
  std::string values;

  absl::Status Read(const SavedRows& rows, int64_t begin, int64_t count) {
    const size_t width = rows.row_bytes();
    values.resize(static_cast<size_t>(count) * width);
    ids.resize(static_cast<size_t>(count));
    live.assign(static_cast<size_t>(count), 1);
    RETURN_IF_ERROR(rows.Read(begin, count, values.data()));
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

absl::Status CopyDense(const SavedRows& rows, const std::shared_ptr<const VariableInfo>& info,
                       ParameterServerStrategy* strategy) {
  ASSIGN_OR_RETURN(const Tensor value, ReadAll(rows));
  return strategy->Assign(Variable(info), value);
}

absl::StatusOr<int64_t> CopyIds(const SavedRows& rows, const VariableInfo& info,
                                ParameterServerStrategy* strategy) {
  const int64_t chunk = RowsIn(kChunkBytes, rows.row_bytes());
  IdBlock block;
  int64_t taken = 0;
  for (int64_t begin = 0; begin < rows.rows(); begin += chunk) {
    RETURN_IF_ERROR(block.Read(rows, begin, std::min(chunk, rows.rows() - begin)));
    const auto n = static_cast<int64_t>(block.ids.size());
    if (n == 0) continue;
    Shape shape = info.shape;
    shape.set_dim(0, n);
    Tensor ids(DType::kI64, Shape{n}), values(info.dtype, shape);
    std::memcpy(ids.mutable_raw(), block.ids.data(), ids.bytes());
    if (rows.variable().dtype == info.dtype) {
      std::memcpy(values.mutable_raw(), block.values.data(), values.bytes());
    } else {  // averages, of rows that are stored in bf16
      kernels::ToBf16(reinterpret_cast<const float*>(block.values.data()), values.num_elements(),
                      values.mutable_data<BFloat16>());
    }
    RETURN_IF_ERROR(strategy->WriteIds(info, ids, values));
    taken += n;
  }
  return taken;
}

absl::Status WriteSpan(const VariableInfo& info, int64_t begin, int64_t end, DType dtype,
                       const char* rows, ParameterServerStrategy* strategy) {
  const size_t row_bytes = static_cast<size_t>(info.row_elements()) * SizeOf(dtype);
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
      Shape shape = info.shape;
      shape.set_dim(0, count);
      Tensor part(dtype, shape);
      auto* out = static_cast<char*>(part.mutable_raw());
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = info.GlobalRow(static_cast<int>(s), from + i) - begin;
        std::memcpy(out + static_cast<size_t>(i) * row_bytes,
                    rows + static_cast<size_t>(row) * row_bytes, row_bytes);
      }
      RETURN_IF_ERROR(strategy->WriteShard(info, static_cast<int>(s), from, part));
    }
  }
  return absl::OkStatus();
}

absl::Status CopyFirstRows(const SavedRows& rows, const VariableInfo& info, int64_t count,
                           ParameterServerStrategy* strategy) {
  if (rows.row_bytes() == 0) return absl::OkStatus();
  const int64_t span = RowsIn(kSpanBytes, rows.row_bytes());
  std::string buffer;
  for (int64_t begin = 0; begin < count; begin += span) {
    const int64_t end = std::min(count, begin + span);
    buffer.resize(static_cast<size_t>(end - begin) * rows.row_bytes());
    RETURN_IF_ERROR(rows.Read(begin, end - begin, buffer.data()));
    RETURN_IF_ERROR(WriteSpan(info, begin, end, rows.variable().dtype, buffer.data(), strategy));
  }
  return absl::OkStatus();
}

absl::Status CopyTable(const SavedRows& rows, const std::shared_ptr<const VariableInfo>& info,
                       ParameterServerStrategy* strategy) {
  if (info->strategy != "hash") return CopyFirstRows(rows, *info, rows.rows(), strategy);
  // Neighbours lie on different shards, at places apart.
  ASSIGN_OR_RETURN(const Tensor value, ReadAll(rows));
  return strategy->Assign(EmbeddingTable(info), value);
}

}  // namespace coxswain::model
