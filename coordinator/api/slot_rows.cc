#include "coordinator/api/slot_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/wait.h"
#include "coordinator/api/wait_reporter.h"
#include "coordinator/core/controller.h"
#include "runtime/base/id_hash.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"

namespace coxswain {
namespace {

// Most bytes of a shard in one request.
constexpr size_t kChunkBytes = size_t{8} << 20;

absl::Status CheckShard(const ParameterServerStrategy& strategy, const VariableInfo& info,
                        int shard) {
  RETURN_IF_ERROR(CheckStrategy(info, strategy.number()));
  const size_t shards = info.shards.size();
  if (shard >= 0 && static_cast<size_t>(shard) < shards) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("variable '", info.name, "': wanted a shard below ", shards, ", found ", shard));
}

size_t RowBytes(const Tensor& rows) {
  return rows.dim(0) == 0 ? 1
                          : std::max<size_t>(1, rows.bytes() / static_cast<size_t>(rows.dim(0)));
}

// Rows `at` of a tensor whose first dimension is rows.
Tensor Chosen(const Tensor& rows, const std::vector<int64_t>& at) {
  Shape shape = rows.shape();
  shape.set_dim(0, static_cast<int64_t>(at.size()));
  Tensor chosen(rows.dtype(), shape);
  const size_t row_bytes = RowBytes(rows);
  for (size_t i = 0; i < at.size(); ++i) {
    std::memcpy(static_cast<char*>(chosen.mutable_raw()) + i * row_bytes,
                static_cast<const char*>(rows.raw()) + static_cast<size_t>(at[i]) * row_bytes,
                row_bytes);
  }
  return chosen;
}

}  // namespace

StillWaiting RowsOf(const Cluster& cluster, const VariableInfo& info) {
  return WaitReporter(cluster).For(absl::StrCat("rows of '", info.name, "'"));
}

absl::StatusOr<Tensor> ReadSlot(const ParameterServerStrategy& strategy, const VariableInfo& info,
                                int shard, int64_t begin, int64_t count, int slot) {
  RETURN_IF_ERROR(CheckShard(strategy, info, shard));
  return WaitForValue<Tensor>(
      [&](auto done) {
        strategy.cluster().controller()->ReadRows(info.shards[static_cast<size_t>(shard)].id(),
                                                  begin, count, slot, std::move(done));
      },
      RowsOf(strategy.cluster(), info));
}

absl::Status WriteSlot(const ParameterServerStrategy& strategy, const VariableInfo& info, int shard,
                       int64_t begin, const Tensor& rows, int slot) {
  RETURN_IF_ERROR(CheckShard(strategy, info, shard));
  return WaitForStatus(
      [&](auto done) {
        strategy.cluster().controller()->WriteRows(info.shards[static_cast<size_t>(shard)].id(),
                                                   begin, slot, rows, std::move(done));
      },
      RowsOf(strategy.cluster(), info));
}

absl::StatusOr<ParameterServerStrategy::IdsAndRows> ReadSlotOfIds(
    const ParameterServerStrategy& strategy, const VariableInfo& info, int shard, int64_t begin,
    int64_t count, int slot) {
  RETURN_IF_ERROR(CheckShard(strategy, info, shard));
  ASSIGN_OR_RETURN(core::Controller::IdsRead read,
                   WaitForValue<core::Controller::IdsRead>(
                       [&](auto done) {
                         strategy.cluster().controller()->ReadIds(
                             info.shards[static_cast<size_t>(shard)].id(), begin, count, slot,
                             std::move(done));
                       },
                       RowsOf(strategy.cluster(), info)));
  return ParameterServerStrategy::IdsAndRows{std::move(read.ids), std::move(read.rows), read.next};
}

absl::Status WriteSlotOfIds(const ParameterServerStrategy& strategy, const VariableInfo& info,
                            const Tensor& ids, const Tensor& rows, int slot) {
  RETURN_IF_ERROR(CheckStrategy(info, strategy.number()));
  if (!info.hash() || ids.dtype() != DType::kI64 || ids.rank() != 1 || rows.rank() < 1 ||
      rows.dim(0) != ids.dim(0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", info.name, "': wanted ids i64[n] and rows of a hash table, found ",
        DTypeName(ids.dtype()), ids.shape().ToString(), " and ", DTypeName(rows.dtype()),
        rows.shape().ToString()));
  }
  const auto count = static_cast<int64_t>(info.shards.size());
  const size_t most = std::max<size_t>(1, kChunkBytes / RowBytes(rows));
  std::vector<std::vector<int64_t>> of_shard(info.shards.size());
  const auto flush = [&](size_t s) {
    std::vector<int64_t> at;
    at.swap(of_shard[s]);
    return WaitForStatus(
        [&](auto done) {
          strategy.cluster().controller()->WriteIds(info.shards[s].id(), Chosen(ids, at),
                                                    Chosen(rows, at), /*replace=*/false,
                                                    std::move(done), slot);
        },
        RowsOf(strategy.cluster(), info));
  };
  for (int64_t i = 0; i < ids.dim(0); ++i) {
    const auto s = static_cast<size_t>(HashShard(ids.data<int64_t>()[i], count));
    of_shard[s].push_back(i);
    if (of_shard[s].size() == most) RETURN_IF_ERROR(flush(s));
  }
  for (size_t s = 0; s < of_shard.size(); ++s) {
    if (!of_shard[s].empty()) RETURN_IF_ERROR(flush(s));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ReadGradientSteps(const ParameterServerStrategy& strategy,
                                          const VariableInfo& info) {
  int64_t most = 0;
  for (size_t s = 0; s < info.shards.size(); ++s) {
    ASSIGN_OR_RETURN(const Tensor steps,
                     ReadSlot(strategy, info, static_cast<int>(s), 0, 0, cluster::kGradientSteps));
    if (steps.dtype() != DType::kI64 || steps.num_elements() != 1) {
      return absl::InternalError(absl::StrCat("variable '", info.name, "': a PS sent ",
                                              DTypeName(steps.dtype()), steps.shape().ToString(),
                                              " as a number of updates"));
    }
    most = std::max(most, *steps.data<int64_t>());
  }
  return most;
}

}  // namespace coxswain
