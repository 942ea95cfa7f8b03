#include "coordinator/model/row_scan.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

constexpr int64_t kBlockBytes = 4 << 20;

// f32 values of rows as they are stored.
absl::Status ToFloats(const Tensor& rows, int64_t elements, std::vector<float>* out) {
  if (rows.num_elements() != elements) {
    return absl::InternalError(absl::StrCat("a parameter server sent ", rows.num_elements(),
                                            " numbers, wanted ", elements));
  }
  out->resize(static_cast<size_t>(elements));
  switch (rows.dtype()) {
    case DType::kF32:
      std::copy_n(rows.data<float>(), elements, out->begin());
      return absl::OkStatus();
    case DType::kBF16:
      for (int64_t i = 0; i < elements; ++i) {
        (*out)[static_cast<size_t>(i)] = rows.data<BFloat16>()[i].ToFloat();
      }
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("wanted rows of f32 or bf16, found ", DTypeName(rows.dtype())));
  }
}

// Moves the rows in use to the front, in their order; returns how many there are.
absl::StatusOr<int64_t> DropFree(const SavedRows& rows, int64_t begin, int64_t n, float* values,
                                 int64_t* ids) {
  if (!rows.has_free_rows()) return n;
  std::vector<char> live(static_cast<size_t>(n));
  RETURN_IF_ERROR(rows.ReadLive(begin, n, live.data()));
  const int64_t width = rows.row_elements();
  int64_t used = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!live[static_cast<size_t>(i)]) continue;
    if (used != i) std::copy_n(values + i * width, width, values + used * width);
    ids[used++] = ids[i];
  }
  return used;
}

}  // namespace

RowScan ScanTable(ParameterServerStrategy* strategy, const EmbeddingTable& table) {
  const auto run = [strategy, table](const TakeRows& take) -> absl::Status {
    const VariableInfo& info = table.info();
    const int64_t block =
        std::max<int64_t>(1, kBlockBytes / (std::max<int64_t>(1, table.dim()) * 4));
    std::vector<float> rows;
    std::vector<int64_t> ids;
    for (const proto::ShardSpec& shard : info.shards) {
      for (int64_t begin = 0; begin < shard.rows(); begin += block) {
        const int64_t n = std::min(block, shard.rows() - begin);
        ASSIGN_OR_RETURN(const Tensor stored,
                         strategy->ReadShard(info, shard.index(), begin, n, Values::kAverages));
        RETURN_IF_ERROR(ToFloats(stored, n * table.dim(), &rows));
        ids.clear();
        for (int64_t row = begin; row < begin + n; ++row) {
          ids.push_back(info.GlobalRow(shard.index(), row));
        }
        RETURN_IF_ERROR(take(rows.data(), ids.data(), n));
      }
    }
    return absl::OkStatus();
  };
  return {table.dim(), run};
}

RowScan ScanSaved(const SavedRows* rows) {
  const auto run = [rows](const TakeRows& take) -> absl::Status {
    const int64_t block = std::max<int64_t>(1, std::min(rows->block_rows(), rows->rows()));
    std::vector<float> values(static_cast<size_t>(block * rows->row_elements()));
    std::vector<int64_t> ids(static_cast<size_t>(block));
    for (int64_t begin = 0; begin < rows->rows(); begin += block) {
      const int64_t n = std::min(block, rows->rows() - begin);
      RETURN_IF_ERROR(rows->ReadFloats(begin, n, values.data()));
      RETURN_IF_ERROR(rows->ReadIds(begin, n, ids.data()));
      ASSIGN_OR_RETURN(const int64_t used, DropFree(*rows, begin, n, values.data(), ids.data()));
      RETURN_IF_ERROR(take(values.data(), ids.data(), used));
    }
    return absl::OkStatus();
  };
  return {rows->row_elements(), run};
}

}  // namespace coxswain::model
