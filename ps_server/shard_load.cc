// Reading a shard back: its file, then the deltas to it.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ps_server/shard_file.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/delta_files.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/graph/graph.h"
#include "runtime/tensor/within_memory.h"

namespace coxswain::ps {
namespace {

constexpr size_t kWrittenAtOnce = size_t{4} << 20;  // bytes of rows, with all their parts

absl::Status Lost(const std::string& file, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(file, ": ", what));
}

std::string Describe(const checkpoint::SafetensorsEntry& entry) {
  return absl::StrCat("'", entry.name, "' ", TensorType{entry.dtype, entry.shape}.ToString());
}

absl::StatusOr<checkpoint::SafetensorsFile> OpenChecked(env::FileSystem* files,
                                                        const std::string& path, uint64_t bytes,
                                                        uint32_t crc32) {
  const auto mapped = files->Map(path);
  if (absl::IsNotFound(mapped.status())) return mapped.status();
  // The file may be whole: it is the task that cannot read it, and none of the older ones either.
  if (absl::IsPermissionDenied(mapped.status()) || absl::IsResourceExhausted(mapped.status())) {
    return mapped.status();
  }
  // Not the job's end: an older checkpoint may be readable.
  if (!mapped.ok()) return absl::DataLossError(mapped.status().message());
  const Buffer content = *mapped;
  if (content.size() != bytes) {
    return Lost(path, absl::StrCat("wanted ", bytes, " bytes, found ", content.size()));
  }
  const uint32_t crc = checkpoint::Crc32(0, content.data(), content.size());
  if (crc != crc32) {
    return Lost(path,
                absl::StrFormat("it was altered: wanted checksum %08x, found %08x", crc32, crc));
  }
  return checkpoint::SafetensorsFile::Parse(content, path);
}

absl::Status CheckEntries(const std::string& path,
                          const std::vector<checkpoint::SafetensorsEntry>& found,
                          const std::vector<checkpoint::SafetensorsEntry>& wanted) {
  if (found.size() != wanted.size()) {
    return Lost(path, absl::StrCat("wanted ", wanted.size(), " tensors, found ", found.size()));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (found[i].name != wanted[i].name || found[i].dtype != wanted[i].dtype ||
        found[i].shape != wanted[i].shape) {
      return Lost(path, absl::StrCat("wanted tensor ", Describe(wanted[i]), ", found ",
                                     Describe(found[i])));
    }
  }
  return absl::OkStatus();
}

// The length of a tensor of a file to which there are deltas: the shard may have grown since.
int64_t LengthOf(const checkpoint::SafetensorsFile& file, absl::string_view name, int64_t most) {
  for (const checkpoint::SafetensorsEntry& entry : file.entries()) {
    if (entry.name == name && entry.shape.rank() > 0) return std::min(entry.shape.dim(0), most);
  }
  return most;
}

class Loader {
 public:
  Loader(env::FileSystem* files, const proto::SavedShard& saved, Shard* shard)
      : files_(files), saved_(saved), shard_(shard) {}

  absl::Status LoadAll() {
    ASSIGN_OR_RETURN(checkpoint::SafetensorsFile last, LoadWhole());
    RETURN_IF_ERROR(LoadFetched(last));
    for (const proto::SavedDelta& delta : saved_.deltas()) {
      ASSIGN_OR_RETURN(last, LoadDelta(delta));
    }
    if (!saved_.has_hash()) return absl::OkStatus();
    std::vector<Tensor> waiting;
    for (const char* name : HashRows::kWaitingNames) {
      ASSIGN_OR_RETURN(Tensor read, last.Read(name));
      waiting.push_back(std::move(read));
    }
    const absl::Status finished = shard_->FinishRestore(saved_.hash(), waiting);
    const int deltas = saved_.deltas_size();
    return finished.ok() ? finished
                         : Lost(deltas == 0 ? saved_.file() : saved_.deltas(deltas - 1).file(),
                                finished.message());
  }

  FetchedNumbers TakeFetched() { return std::move(fetched_); }

 private:
  // How many ids wait: of the last file the state tells.
  std::optional<int64_t> Waiting(const checkpoint::SafetensorsFile& file, bool last) const {
    if (!saved_.has_hash()) return std::nullopt;
    if (last) return saved_.hash().waiting();
    return LengthOf(file, HashRows::kWaitingNames[0], int64_t{1} << 62);
  }

  // Rows by rows: their parts lie side by side, maybe on a disk.
  absl::Status WriteAll(const std::vector<Tensor>& parts, int64_t rows) {
    size_t row_bytes = 1;
    for (int p = 0; p < shard_->parts(); ++p) row_bytes += shard_->part(p).row_bytes();
    const auto most = std::max<int64_t>(1, static_cast<int64_t>(kWrittenAtOnce / row_bytes));
    for (int64_t begin = 0; begin < rows; begin += most) {
      const int64_t end = std::min(rows, begin + most);
      for (size_t p = 0; p < parts.size(); ++p) {
        RETURN_IF_ERROR(
            shard_->WriteRows(begin, parts[p].SliceRows(begin, end), static_cast<int>(p)));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<checkpoint::SafetensorsFile> LoadWhole() {
    ASSIGN_OR_RETURN(checkpoint::SafetensorsFile file,
                     OpenChecked(files_, saved_.file(), saved_.bytes(), saved_.crc32()));
    const ShardLayout& layout = shard_->layout();
    const bool last = saved_.deltas().empty();
    std::optional<int64_t> length;
    if (saved_.has_hash() && !last) length = LengthOf(file, kIdPart, layout.rows());
    RETURN_IF_ERROR(CheckEntries(saved_.file(), file.entries(),
                                 FileEntries(shard_->plan(), layout, length, Waiting(file, last))));
    const int64_t all = length.value_or(layout.rows());
    std::vector<Tensor> parts;
    for (int p = 0; p < shard_->parts(); ++p) {
      const ShardPart& part = shard_->part(p);
      ASSIGN_OR_RETURN(const Tensor read, file.Read(part.name));
      // The same bytes as a list of rows, which a scalar's are not.
      parts.emplace_back(read.dtype(), part.RowsShape(layout, all), read.buffer());
    }
    RETURN_IF_ERROR(WriteAll(parts, all));
    return file;
  }

  absl::Status LoadFetched(const checkpoint::SafetensorsFile& file) {
    const auto text = file.metadata().find(kFetchedMetadata);
    if (text == file.metadata().end() || shard_->table()) return absl::OkStatus();
    absl::StatusOr<FetchedNumbers> fetched = FetchedNumbers::Parse(text->second);
    if (!fetched.ok()) return Lost(saved_.file(), fetched.status().message());
    ASSIGN_OR_RETURN(const Tensor whole, shard_->Read());
    if (!fetched->AllHave(whole.bytes())) {
      return Lost(saved_.file(), absl::StrCat("fetched numbers: wanted ", whole.bytes(), " bytes"));
    }
    fetched_ = *std::move(fetched);
    return absl::OkStatus();
  }

  absl::StatusOr<checkpoint::SafetensorsFile> LoadDelta(const proto::SavedDelta& delta) {
    const std::string& path = delta.file();
    ASSIGN_OR_RETURN(checkpoint::SafetensorsFile file,
                     OpenChecked(files_, path, delta.bytes(), delta.crc32()));
    if (!shard_->table()) return Lost(path, "a delta to what is no table");
    const bool last = &delta == &saved_.deltas(saved_.deltas_size() - 1);
    const int64_t n = std::clamp<int64_t>(delta.rows(), 0, shard_->rows());
    RETURN_IF_ERROR(
        CheckEntries(path, file.entries(),
                     DeltaEntries(shard_->plan(), shard_->layout(), n, Waiting(file, last))));
    ASSIGN_OR_RETURN(const Tensor listed, file.Read(checkpoint::kDeltaRows));
    std::vector<int64_t> rows(static_cast<size_t>(n));  // tensors of a file may begin anywhere
    if (n > 0) std::memcpy(rows.data(), listed.raw(), listed.bytes());
    RETURN_IF_ERROR(checkpoint::CheckDeltaRows(path, rows, 0, shard_->rows()));
    for (int p = 0; p < shard_->parts(); ++p) {
      ASSIGN_OR_RETURN(const Tensor values, file.Read(shard_->part(p).name));
      RETURN_IF_ERROR(shard_->WriteRowsAt(rows, values, p));
    }
    return file;
  }

  env::FileSystem* const files_;
  const proto::SavedShard& saved_;
  Shard* const shard_;
  FetchedNumbers fetched_;
};

// A shortage of memory may be thrown.
absl::StatusOr<LoadedShard> Load(env::FileSystem* files, const proto::SavedShard& saved,
                                 RowDevices* devices) {
  LoadedShard loaded;
  absl::StatusOr<std::unique_ptr<Shard>> shard =
      Shard::Create(saved.shard(), Shard::Fill::kZeros, devices);
  if (!shard.ok()) return Annotate(shard.status(), saved.file());
  loaded.shard = *std::move(shard);
  if (saved.has_hash() != (loaded.shard->hash() != nullptr)) {
    return Lost(saved.file(),
                "what a hash table is beside its rows: wanted of hash tables, and of no other");
  }
  if (saved.has_hash()) {
    const absl::Status prepared = loaded.shard->PrepareRestore(saved.hash());
    if (!prepared.ok()) return Annotate(prepared, saved.file());
  }
  Loader loader(files, saved, loaded.shard.get());
  RETURN_IF_ERROR(loader.LoadAll());
  loaded.fetched = loader.TakeFetched();
  const absl::Status counted =
      loaded.shard->RestoreCounters(saved.applied(), saved.gradient_steps());
  if (!counted.ok()) return Lost(saved.file(), counted.message());
  absl::StatusOr<checkpoint::Ledger> ledger = checkpoint::Ledger::Parse(saved.ledger());
  if (!ledger.ok()) return Lost(saved.file(), ledger.status().message());
  loaded.ledger = *std::move(ledger);
  loaded.pulled = static_cast<int64_t>(saved.rows_pulled());
  loaded.pushed = static_cast<int64_t>(saved.rows_pushed());
  return loaded;
}

}  // namespace

absl::StatusOr<LoadedShard> LoadShard(env::FileSystem* files, const proto::SavedShard& saved,
                                      RowDevices* devices) {
  return WithinMemory([&] { return Load(files, saved, devices); });
}

}  // namespace coxswain::ps
