#include "runtime/checkpoint/keep_checkpoint.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"

namespace coxswain::checkpoint {
namespace {

constexpr char kManifestFile[] = "manifest.json";
constexpr size_t kChunkBytes = size_t{8} << 20;

absl::Status Copy(env::FileSystem* files, const std::string& from, const std::string& to) {
  ASSIGN_OR_RETURN(const Buffer content, files->Map(from));
  ASSIGN_OR_RETURN(const auto out, files->CreateLarge(to));
  const auto* const bytes = static_cast<const char*>(content.data());
  for (size_t done = 0; done < content.size(); done += kChunkBytes) {
    RETURN_IF_ERROR(out->Append(bytes + done, std::min(kChunkBytes, content.size() - done)));
  }
  RETURN_IF_ERROR(out->Sync());
  return out->Close();
}

absl::Status LinkOrCopy(env::FileSystem* files, const std::string& from, const std::string& to) {
  const absl::Status linked = files->Link(from, to);
  if (linked.ok() || absl::IsNotFound(linked)) return linked;
  return Copy(files, from, to);
}

absl::Status KeepIn(env::FileSystem* files, const std::string& from, const std::string& made) {
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(files, from));
  std::set<std::string> names = {kManifestFile};
  for (const proto::SavedShard& shard : manifest.shards) {
    for (const ShardFile& file : FilesOf(shard)) names.insert(file.file);
  }
  RETURN_IF_ERROR(files->RemoveAll(made));
  RETURN_IF_ERROR(files->MakeDirs(made));
  for (const std::string& name : names) {
    if (name.empty() || name.find('/') != std::string::npos) {
      return absl::DataLossError(
          absl::StrCat(from, "/", kManifestFile, ": '", name, "' is no name of a file"));
    }
    RETURN_IF_ERROR(
        LinkOrCopy(files, absl::StrCat(from, "/", name), absl::StrCat(made, "/", name)));
  }
  RETURN_IF_ERROR(CheckSizes(files, made, manifest));
  return files->SyncDirectory(made);
}

}  // namespace

absl::Status KeepCheckpoint(env::FileSystem* files, const std::string& from,
                            const std::string& to) {
  const std::string made = absl::StrCat(to, ".tmp");
  absl::Status kept = KeepIn(files, from, made);
  if (kept.ok()) kept = files->Rename(made, to);
  if (kept.ok()) return kept;
  files->RemoveAll(made).IgnoreError();
  if (!files->Exists(absl::StrCat(from, "/", kManifestFile))) {
    return absl::UnavailableError(absl::StrCat(from, " was removed while it was read"));
  }
  // A file that the manifest names.
  return absl::IsNotFound(kept) ? absl::DataLossError(kept.message()) : kept;
}

}  // namespace coxswain::checkpoint
