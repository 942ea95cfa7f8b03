#include "runtime/data/stream/index_file.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/data/data_file.h"
#include "runtime/data/hash.h"
#include "runtime/data/stream/cache_directory.h"
#include "runtime/data/stream/checked_files.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/index_pass.h"

namespace coxswain::data {
namespace {

using proto::DatasetIndex;
using proto::DatasetSpec;

constexpr char kMagic[] = "coxswain index 1\n";

void Save(const DatasetIndex& index, const std::string& path, env::FileSystem* files) {
  const std::string directory = path.substr(0, path.rfind('/'));
  absl::Status saved = MakeOwnDirectory(directory);
  if (saved.ok()) saved = WriteIndex(files, path, index);
  TidyIndexes(directory);
  if (saved.ok()) {
    LogInfo("data set: the index is saved: ", path);
  } else {
    LogWarning("data set: its index cannot be saved, and is made again the next time: ",
               saved.message());
  }
}

// Where there is one for this spec, that nobody else can have put there; empty: none is kept.
std::string TrustedPath(const DatasetSpec& spec) {
  std::string path = IndexPath(spec);
  if (path.empty()) return path;
  const absl::Status trusted = CheckNotOfOthers(path.substr(0, path.rfind('/')));
  if (trusted.ok() || absl::IsNotFound(trusted)) return path;
  LogWarning("data set: no index is used or saved in the cache directory ", trusted.message());
  return "";
}

absl::StatusOr<DatasetIndex> ReadTrusted(env::FileSystem* files, const std::string& path) {
  RETURN_IF_ERROR(CheckNotOfOthers(path));
  return ReadIndex(files, path);
}

// Small data sets are read sooner than workers are asked.
absl::StatusOr<DatasetIndex> Make(const DatasetSpec& spec, const IndexOptions& options) {
  if (options.workers == nullptr || options.workers->count() == 0) return BuildIndex(spec, options);
  int64_t bytes = 0;
  for (const auto* paths : {&spec.paths(), &spec.split().test_paths()}) {
    for (const std::string& path : *paths) {
      const auto file = OpenDataFile(path);
      if (file.ok()) bytes += static_cast<int64_t>((*file)->size());  // else reading it will tell
    }
  }
  return bytes < options.least_bytes ? BuildIndex(spec, options)
                                     : BuildIndexOnWorkers(spec, options);
}

}  // namespace

std::string IndexPath(const DatasetSpec& spec) {
  const std::string directory = CacheDirectory(spec.stream());
  if (directory.empty()) return directory;
  uint64_t hash = IndexKey(spec);
  for (const std::string& path : IndexedPaths(spec)) hash = HashPair(hash, HashText(path));
  return absl::StrCat(directory, "/", absl::StrFormat("%016x.index", hash));
}

absl::Status WriteIndex(env::FileSystem* files, const std::string& path,
                        const DatasetIndex& index) {
  std::string content = kMagic;
  const std::string bytes = index.SerializeAsString();
  const uint64_t hash = HashText(bytes);
  content.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
  content += bytes;
  RETURN_IF_ERROR(files->MakeDirs(path.substr(0, path.rfind('/'))));
  RETURN_IF_ERROR(files->WriteAtomically(path, content));
  // Whatever the umask: what others can write is not read again.
  constexpr auto kOthers =
      std::filesystem::perms::group_write | std::filesystem::perms::others_write;
  std::error_code ignored;
  std::filesystem::permissions(path, kOthers, std::filesystem::perm_options::remove, ignored);
  return absl::OkStatus();
}

absl::StatusOr<DatasetIndex> ReadIndex(env::FileSystem* files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string content, files->Read(path));
  const size_t magic = sizeof(kMagic) - 1;
  uint64_t hash = 0;
  DatasetIndex index;
  bool good = content.size() >= magic + sizeof(hash) && content.compare(0, magic, kMagic) == 0;
  if (good) {
    std::memcpy(&hash, content.data() + magic, sizeof(hash));
    const absl::string_view bytes = absl::string_view(content).substr(magic + sizeof(hash));
    good = HashText(bytes) == hash &&
           index.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  }
  if (!good) return absl::DataLossError(path + ": not the index that was saved");
  return index;
}

absl::Status CheckIndex(const DatasetSpec& spec, const DatasetIndex& index, bool same_machine) {
  const std::vector<std::string> paths = IndexedPaths(spec);
  if (index.key() != IndexKey(spec) || index.files_size() != static_cast<int>(paths.size())) {
    return absl::FailedPreconditionError("the index is of another data set");
  }
  const auto of_blocks =
      static_cast<size_t>(spec.paths_size()) + static_cast<size_t>(spec.split().test_paths_size());
  for (size_t i = 0; i < paths.size(); ++i) {
    if (!same_machine && i < of_blocks && CheckedFiles::IsLate(paths[i])) continue;
    RETURN_IF_ERROR(CheckUnchanged(paths[i], index.files(static_cast<int>(i)), same_machine));
  }
  return absl::OkStatus();
}

bool RemoveIndex(const DatasetSpec& spec, env::FileSystem* files) {
  const std::string path = IndexPath(spec);
  return !path.empty() && files->Exists(path) && files->RemoveAll(path).ok();
}

std::shared_ptr<const DatasetIndex> ForWorkers(const std::shared_ptr<const DatasetIndex>& index) {
  if (index == nullptr) return nullptr;
  auto less = std::make_shared<DatasetIndex>(*index);
  less->clear_labels();
  for (proto::IndexedFeature& feature : *less->mutable_features()) {
    if (!index->is_text()) feature.clear_training_counts();  // these draw a text's places
    feature.clear_unknown();
    // Of hashed values these are names, which only the coordinator saves.
    const proto::LearnedFeature& learned = feature.learned();
    if (learned.hash_buckets() > 0 || !learned.id().empty()) feature.clear_vocabulary();
  }
  return less;
}

absl::StatusOr<std::shared_ptr<const DatasetIndex>> FindOrMakeIndex(const DatasetSpec& spec,
                                                                    env::FileSystem* files,
                                                                    const IndexOptions& options) {
  // What is followed is read once: to keep an index of each file that comes would push out others.
  // One of tables that may be replaced does not say which they were.
  const bool once =
      spec.followed() && spec.learned().empty() && (spec.paths_size() > 0 || spec.joins_size() > 0);
  const std::string path = once ? "" : TrustedPath(spec);
  if (!path.empty()) {
    if (auto saved = ReadTrusted(files, path); saved.ok()) {
      const absl::Status fits = CheckIndex(spec, *saved, /*same_machine=*/true);
      if (fits.ok()) {
        MarkUsed(path);
        LogInfo("data set: streamed by the saved index ", path, ": ", saved->rows(), " rows in ",
                saved->blocks_size(), " blocks");
        return std::make_shared<const DatasetIndex>(*std::move(saved));
      }
      LogInfo("data set: indexed anew: ", fits.message());
    } else if (!absl::IsNotFound(saved.status())) {
      LogWarning("data set: indexed anew: ", saved.status().message());
    }
  }
  ASSIGN_OR_RETURN(DatasetIndex index, Make(spec, options));
  LogInfo("data set: streamed: ", index.rows(), " rows in ", index.blocks_size(), " blocks of ",
          index.files_size(), " files, ", index.window(), " blocks in a window");
  if (!path.empty()) Save(index, path, files);
  return std::make_shared<const DatasetIndex>(std::move(index));
}

}  // namespace coxswain::data
