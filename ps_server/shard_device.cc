// What a shard with its rows in the memory of a GPU does differently: weights and slots are in a
// block there (device_rows.h), all else on the host.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ps_server/growing_storage.h"
#include "ps_server/shard.h"
#include "ps_server/table_file.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain::ps {
namespace {

// Of rows that are filled on the host and brought to the device together.
constexpr size_t kFillBytes = size_t{4} << 20;

// Of a hash table without a bound. One with a bound has its room at once: it is better to fail at
// the beginning than in the middle. Rows above the bound go after each update, so there are more
// for a moment.
constexpr size_t kFirstBytes = size_t{1} << 20;

int64_t FirstPlaces(const HashRows& hash, size_t stride) {
  if (hash.max_rows() > 0) return hash.max_rows() + hash.max_rows() / 8 + 1;
  return static_cast<int64_t>(kFirstBytes / stride) + 1;
}

// Where the longest beginning of the list ends in which no row comes twice.
size_t EndOfDistinct(absl::Span<const int64_t> rows) {
  absl::flat_hash_set<int64_t> seen;
  size_t end = 0;
  while (end < rows.size() && seen.insert(rows[end]).second) ++end;
  return end;
}

constexpr size_t kAhead = 16;  // rows whose mark is asked for in advance

struct Marked {
  int64_t changed = 0;  // rows that an update after `since` had touched
  bool again = false;   // a row was marked already
};

// Marks rows as touched by update `number`.
Marked Mark(const PartPlace& touched, absl::Span<const int64_t> rows, int64_t number,
            int64_t since) {
  int64_t changed = 0, again = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kAhead < rows.size()) __builtin_prefetch(touched.Row(rows[i + kAhead]), 1, 3);
    int64_t last;
    std::memcpy(&last, touched.Row(rows[i]), sizeof(last));
    changed += static_cast<int64_t>((last > since) & (last < number));
    again += static_cast<int64_t>(last == number);
    std::memcpy(touched.Row(rows[i]), &number, sizeof(number));
  }
  return {changed, again > 0};
}

}  // namespace

RowsIn Shard::WantedIn(const proto::ShardSpec& spec) {
  const std::string& device = spec.variable().device();
  if (device == kOnGpu) return RowsIn::kGpu;
  return device == kOnDisk ? RowsIn::kFile : RowsIn::kHost;
}

absl::Status Shard::CheckDevice() const {
  const std::string& wanted = spec_.variable().device();
  if (wanted.empty()) return absl::OkStatus();
  if (wanted == kOnGpu) return CheckForGpu();
  if (wanted == kOnDisk) return CheckForFile();
  return Invalid(
      absl::StrCat("device: wanted ", kOnGpu, ", ", kOnDisk, " or none, found ", wanted));
}

absl::Status Shard::CheckForFile() const {
  const auto refuse = [this](absl::string_view what) {
    return Invalid(absl::StrCat("rows on disk (device: disk): ", what));
  };
  if (!table()) return refuse("only of embedding tables");
  if (!optimizer_.none() && optimizer_.SparseMovesAllRows()) {
    return refuse(absl::StrCat("not with the optimizer ", optimizer_.name(),
                               ", which moves all rows with each update; lazy_adam moves those "
                               "that the update names"));
  }
  return CheckRowCount();
}

absl::Status Shard::AllocateInFile(const RowDevices* devices) {
  const std::string directory = devices == nullptr ? "" : devices->table_directory();
  if (directory.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        Invalid("").message(),
        " is to be on disk (device: disk), but this parameter server was not ",
        "told where: wanted --table-dir DIR, or COXSWAIN_TABLE_DIR=DIR in the environment"));
  }
  if (layout_.hashed()) return AllocateHash(RowsIn::kFile, directory);
  absl::StatusOr<TableFile> file = TableFile::Create(directory);
  if (!file.ok()) return Annotate(file.status(), Invalid("").message());
  const size_t bytes = static_cast<size_t>(rows()) * plan_.row_stride;
  auto storage = GrowingStorage::CreateInFile(bytes, *std::move(file));
  const absl::Status grown = storage.ok() ? storage->Grow(bytes) : storage.status();
  if (!grown.ok()) return Annotate(grown, Invalid("").message());
  memory_.rows = storage->range();
  memory_.rows_in_file = true;
  return AllocateSide();
}

absl::Status Shard::CheckForGpu() const {
  const auto refuse = [this](absl::string_view what) {
    return Invalid(absl::StrCat("rows in the memory of a GPU (device: gpu): ", what));
  };
  if (!table()) return refuse("only of embedding tables");
  if (layout_.dtype() != DType::kF32) {
    return refuse(absl::StrCat("wanted f32, found ", DTypeName(layout_.dtype())));
  }
  RETURN_IF_ERROR(CheckRowCount());
  if (optimizer_.none()) return absl::OkStatus();
  if (optimizer_.SparseMovesAllRows()) {
    return refuse(absl::StrCat("not with the optimizer ", optimizer_.name(),
                               ", which moves all rows with each update; lazy_adam moves those "
                               "that the update names"));
  }
  if (optimizer_.ema_decay() > 0) return refuse("not with averages of weights (ema_decay)");
  if (optimizer_.delay_compensation() > 0) return refuse("not with delay_compensation");
  return absl::OkStatus();
}

absl::Status Shard::AllocateOnGpu(RowDevices* devices) {
  if (layout_.hashed()) RETURN_IF_ERROR(AllocateHash(RowsIn::kGpu));
  DeviceRows::Plan plan;
  plan.rows = hash_ == nullptr ? rows() : FirstPlaces(*hash_, plan_.row_stride);
  plan.stride = plan_.row_stride;
  plan.width = layout_.row_elements();
  plan.optimizer = std::string(optimizer_.name());
  plan.who = std::string(Invalid("").message());
  if (devices == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        plan.who, " is to be in the memory of a GPU (device: gpu), but there is none here"));
  }
  ASSIGN_OR_RETURN(gpu_, devices->Make(std::move(plan)));
  if (layout_.hashed()) return absl::OkStatus();  // what is beside is there already
  return AllocateSide();
}

// Without an initializer weights are zeros. Slots begin with their initial values.
absl::Status Shard::FillOnGpu(const Initializer* initializer) {
  const size_t stride = plan_.row_stride, width = static_cast<size_t>(layout_.row_elements());
  const auto most = static_cast<int64_t>(RowsFilledAtOnce());
  std::vector<char> filled;
  std::vector<int64_t> list;
  for (int64_t begin = 0; begin < rows(); begin += most) {
    const int64_t n = std::min(most, rows() - begin);
    filled.assign(static_cast<size_t>(n) * stride, 0);
    list.resize(static_cast<size_t>(n));
    std::iota(list.begin(), list.end(), begin);
    for (int64_t r = 0; r < n; ++r) {
      float* const row = reinterpret_cast<float*>(filled.data() + static_cast<size_t>(r) * stride);
      if (initializer != nullptr) {
        initializer->FillRow(layout_.ToGlobal(begin + r), absl::MakeSpan(row, width));
      }
      FillSlots(row);
    }
    RETURN_IF_ERROR(gpu_->Write(list, 0, stride, filled.data()));
  }
  return absl::OkStatus();
}

void Shard::FillSlots(float* row) const {
  for (int p = 1; p <= optimizer_.slots(); ++p) {
    std::fill_n(row + part(p).offset / sizeof(float), part(p).width,
                static_cast<float>(part(p).initial));
  }
}

size_t Shard::RowsFilledAtOnce() const {
  return std::max<size_t>(1, kFillBytes / plan_.row_stride);
}

void Shard::BeginRowsOnGpu(const std::vector<HashRows::NewRow>& made) {
  const size_t stride = plan_.row_stride, width = static_cast<size_t>(layout_.row_elements());
  const size_t most = RowsFilledAtOnce();
  for (size_t begin = 0; begin < made.size(); begin += most) {
    const size_t n = std::min(most, made.size() - begin);
    std::fill_n(filled_.begin(), n * stride / sizeof(float), 0.0f);
    for (size_t i = 0; i < n; ++i) {
      const HashRows::NewRow& row = made[begin + i];
      float* const at = filled_.data() + i * stride / sizeof(float);
      hash_->Begin(row);
      FillInitial(row.id, absl::MakeSpan(at, width));
      FillSlots(at);
    }
    gpu_->Begin(absl::MakeConstSpan(made_places_).subspan(begin, n),
                reinterpret_cast<const char*>(filled_.data()));
  }
}

void Shard::SetLane(int lane) {
  if (gpu_ != nullptr) gpu_->SetLane(lane);
}

absl::StatusOr<Tensor> Shard::GatherOnDevice(const Tensor& ids, RowBatch* later) const {
  COX_CHECK(gpu_ != nullptr, "rows that are on the host are wanted on a device");
  RETURN_IF_ERROR(CheckIdTensor(ids));
  const absl::Span<const int64_t> list = ids.values<int64_t>();
  const Shape shape = layout_.RowsShape(ids.num_elements());
  if (hash_ == nullptr) {
    ASSIGN_OR_RETURN(const Tensor rows, gpu_->Gather(ids, {}, later));
    return rows.Reshaped(shape);
  }
  const size_t width = static_cast<size_t>(layout_.row_elements());
  FoundPlaces found = FindPlaces(list);
  std::vector<float> initial(found.missing.size() * width);
  for (size_t i = 0; i < found.missing.size(); ++i) {
    FillInitial(list[static_cast<size_t>(found.missing[i])],
                absl::MakeSpan(initial).subspan(i * width, width));
  }
  ASSIGN_OR_RETURN(
      const Tensor rows,
      gpu_->Gather(found.places, {std::move(found.missing), std::move(initial)}, later));
  return rows.Reshaped(shape);
}

absl::StatusOr<Tensor> Shard::GatherFromGpu(const Tensor& ids) const {
  const absl::Span<const int64_t> list = ids.values<int64_t>();
  const Shape shape = layout_.RowsShape(ids.num_elements());
  if (hash_ == nullptr) {
    ASSIGN_OR_RETURN(const Tensor rows, gpu_->GatherToHost(ids));
    return rows.Reshaped(shape);
  }
  const int64_t width = layout_.row_elements();
  const FoundPlaces found = FindPlaces(list);
  ASSIGN_OR_RETURN(Tensor rows, gpu_->GatherToHost(found.places));
  for (const int64_t i : found.missing) {
    FillInitial(list[static_cast<size_t>(i)],
                absl::MakeSpan(rows.mutable_data<float>() + i * width, static_cast<size_t>(width)));
  }
  return rows.Reshaped(shape);
}

absl::Status Shard::ReadFromGpu(int64_t begin, int64_t n, int part_index, char* to) const {
  std::vector<int64_t> list(static_cast<size_t>(n));
  std::iota(list.begin(), list.end(), begin);
  return gpu_->Read(list, part(part_index).offset, part(part_index).row_bytes(), to);
}

absl::Status Shard::WriteOnGpu(absl::Span<const int64_t> rows, int part_index, const char* from) {
  const ShardPart& written = part(part_index);
  while (!rows.empty()) {
    const size_t n = EndOfDistinct(rows);
    RETURN_IF_ERROR(gpu_->Write(rows.subspan(0, n), written.offset, written.row_bytes(), from));
    rows.remove_prefix(n);
    from += n * written.row_bytes();
  }
  return absl::OkStatus();
}

absl::Status Shard::CheckGpuUpdate(const graph::Update& update) const {
  if (update.kind != graph::Update::Kind::kSparse) {
    return Invalid(
        "its rows are in the memory of a GPU (device: gpu), where gradients of rows are the only "
        "updates");
  }
  RETURN_IF_ERROR(CheckIdTensor(update.ids));
  const Shape wanted = layout_.RowsShape(update.ids.num_elements());
  if (update.values.dtype() == DType::kF32 && update.values.shape() == wanted) {
    return absl::OkStatus();
  }
  return Invalid(absl::StrCat("wanted f32", wanted.ToString(), ", got ",
                              DTypeName(update.values.dtype()), update.values.shape().ToString()));
}

// A row that comes twice is updated twice, in order: the device updates rows at the same time, so
// those of one go must differ. Whether any comes twice is seen where they are marked as touched; it
// may also have been an earlier update of the segment.
int64_t Shard::ApplyOnGpu(const graph::Update& update, const Numbers& at) {
  const absl::Span<const int64_t> rows = update.ids.values<int64_t>();
  const Marked marked = Mark(Place(touched_), rows, applied_ + 1, applied_ - at.staleness);
  const std::vector<float> rule = optimizer_.RuleNumbers(at.t, at.staleness, update.rate);
  const size_t row_bytes = static_cast<size_t>(layout_.row_elements()) * sizeof(float);
  for (size_t begin = 0; begin < rows.size();) {
    const size_t left = rows.size() - begin;
    const size_t n = marked.again ? EndOfDistinct(rows.subspan(begin)) : left;
    const auto count = static_cast<int64_t>(n);
    const Tensor list(DType::kI64, Shape{count},
                      update.ids.buffer().Slice(begin * sizeof(int64_t), n * sizeof(int64_t)));
    const Tensor gradient(DType::kF32, Shape{count, layout_.row_elements()},
                          update.values.buffer().Slice(begin * row_bytes, n * row_bytes));
    gpu_->Apply(list, gradient, rule, at.later);
    begin += n;
  }
  return marked.changed;
}

}  // namespace coxswain::ps
