#include "coordinator/model/table_files.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/safetensors_reader.h"

namespace coxswain::model {
namespace {

// Parts of a hash table's shard, see ps_server/shard_parts.h.
constexpr char kIds[] = "id", kCounts[] = "count";
constexpr size_t kBlockBytes = 4 << 20;

int64_t BlockRows(const TableFiles& files) {
  const size_t row = std::max<size_t>(1, files.layout.row_bytes);
  return std::max<int64_t>(1, static_cast<int64_t>(kBlockBytes / row));
}

void Resize(const TableFiles& files, size_t rows, RowBlock* block) {
  block->places.resize(rows);
  block->rows.resize(rows * files.layout.row_bytes);
  if (!files.layout.hash) return;
  block->ids.resize(rows);
  block->counts.resize(rows);
}

// Calls `read` for each tensor of the block: name, bytes of a row, where to.
absl::Status ReadTensors(const TableFiles& files, RowBlock* block,
                         absl::FunctionRef<absl::Status(const std::string&, size_t, char*)> read) {
  RETURN_IF_ERROR(read(files.tensor, files.layout.row_bytes, block->rows.data()));
  if (!files.layout.hash) return absl::OkStatus();
  RETURN_IF_ERROR(read(kIds, sizeof(int64_t), reinterpret_cast<char*>(block->ids.data())));
  return read(kCounts, sizeof(int32_t), reinterpret_cast<char*>(block->counts.data()));
}

// Rows [begin, begin + n).
absl::Status ReadRange(const TableFiles& files, size_t shard, int64_t begin, int64_t n,
                       RowBlock* block) {
  Resize(files, static_cast<size_t>(n), block);
  std::iota(block->places.begin(), block->places.end(), begin);
  return ReadTensors(files, block, [&](const std::string& tensor, size_t width, char* to) {
    return files.shards[shard].rows->Read(tensor, width, begin, n, to);
  });
}

absl::Status CheckTensor(const checkpoint::SafetensorsReader& file, const std::string& name,
                         DType dtype, const Shape& shape) {
  const checkpoint::SafetensorsEntry* const found = file.Find(name);
  if (found != nullptr && found->dtype == dtype && found->shape == shape) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      file.path(), ": wanted tensor '", name, "' as ", DTypeName(dtype), shape.ToString(),
      ", found ",
      found == nullptr ? "none" : absl::StrCat(DTypeName(found->dtype), found->shape.ToString())));
}

}  // namespace

absl::Status ReadAllRows(const TableFiles& files, size_t shard, TakeBlock take) {
  const int64_t places = files.shards[shard].places;
  RowBlock block;
  for (int64_t begin = 0; begin < places; begin += BlockRows(files)) {
    const int64_t n = std::min(BlockRows(files), places - begin);
    RETURN_IF_ERROR(ReadRange(files, shard, begin, n, &block));
    RETURN_IF_ERROR(take(block));
  }
  return absl::OkStatus();
}

absl::Status ReadDeltaRows(const TableFiles& files, size_t shard, size_t delta, TakeBlock take) {
  const checkpoint::RowFiles::File& of = files.shards[shard].deltas[delta];
  ASSIGN_OR_RETURN(const checkpoint::SafetensorsReader file,
                   checkpoint::SafetensorsReader::Open(of.path));
  if (of.has_crc32) RETURN_IF_ERROR(file.Verify(of.bytes, of.crc32));
  RETURN_IF_ERROR(CheckTensor(file, checkpoint::kDeltaRows, DType::kI64, Shape{of.rows}));
  RETURN_IF_ERROR(CheckTensor(file, files.tensor, files.dtype, Shape{of.rows, files.row_elements}));
  if (files.layout.hash) {
    RETURN_IF_ERROR(CheckTensor(file, kIds, DType::kI64, Shape{of.rows}));
    RETURN_IF_ERROR(CheckTensor(file, kCounts, DType::kI32, Shape{of.rows}));
  }
  RowBlock block;
  int64_t from = 0;  // places before it are behind
  for (int64_t begin = 0; begin < of.rows; begin += BlockRows(files)) {
    const int64_t n = std::min(BlockRows(files), of.rows - begin);
    Resize(files, static_cast<size_t>(n), &block);
    const auto at = static_cast<uint64_t>(begin);
    RETURN_IF_ERROR(file.Read(checkpoint::kDeltaRows, at * sizeof(int64_t), block.places.data(),
                              block.places.size() * sizeof(int64_t)));
    RETURN_IF_ERROR(
        checkpoint::CheckDeltaRows(of.path, block.places, from, files.shards[shard].places));
    from = block.places.back() + 1;
    RETURN_IF_ERROR(
        ReadTensors(files, &block, [&](const std::string& tensor, size_t width, char* to) {
          return file.Read(tensor, at * width, to, static_cast<size_t>(n) * width);
        }));
    RETURN_IF_ERROR(take(block));
  }
  return absl::OkStatus();
}

absl::Status ReadPlaces(const TableFiles& files, size_t shard, absl::Span<const int64_t> places,
                        TakeBlock take) {
  RowBlock block;
  for (size_t i = 0; i < places.size();) {
    size_t end = i + 1;
    const auto most = static_cast<size_t>(BlockRows(files));
    while (end < places.size() && places[end] == places[end - 1] + 1 && end - i < most) ++end;
    RETURN_IF_ERROR(ReadRange(files, shard, places[i], static_cast<int64_t>(end - i), &block));
    RETURN_IF_ERROR(take(block));
    i = end;
  }
  return absl::OkStatus();
}

}  // namespace coxswain::model
