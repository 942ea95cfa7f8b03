// What lies in a directory of checkpoints; see manifest.h.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"

namespace coxswain::checkpoint {
namespace {

constexpr char kPrefix[] = "checkpoint-";
constexpr char kUnfinished[] = ".tmp";
constexpr char kManifestFile[] = "manifest.json";

std::string Join(const std::string& directory, absl::string_view name) {
  return absl::StrCat(directory, directory.empty() || directory.back() == '/' ? "" : "/", name);
}

bool IsDirectory(env::FileSystem* files, const std::string& path) { return files->List(path).ok(); }

// Whether a shard's file is there and has its size. Errors: DataLoss.
absl::Status CheckSize(env::FileSystem* files, const std::string& path, const ShardFile& saved) {
  const std::string file = Join(path, saved.file);
  const auto size = files->Size(file);
  if (absl::IsNotFound(size.status())) {
    return absl::DataLossError(absl::StrCat(file, ": the file is missing"));
  }
  RETURN_IF_ERROR(size.status());
  if (*size == saved.bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(file, ": wanted ", saved.bytes, " bytes, found ", *size));
}

// Somebody else may remove it at the same time: what is gone needs no removing.
absl::Status UnlessGone(absl::Status status) {
  return absl::IsNotFound(status) ? absl::OkStatus() : std::move(status);
}

absl::Status RemoveDirectory(env::FileSystem* files, const std::string& path) {
  return UnlessGone(files->RemoveAll(path));
}

// Its files go under a name that says so: what an interruption leaves is no damaged checkpoint.
absl::Status Remove(env::FileSystem* files, const CheckpointEntry& entry) {
  const std::string leaving = absl::StrCat(entry.path, kUnfinished);
  RETURN_IF_ERROR(UnlessGone(files->Rename(entry.path, leaving)));
  return RemoveDirectory(files, leaving);
}

}  // namespace

std::string CheckpointName(uint64_t number) { return absl::StrFormat("%s%06d", kPrefix, number); }

std::optional<uint64_t> ParseCheckpointName(absl::string_view name) {
  absl::string_view digits = name;
  uint64_t number = 0;
  if (!absl::ConsumePrefix(&digits, kPrefix) || !absl::SimpleAtoi(digits, &number) ||
      CheckpointName(number) != name) {
    return std::nullopt;
  }
  return number;
}

absl::StatusOr<Manifest> ReadManifest(env::FileSystem* files, const std::string& path) {
  const std::string file = Join(path, kManifestFile);
  auto text = files->Read(file);
  if (text.status().code() == absl::StatusCode::kNotFound) {
    return absl::DataLossError(absl::StrCat(file, ": the file is missing"));
  }
  RETURN_IF_ERROR(text.status());
  return ParseManifest(*text, file);
}

absl::StatusOr<std::vector<CheckpointEntry>> ListCheckpoints(env::FileSystem* files,
                                                             const std::string& directory) {
  std::vector<CheckpointEntry> entries;
  auto names = files->List(directory);
  if (names.status().code() == absl::StatusCode::kNotFound) return entries;
  RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    const auto number = ParseCheckpointName(name);
    if (!number) continue;
    CheckpointEntry entry;
    entry.number = *number;
    entry.path = Join(directory, name);
    entry.manifest = ReadManifest(files, entry.path);
    if (entry.manifest.ok() && entry.manifest->number != entry.number) {
      entry.manifest = absl::DataLossError(absl::StrCat(Join(entry.path, kManifestFile),
                                                        ": it is of another checkpoint, ",
                                                        CheckpointName(entry.manifest->number)));
    }
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.number > b.number; });
  return entries;
}

absl::Status CheckSizes(env::FileSystem* files, const std::string& path, const Manifest& manifest) {
  for (const proto::SavedShard& shard : manifest.shards) {
    for (const ShardFile& file : FilesOf(shard)) {
      RETURN_IF_ERROR(CheckSize(files, path, file));
    }
  }
  return absl::OkStatus();
}

absl::Status VerifyCheckpoint(env::FileSystem* files, const std::string& path,
                              const Manifest& manifest) {
  for (const proto::SavedShard& shard : manifest.shards) {
    for (const ShardFile& file : FilesOf(shard)) {
      RETURN_IF_ERROR(CheckSize(files, path, file));
      ASSIGN_OR_RETURN(const Buffer content, files->Map(Join(path, file.file)));
      const uint32_t found = Crc32(0, content.data(), content.size());
      if (found == file.crc32) continue;
      return absl::DataLossError(absl::StrFormat("%s: wanted CRC-32 %08x, found %08x: altered",
                                                 Join(path, file.file), file.crc32, found));
    }
  }
  return absl::OkStatus();
}

uint64_t ChosenCheckpoint::newest() const {
  if (!skipped.empty()) return skipped[0].number;
  return good ? good->number : 0;
}

std::vector<std::string> ChosenCheckpoint::Notes() const {
  std::vector<std::string> notes;
  for (const CheckpointEntry& entry : skipped) {
    notes.push_back(absl::StrCat("not used: ", entry.manifest.status().message()));
    if (good)
      absl::StrAppend(&notes.back(), "; ", CheckpointName(good->number), " is used instead");
  }
  return notes;
}

absl::Status ChosenCheckpoint::WhyNone(const std::string& directory) const {
  if (skipped.empty()) {
    return absl::NotFoundError(absl::StrCat(directory, " holds no checkpoint"));
  }
  return absl::DataLossError(
      absl::StrCat("none of the ", skipped.size(), " checkpoints in ", directory,
                   " can be used; the newest: ", skipped[0].manifest.status().message()));
}

namespace {

absl::Status CheckGood(env::FileSystem* files, const CheckpointEntry& entry,
                       const ChooseOptions& options) {
  RETURN_IF_ERROR(entry.manifest.status());
  if (options.usable) RETURN_IF_ERROR(options.usable(*entry.manifest));
  const bool verified = options.verified != 0 && entry.number == options.verified;
  return options.sizes_only || verified ? CheckSizes(files, entry.path, *entry.manifest)
                                        : VerifyCheckpoint(files, entry.path, *entry.manifest);
}

// Nullopt: one that was listed is gone.
absl::StatusOr<std::optional<ChosenCheckpoint>> ChooseOnce(env::FileSystem* files,
                                                           const std::string& directory,
                                                           const ChooseOptions& options) {
  ChosenCheckpoint chosen;
  ASSIGN_OR_RETURN(std::vector<CheckpointEntry> entries, ListCheckpoints(files, directory));
  for (CheckpointEntry& entry : entries) {
    const absl::Status wrong = CheckGood(files, entry, options);
    if (wrong.ok()) {
      chosen.good = std::move(entry);
      break;
    }
    if (!files->Exists(entry.path)) return std::optional<ChosenCheckpoint>();
    entry.manifest = wrong;
    chosen.skipped.push_back(std::move(entry));
  }
  return std::optional<ChosenCheckpoint>(std::move(chosen));
}

}  // namespace

absl::StatusOr<ChosenCheckpoint> ChooseCheckpoint(env::FileSystem* files,
                                                  const std::string& directory,
                                                  const ChooseOptions& options) {
  constexpr int kMostLooks = 8;
  for (int look = 0; look < kMostLooks; ++look) {
    ASSIGN_OR_RETURN(auto chosen, ChooseOnce(files, directory, options));
    if (chosen) return *std::move(chosen);
  }
  return absl::UnavailableError(absl::StrCat(
      directory, ": ", kMostLooks, " times a checkpoint was removed while it was read; a job that ",
      "keeps more of them (`checkpoint.keep`) leaves more time"));
}

absl::StatusOr<CheckpointEntry> NewestGoodCheckpoint(env::FileSystem* files,
                                                     const std::string& directory,
                                                     std::vector<absl::Status>* skipped) {
  ASSIGN_OR_RETURN(ChosenCheckpoint chosen, ChooseCheckpoint(files, directory));
  for (const CheckpointEntry& entry : chosen.skipped) {
    if (skipped != nullptr) skipped->push_back(entry.manifest.status());
  }
  if (!chosen.good) return chosen.WhyNone(directory);
  return *std::move(chosen.good);
}

absl::StatusOr<bool> RemoveOldest(env::FileSystem* files, const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> entries, ListCheckpoints(files, directory));
  const auto good = std::count_if(entries.begin(), entries.end(), [&](const auto& entry) {
    return entry.manifest.ok() && CheckSizes(files, entry.path, *entry.manifest).ok();
  });
  if (good < 2) return false;
  RETURN_IF_ERROR(PruneCheckpoints(files, directory, static_cast<int>(good) - 1));
  return true;
}

absl::Status PruneCheckpoints(env::FileSystem* files, const std::string& directory, int keep,
                              uint64_t known_good) {
  auto names = files->List(directory);
  if (names.status().code() == absl::StatusCode::kNotFound) return absl::OkStatus();
  RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    absl::string_view finished = name;
    if (!absl::ConsumeSuffix(&finished, kUnfinished)) continue;
    // Between number and suffix may stand which session wrote it.
    const auto number = ParseCheckpointName(finished.substr(0, finished.find('.')));
    // One that is newer than the newest good one may be on its way just now.
    if (!number || (known_good != 0 && *number > known_good)) continue;
    const std::string path = Join(directory, name);
    if (IsDirectory(files, path)) RETURN_IF_ERROR(RemoveDirectory(files, path));
  }
  ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> entries, ListCheckpoints(files, directory));
  std::vector<const CheckpointEntry*> old;
  int kept = 0;
  for (const CheckpointEntry& entry : entries) {
    if (kept >= std::max(keep, 1)) {
      if (IsDirectory(files, entry.path)) old.push_back(&entry);
    } else if (entry.manifest.ok() && CheckSizes(files, entry.path, *entry.manifest).ok()) {
      ++kept;
    }
  }
  if (old.empty()) return absl::OkStatus();
  // Of those that are kept all may be damaged inside their files.
  uint64_t good = 0;
  for (const CheckpointEntry& entry : entries) {
    if (!entry.manifest.ok()) continue;
    good = entry.number;
    if (known_good != 0 && good == known_good) break;
    if (VerifyCheckpoint(files, entry.path, *entry.manifest).ok()) break;
    good = 0;
  }
  for (const CheckpointEntry* entry : old) {
    if (entry->number != good) RETURN_IF_ERROR(Remove(files, *entry));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::checkpoint
