// Reading and writing a shard's rows.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ps_server/row_copy.h"
#include "ps_server/shard.h"
#include "ps_server/table_file.h"
#include "runtime/base/id_hash.h"
#include "runtime/base/status.h"

namespace coxswain::ps {
namespace {

// Bytes of rows in a file that are asked for together.
constexpr int64_t kReadAhead = int64_t{4} << 20;

}  // namespace

Tensor Shard::Stored(const Tensor& values, DType dtype) {
  if (dtype != DType::kBF16 || values.dtype() != DType::kF32 || values.device() != Device{}) {
    return values;
  }
  Tensor stored(DType::kBF16, values.shape());
  WriteBf16Rows(static_cast<char*>(stored.mutable_raw()), 0, values.num_elements(), 1,
                values.data<float>());
  return stored;
}

absl::StatusOr<Tensor> Shard::Read() const {
  if (!table()) return dense_[0];
  if (hash_ != nullptr) {
    return Invalid("a hash table cannot be read whole: its ids have no end, look rows up by id");
  }
  if (layout_.dtype() != DType::kBF16) return ReadRows(0, rows());
  if (layout_.shape().num_elements() > kMaxReadBytes / static_cast<int64_t>(sizeof(float))) {
    return Invalid(absl::StrCat(rows(), " rows of ", layout_.row_elements(), " f32 are above ",
                                kMaxReadBytes, " bytes: read them in ranges"));
  }
  Tensor all(DType::kF32, layout_.shape());
  const PartPlace from = Place(0);
  GatherBf16Rows(from.data, from.stride, layout_.row_elements(), nullptr, rows(),
                 all.mutable_data<float>());
  return all;
}

absl::StatusOr<Tensor> Shard::ReadAverages() const {
  if (averages_ < 0) return Read();
  if (!table()) return dense_[static_cast<size_t>(averages_)];
  if (hash_ != nullptr) return Read();  // the error
  return ReadRows(0, rows(), averages_);
}

absl::StatusOr<Tensor> Shard::Gather(const Tensor& ids) const { return GatherPart(ids, 0); }

absl::StatusOr<Tensor> Shard::GatherAverages(const Tensor& ids) const {
  return GatherPart(ids, averages_ < 0 ? 0 : averages_);
}

absl::StatusOr<Tensor> Shard::GatherPart(const Tensor& ids, int part_index) const {
  RETURN_IF_ERROR(CheckIdTensor(ids));
  const int64_t n = ids.num_elements();
  const int64_t row_bytes =
      layout_.row_elements() * static_cast<int64_t>(SizeOf(layout_.value_dtype()));
  if (n > kMaxReadBytes / row_bytes) {
    return Invalid(absl::StrCat(n, " rows of ", row_bytes, " bytes in one gather are above ",
                                kMaxReadBytes, " bytes"));
  }
  if (gpu_ != nullptr) return GatherFromGpu(ids);
  Tensor rows(layout_.value_dtype(), layout_.RowsShape(n));
  if (hash_ != nullptr) {
    GatherIds(ids.values<int64_t>(), part_index, rows.mutable_data<float>());
    return rows;
  }
  const PartPlace from = Place(part_index);
  ReadAhead(memory_, plan_.row_stride, ids.data<int64_t>(), n);
  if (part(part_index).dtype == DType::kBF16) {
    GatherBf16Rows(from.data, from.stride, layout_.row_elements(), ids.data<int64_t>(), n,
                   rows.mutable_data<float>());
    return rows;
  }
  GatherRows(from.data, from.stride, part(part_index).row_bytes(), ids.data<int64_t>(), n,
             static_cast<char*>(rows.mutable_raw()));
  return rows;
}

absl::StatusOr<Tensor> Shard::ReadRows(int64_t begin, int64_t n, int part_index) const {
  RETURN_IF_ERROR(CheckRange(begin, n, part_index));
  const ShardPart& read = part(part_index);
  const size_t row_bytes = read.row_bytes();
  if (n > kMaxReadBytes / static_cast<int64_t>(row_bytes)) {
    return Invalid(absl::StrCat(n, " rows of ", row_bytes, " bytes are above ", kMaxReadBytes,
                                " bytes: read them in ranges"));
  }
  Tensor rows(read.dtype, read.RowsShape(layout_, n));
  if (OnGpu(part_index)) {
    RETURN_IF_ERROR(ReadFromGpu(begin, n, part_index, static_cast<char*>(rows.mutable_raw())));
    return rows;
  }
  const PartPlace from = Place(part_index);
  char* to = static_cast<char*>(rows.mutable_raw());
  const char* first = from.Row(begin);
  if (from.stride == row_bytes && !memory_.rows_in_file) {
    std::memcpy(to, first, static_cast<size_t>(n) * row_bytes);
    return rows;
  }
  const auto at_once = std::max<int64_t>(1, kReadAhead / static_cast<int64_t>(from.stride));
  for (int64_t r = 0; r < n; ++r, to += row_bytes, first += from.stride) {
    if (!read.side && r % at_once == 0) {
      ReadAhead(memory_, plan_.row_stride, begin + r, std::min(at_once, n - r));
    }
    std::memcpy(to, first, row_bytes);
  }
  return rows;
}

absl::Status Shard::WriteRows(int64_t begin, const Tensor& values, int part_index) {
  RETURN_IF_ERROR(CheckRange(0, 0, part_index));
  const Tensor rows = Stored(values, part(part_index).dtype);
  const int64_t n = rows.rank() >= 1 ? rows.dim(0) : 0;
  RETURN_IF_ERROR(CheckRange(begin, n, part_index));
  const ShardPart& written = part(part_index);
  RETURN_IF_ERROR(CheckValues(rows, written.dtype, written.RowsShape(layout_, n)));
  PrepareRange(begin, n);
  const size_t row_bytes = written.row_bytes();
  const char* from = static_cast<const char*>(rows.raw());
  if (OnGpu(part_index)) {
    std::vector<int64_t> list(static_cast<size_t>(n));
    std::iota(list.begin(), list.end(), begin);
    RETURN_IF_ERROR(gpu_->Write(list, written.offset, row_bytes, from));
    TouchRange(begin, n);
    return absl::OkStatus();
  }
  const PartPlace to = Place(part_index);
  for (int64_t r = begin; r < begin + n; ++r, from += row_bytes) {
    std::memcpy(to.Row(r), from, row_bytes);
  }
  if (part_index != touched_) TouchRange(begin, n);
  if (part_index == 0 && averages_ > 0) BeginAverages(Averaged(), nullptr, begin, n);
  return absl::OkStatus();
}

absl::Status Shard::WriteRowsAt(absl::Span<const int64_t> ids, const Tensor& rows, int part_index) {
  RETURN_IF_ERROR(CheckRange(0, 0, part_index));
  RETURN_IF_ERROR(CheckRows(ids));
  const int64_t n = static_cast<int64_t>(ids.size());
  const ShardPart& written = part(part_index);
  RETURN_IF_ERROR(CheckValues(rows, written.dtype, written.RowsShape(layout_, n)));
  PrepareChange(ids.data(), n);
  RETURN_IF_ERROR(WritePlaces(ids, part_index, static_cast<const char*>(rows.raw())));
  if (part_index != touched_) Touch(ids.data(), n);
  return absl::OkStatus();
}

absl::Status Shard::WritePlaces(absl::Span<const int64_t> rows, int part_index, const char* from) {
  if (OnGpu(part_index)) return WriteOnGpu(rows, part_index, from);
  const PartPlace to = Place(part_index);
  if (!part(part_index).side) {
    ReadAhead(memory_, plan_.row_stride, rows.data(), static_cast<int64_t>(rows.size()));
  }
  ScatterRows(to.data, to.stride, part(part_index).row_bytes(), rows.data(),
              static_cast<int64_t>(rows.size()), from);
  return absl::OkStatus();
}

absl::Status Shard::CheckIds(absl::Span<const int64_t> ids) const {
  if (hash_ != nullptr) {
    const int64_t index = spec_.index(), count = spec_.count();
    if (count == 1) return absl::OkStatus();
    const auto other = std::find_if(ids.begin(), ids.end(), [index, count](int64_t id) {
      return HashShard(id, count) != index;
    });
    if (other == ids.end()) return absl::OkStatus();
    return Invalid(absl::StrCat("id ", *other, " belongs to shard ", HashShard(*other, count),
                                " of ", count, ", this is ", index));
  }
  return CheckRows(ids);
}

absl::Status Shard::CheckRows(absl::Span<const int64_t> ids) const {
  const int64_t rows = layout_.rows();
  if (AllInRange(ids.data(), static_cast<int64_t>(ids.size()), rows)) return absl::OkStatus();
  const auto bad =
      std::find_if(ids.begin(), ids.end(), [rows](int64_t id) { return id < 0 || id >= rows; });
  return Invalid(absl::StrCat("row id ", *bad, " (the ", bad - ids.begin(), "th of ", ids.size(),
                              ", from 0) is not in [0, ", rows, ")"));
}

absl::Status Shard::CheckIdTensor(const Tensor& ids) const {
  if (ids.dtype() != DType::kI64 || ids.rank() != 1 || ids.device() != Device{}) {
    return Invalid(absl::StrCat("wanted row ids as i64[n] in host memory, got ",
                                DTypeName(ids.dtype()), ids.shape().ToString()));
  }
  return CheckIds(ids.values<int64_t>());
}

absl::Status Shard::CheckRange(int64_t begin, int64_t n, int part_index) const {
  if (part_index < 0 || part_index >= parts()) {
    return Invalid(absl::StrCat("has ", parts(), " parts, got part ", part_index));
  }
  if (begin < 0 || n < 0 || begin > rows() || n > rows() - begin) {
    return Invalid(absl::StrCat(n, " rows from row ", begin, " on are not within its ", rows()));
  }
  return absl::OkStatus();
}

absl::Status Shard::CheckValues(const Tensor& values, DType dtype, const Shape& wanted) const {
  if (values.dtype() == dtype && values.shape() == wanted && values.device() == Device{}) {
    return absl::OkStatus();
  }
  return Invalid(absl::StrCat("wanted ", DTypeName(dtype), wanted.ToString(),
                              " in host memory, got ", DTypeName(values.dtype()),
                              values.shape().ToString()));
}

}  // namespace coxswain::ps
