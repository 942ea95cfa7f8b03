#include "ps_server/shard_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/graph/graph.h"

namespace coxswain {
namespace {

absl::Status Lost(const proto::SavedShard& saved, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(saved.file(), ": ", what));
}

std::string Describe(const SafetensorsEntry& entry) {
  return absl::StrCat("'", entry.name, "' ", TensorType{entry.dtype, entry.shape}.ToString());
}

absl::Status CheckContent(const proto::SavedShard& saved, const Buffer& content) {
  if (content.size() != saved.bytes()) {
    return Lost(saved, absl::StrCat("wanted ", saved.bytes(), " bytes, found ", content.size()));
  }
  const uint32_t crc = Crc32(0, content.data(), content.size());
  if (crc == saved.crc32()) return absl::OkStatus();
  return Lost(saved, absl::StrFormat("it was altered: wanted checksum %08x, found %08x",
                                     saved.crc32(), crc));
}

std::optional<proto::HashTableState> HashOf(const proto::SavedShard& saved) {
  return saved.has_hash() ? std::optional(saved.hash()) : std::nullopt;
}

absl::Status CheckEntries(const proto::SavedShard& saved, const Shard& shard,
                          const std::vector<SafetensorsEntry>& found) {
  const std::vector<SafetensorsEntry> wanted = ShardFileEntries(shard, HashOf(saved));
  if (found.size() != wanted.size()) {
    return Lost(saved, absl::StrCat("wanted ", wanted.size(), " tensors, found ", found.size()));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (found[i].name != wanted[i].name || found[i].dtype != wanted[i].dtype ||
        found[i].shape != wanted[i].shape) {
      return Lost(saved, absl::StrCat("wanted tensor ", Describe(wanted[i]), ", found ",
                                      Describe(found[i])));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string ShardFileName(ShardId id) { return absl::StrFormat("shard-%05u.safetensors", id); }

std::vector<SafetensorsEntry> ShardFileEntries(const Shard& shard,
                                               const std::optional<proto::HashTableState>& hash) {
  std::vector<SafetensorsEntry> entries;
  for (int p = 0; p < shard.parts(); ++p) {
    const ShardPart& part = shard.part(p);
    entries.push_back({part.name, part.dtype, part.WholeShape(shard.layout())});
  }
  if (hash) {
    for (int i = 0; i < 3; ++i) {
      entries.push_back(
          {HashRows::kWaitingNames[i], i == 0 ? DType::kI64 : DType::kI32, Shape{hash->waiting()}});
    }
  }
  return entries;
}

std::map<std::string, std::string> ShardFileMetadata(const proto::ShardSpec& spec) {
  return {{"variable", spec.variable().name()},
          {"shard_index", absl::StrCat(spec.index())},
          {"shard_count", absl::StrCat(spec.count())},
          {"strategy", spec.strategy().empty() ? "div" : spec.strategy()},
          {"row_begin", absl::StrCat(spec.row_begin())}};
}

absl::StatusOr<LoadedShard> LoadShard(FileSystem* files, const proto::SavedShard& saved) {
  const auto mapped = files->Map(saved.file());
  if (absl::IsNotFound(mapped.status())) return mapped.status();
  // Not the job's end: an older checkpoint may be readable.
  if (!mapped.ok()) return absl::DataLossError(mapped.status().message());
  const Buffer content = *mapped;
  RETURN_IF_ERROR(CheckContent(saved, content));
  ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Parse(content, saved.file()));
  LoadedShard loaded;
  absl::StatusOr<std::unique_ptr<Shard>> shard = Shard::Create(saved.shard(), Shard::Fill::kZeros);
  if (!shard.ok()) return Annotate(shard.status(), saved.file());
  loaded.shard = *std::move(shard);
  if (saved.has_hash() != (loaded.shard->hash() != nullptr)) {
    return Lost(saved,
                "what a hash table is beside its rows: wanted of hash tables, and of no other");
  }
  if (saved.has_hash()) {
    const absl::Status prepared = loaded.shard->PrepareRestore(saved.hash());
    if (!prepared.ok()) return Annotate(prepared, saved.file());
  }
  RETURN_IF_ERROR(CheckEntries(saved, *loaded.shard, file.entries()));
  const ShardLayout& layout = loaded.shard->layout();
  for (int p = 0; p < loaded.shard->parts(); ++p) {
    const ShardPart& part = loaded.shard->part(p);
    ASSIGN_OR_RETURN(const Tensor read, file.Read(part.name));
    // The same bytes as a list of rows, which a scalar's are not.
    const Tensor rows(read.dtype(), part.RowsShape(layout, layout.rows()), read.buffer());
    RETURN_IF_ERROR(loaded.shard->WriteRows(0, rows, p));
  }
  if (saved.has_hash()) {
    std::vector<Tensor> waiting;
    for (const char* name : HashRows::kWaitingNames) {
      ASSIGN_OR_RETURN(Tensor read, file.Read(name));
      waiting.push_back(std::move(read));
    }
    const absl::Status finished = loaded.shard->FinishRestore(saved.hash(), waiting);
    if (!finished.ok()) return Lost(saved, finished.message());
  }
  const absl::Status counted =
      loaded.shard->RestoreCounters(saved.applied(), saved.gradient_steps());
  if (!counted.ok()) return Lost(saved, counted.message());
  absl::StatusOr<Ledger> ledger = Ledger::Parse(saved.ledger());
  if (!ledger.ok()) return Lost(saved, ledger.status().message());
  loaded.ledger = *std::move(ledger);
  loaded.pulled = static_cast<int64_t>(saved.rows_pulled());
  loaded.pushed = static_cast<int64_t>(saved.rows_pushed());
  return loaded;
}

}  // namespace coxswain
