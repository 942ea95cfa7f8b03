// Rows read and written by hand, whole or in pieces that a request can carry.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "coordinator/api/read_as_one.h"
#include "coordinator/api/slot_rows.h"
#include "coordinator/api/strategy_state.h"
#include "coordinator/api/wait.h"
#include "coordinator/core/controller.h"
#include "kernels/op_util.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/tensor/limits.h"

namespace coxswain {
namespace {

// Most bytes of a shard in one request.
constexpr int64_t kChunkBytes = 8 << 20;

int64_t RowBytes(const VariableInfo& info) {
  Shape row = info.shape;
  if (row.rank() > 0) row.set_dim(0, 1);
  return std::max<int64_t>(1, row.num_elements() * static_cast<int64_t>(SizeOf(info.dtype)));
}

Tensor Widened(const Tensor& bf16) {
  Tensor wide(DType::kF32, bf16.shape());
  std::transform(bf16.values<BFloat16>().begin(), bf16.values<BFloat16>().end(),
                 wide.mutable_data<float>(), [](BFloat16 v) { return v.ToFloat(); });
  return wide;
}

int64_t ChunkRows(const VariableInfo& info) {
  return std::max<int64_t>(1, kChunkBytes / RowBytes(info));
}

int SlotOf(Values values) { return values == Values::kAverages ? cluster::kAverages : 0; }

absl::StatusOr<core::Controller::IdsRead> ReadPlaces(const Cluster& cluster,
                                                     const VariableInfo& info, int shard,
                                                     int64_t begin, int64_t count, Values values) {
  const ShardId id = info.shards[static_cast<size_t>(shard)].id();
  return WaitForValue<core::Controller::IdsRead>(
      [&](auto done) {
        cluster.controller()->ReadIds(id, begin, count, SlotOf(values), std::move(done));
      },
      RowsOf(cluster, info));
}

// A loop that asks for none would see none, and end.
absl::Status CheckReadsIds(const VariableInfo& info, int64_t count) {
  if (info.hash() && count > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      info.hash() ? absl::StrCat("table '", info.name, "': wanted one id or more, found ", count)
                  : absl::StrCat("variable '", info.name, "' is no hash table: wanted one to read ",
                                 "ids from"));
}

absl::Status NoWhole(const VariableInfo& info) {
  return absl::InvalidArgumentError(
      absl::StrCat("table '", info.name, "' is a hash table: it is read and written by ids"));
}

}  // namespace

absl::Status ParameterServerStrategy::State::CheckShard(const VariableInfo& info, int shard) const {
  RETURN_IF_ERROR(CheckOwner(info));
  const size_t shards = info.shards.size();
  if (shard >= 0 && static_cast<size_t>(shard) < shards) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("variable '", info.name, "': wanted a shard below ", shards, ", found ", shard));
}

absl::StatusOr<Tensor> ParameterServerStrategy::ReadShard(const VariableInfo& info, int shard,
                                                          int64_t begin, int64_t count,
                                                          Values values) {
  RETURN_IF_ERROR(state_->CheckShard(info, shard));
  const proto::ShardSpec& spec = info.shards[shard];
  return WaitForValue<Tensor>(
      [&](auto done) {
        state_->cluster.controller()->ReadRows(spec.id(), begin, count, SlotOf(values),
                                               std::move(done));
      },
      RowsOf(state_->cluster, info));
}

absl::Status ParameterServerStrategy::WriteShard(const VariableInfo& info, int shard, int64_t begin,
                                                 const Tensor& rows) {
  RETURN_IF_ERROR(state_->CheckShard(info, shard));
  const proto::ShardSpec& spec = info.shards[shard];
  return WaitForStatus(
      [&](auto done) {
        state_->cluster.controller()->WriteRows(spec.id(), begin, /*slot=*/0, rows,
                                                std::move(done));
      },
      RowsOf(state_->cluster, info));
}

absl::StatusOr<ParameterServerStrategy::IdsAndRows> ParameterServerStrategy::ReadIds(
    const VariableInfo& info, int shard, int64_t begin, int64_t count, Values values) {
  RETURN_IF_ERROR(state_->CheckShard(info, shard));
  RETURN_IF_ERROR(CheckReadsIds(info, count));
  ASSIGN_OR_RETURN(core::Controller::IdsRead read,
                   ReadPlaces(state_->cluster, info, shard, begin, count, values));
  return IdsAndRows{std::move(read.ids), std::move(read.rows), read.next};
}

absl::StatusOr<ParameterServerStrategy::IdsAndRows> ParameterServerStrategy::ReadIds(
    const EmbeddingTable& table, int64_t count, TableCursor* cursor, Values values) {
  cursor->shards = table.num_shards();
  if (cursor->done()) {
    return absl::OutOfRangeError(
        absl::StrCat("variable '", table.name(), "': all of its ids have been read"));
  }
  RETURN_IF_ERROR(state_->CheckShard(table.info(), cursor->shard));
  RETURN_IF_ERROR(CheckReadsIds(table.info(), count));
  ASSIGN_OR_RETURN(
      core::Controller::IdsRead read,
      ReadPlaces(state_->cluster, table.info(), cursor->shard, cursor->place, count, values));
  const uint64_t generation = read.generation.number();
  if (cursor->generation.value_or(generation) != generation) {
    return absl::AbortedError(absl::StrCat(
        "variable '", table.name(), "': shards went back to a checkpoint, or moved, since the ",
        "cursor's first ids were read; begin with another cursor"));
  }
  cursor->generation = generation;
  cursor->place = read.next;
  if (read.next == 0) ++cursor->shard;
  return IdsAndRows{std::move(read.ids), std::move(read.rows), read.next};
}

absl::Status ParameterServerStrategy::WriteIds(const VariableInfo& info, const Tensor& ids,
                                               const Tensor& rows) {
  RETURN_IF_ERROR(state_->CheckOwner(info));
  if (!info.hash() || ids.dtype() != DType::kI64 || ids.rank() != 1 || rows.rank() < 1 ||
      rows.dim(0) != ids.dim(0) || rows.num_elements() != ids.dim(0) * info.row_elements() ||
      rows.dtype() != info.dtype) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", info.name, "': wanted ids i64[n] and rows of a hash table ",
        DTypeName(info.dtype), info.shape.ToString(), ", found ", DTypeName(ids.dtype()),
        ids.shape().ToString(), " and ", DTypeName(rows.dtype()), rows.shape().ToString()));
  }
  return WriteSlotOfIds(*this, info, ids, rows, /*slot=*/0);
}

absl::Status ParameterServerStrategy::RemoveIds(const VariableInfo& info) {
  RETURN_IF_ERROR(state_->CheckOwner(info));
  if (!info.hash()) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", info.name, "' is no hash table: its rows stay"));
  }
  Shape none = info.shape;
  none.set_dim(0, 0);
  for (const proto::ShardSpec& shard : info.shards) {
    RETURN_IF_ERROR(WaitForStatus(
        [&](auto done) {
          state_->cluster.controller()->WriteIds(shard.id(), Tensor(DType::kI64, Shape{0}),
                                                 Tensor(info.dtype, none), /*replace=*/true,
                                                 std::move(done));
        },
        RowsOf(state_->cluster, info)));
  }
  return absl::OkStatus();
}

namespace {

absl::Status ReadInto(ParameterServerStrategy* strategy, const VariableInfo& info, Values values,
                      Tensor* value) {
  const size_t row_bytes = static_cast<size_t>(RowBytes(info));
  const int64_t chunk = ChunkRows(info);
  char* out = static_cast<char*>(value->mutable_raw());
  for (size_t s = 0; s < info.shards.size(); ++s) {
    const proto::ShardSpec& shard = info.shards[s];
    for (int64_t begin = 0; begin < shard.rows(); begin += chunk) {
      const int64_t count = std::min(chunk, shard.rows() - begin);
      ASSIGN_OR_RETURN(Tensor rows,
                       strategy->ReadShard(info, static_cast<int>(s), begin, count, values));
      if (rows.bytes() != row_bytes * static_cast<size_t>(count)) {
        return absl::InternalError(absl::StrCat("variable '", info.name, "': a PS sent ",
                                                rows.bytes(), " bytes for ", count, " rows"));
      }
      const char* in = static_cast<const char*>(rows.raw());
      for (int64_t r = 0; r < count; ++r) {
        std::memcpy(
            out + row_bytes * static_cast<size_t>(info.GlobalRow(static_cast<int>(s), begin + r)),
            in + row_bytes * static_cast<size_t>(r), row_bytes);
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ReadAll(ParameterServerStrategy* strategy, const VariableInfo& info,
                               Values values) {
  RETURN_IF_ERROR(CheckStrategy(info, strategy->number()));
  if (info.hash()) return NoWhole(info);
  ASSIGN_OR_RETURN(Tensor value, AllocateTensor(info.dtype, info.shape));
  const auto read = [&] { return ReadInto(strategy, info, values, &value); };
  const bool at_once = info.shards.size() == 1 && info.shards[0].rows() <= ChunkRows(info);
  RETURN_IF_ERROR(
      at_once ? read()
              : ReadAsOne(strategy->cluster(), absl::StrCat("variable '", info.name, "'"), read));
  return info.dtype == DType::kBF16 ? Widened(value) : value;
}

absl::Status WriteAll(ParameterServerStrategy* strategy, const VariableInfo& info,
                      const Tensor& value) {
  RETURN_IF_ERROR(CheckStrategy(info, strategy->number()));
  if (info.hash()) return NoWhole(info);
  const bool known = value.dtype() == info.dtype || value.dtype() == info.value_dtype();
  if (!known || value.shape() != info.shape) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", info.name, "': wanted ", DTypeName(info.value_dtype()), info.shape.ToString(),
        ", found ", DTypeName(value.dtype()), value.shape().ToString()));
  }
  const size_t row_bytes = static_cast<size_t>(info.row_elements()) * SizeOf(value.dtype());
  const int64_t chunk = ChunkRows(info);
  const char* in = static_cast<const char*>(value.raw());
  for (size_t s = 0; s < info.shards.size(); ++s) {
    const proto::ShardSpec& shard = info.shards[s];
    for (int64_t begin = 0; begin < shard.rows(); begin += chunk) {
      const int64_t count = std::min(chunk, shard.rows() - begin);
      Shape shape = info.shape;
      if (shape.rank() == 0) {
        shape = Shape{1};
      } else {
        shape.set_dim(0, count);
      }
      Tensor rows(value.dtype(), shape);
      for (int64_t r = 0; r < count; ++r) {
        std::memcpy(
            static_cast<char*>(rows.mutable_raw()) + row_bytes * static_cast<size_t>(r),
            in + row_bytes * static_cast<size_t>(info.GlobalRow(static_cast<int>(s), begin + r)),
            row_bytes);
      }
      RETURN_IF_ERROR(strategy->WriteShard(info, static_cast<int>(s), begin, rows));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> ParameterServerStrategy::Read(const Variable& v, Values values) {
  return ReadAll(this, v.info(), values);
}
absl::StatusOr<Tensor> ParameterServerStrategy::Read(const EmbeddingTable& t, Values values) {
  return ReadAll(this, t.info(), values);
}
absl::Status ParameterServerStrategy::Assign(const Variable& v, const Tensor& value) {
  return WriteAll(this, v.info(), value);
}
absl::Status ParameterServerStrategy::Assign(const EmbeddingTable& t, const Tensor& value) {
  return WriteAll(this, t.info(), value);
}

}  // namespace coxswain
