#include "coordinator/model/saved_manifest.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/crc32.h"
#include "runtime/env/file_system.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::model {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;

struct Checksum {
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
};

absl::StatusOr<Checksum> ChecksumOf(const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, env::RandomAccessFile::Open(path));
  Checksum sum{file->size(), 0};
  std::string block;
  for (uint64_t at = 0; at < sum.bytes; at += block.size()) {
    block.resize(static_cast<size_t>(std::min<uint64_t>(kBlockBytes, sum.bytes - at)));
    RETURN_IF_ERROR(file->Read(at, block.data(), block.size()));
    sum.crc32 = checkpoint::Crc32(sum.crc32, block.data(), block.size());
  }
  return sum;
}

absl::Status Damaged(const std::string& path, absl::string_view what, const ManifestKind& kind) {
  return absl::DataLossError(absl::StrCat(path, ": ", what, kind.remedy));
}

// Whether a name stays in the directory.
bool IsInside(const std::string& name) {
  return !name.empty() && name[0] != '/' && name != ".." && !absl::StartsWith(name, "../") &&
         !absl::StrContains(name, "/../") && !absl::EndsWith(name, "/..");
}

}  // namespace

absl::StatusOr<nlohmann::json> ReadModelManifest(const std::string& directory,
                                                 const ManifestKind& kind) {
  const std::string path = absl::StrCat(directory, "/", kind.file);
  auto text = env::NewRealFileSystem()->Read(path);
  if (!text.ok()) {
    return Annotate(text.status(), absl::StrCat(directory, " holds no ", kind.what));
  }
  nlohmann::json manifest = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object() || manifest.value("format", nlohmann::json()) != kind.format) {
    return Damaged(path, absl::StrCat("not the manifest of a ", kind.what), kind);
  }
  const auto version = manifest.find("format_version");
  if (version == manifest.end()) return manifest;
  if (!version->is_number_unsigned()) {
    return Damaged(path, absl::StrCat("format_version: wanted a number, found ", version->dump()),
                   kind);
  }
  if (version->get<uint64_t>() > kModelFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": the model is of format ", version->get<uint64_t>(),
                     ", this program knows formats up to ", kModelFormat,
                     ": use the version of coxswain that saved it, or a later one"));
  }
  return manifest;
}

int64_t EarlierStepsIn(const nlohmann::json& manifest) {
  const auto steps = manifest.find("earlier_steps");
  return steps == manifest.end() || !steps->is_number_unsigned() ? 0 : steps->get<int64_t>();
}

absl::StatusOr<nlohmann::ordered_json> ChecksumsOf(const std::string& directory,
                                                   const std::vector<std::string>& names) {
  auto sums = nlohmann::ordered_json::object();
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const Checksum sum, ChecksumOf(absl::StrCat(directory, "/", name)));
    sums[name] = {{"bytes", sum.bytes}, {"crc32", sum.crc32}};
  }
  return sums;
}

namespace {

// `entry`: of the manifest's checksums.
absl::Status CheckFile(const std::string& directory, const std::string& name,
                       const nlohmann::json& entry, const ManifestKind& kind) {
  const auto number = [&entry](const char* key) {
    return entry.is_object() && entry.contains(key) && entry[key].is_number_unsigned();
  };
  if (!IsInside(name) || !number("bytes") || !number("crc32")) {
    return Damaged(absl::StrCat(directory, "/", kind.file),
                   absl::StrCat("checksums: '", name, "' has none"), kind);
  }
  const std::string path = absl::StrCat(directory, "/", name);
  const auto found = ChecksumOf(path);
  if (absl::IsNotFound(found.status()))
    return Damaged(path, "this file of the model is missing", kind);
  RETURN_IF_ERROR(found.status());
  if (found->bytes != entry["bytes"].get<uint64_t>()) {
    return Damaged(path,
                   absl::StrCat("wanted the ", entry["bytes"].get<uint64_t>(),
                                " bytes that were saved, found ", found->bytes),
                   kind);
  }
  if (found->crc32 != entry["crc32"].get<uint32_t>()) {
    return Damaged(path, "its content is not what was saved (the checksum is another)", kind);
  }
  return absl::OkStatus();
}

// Null where the manifest has none.
absl::StatusOr<const nlohmann::json*> ChecksumsIn(const std::string& directory,
                                                  const nlohmann::json& manifest,
                                                  const ManifestKind& kind) {
  const auto sums = manifest.find("checksums");
  if (sums == manifest.end()) return nullptr;
  if (sums->is_object()) return &*sums;
  return Damaged(absl::StrCat(directory, "/", kind.file), "checksums: wanted an object", kind);
}

}  // namespace

absl::Status CheckModelFiles(const std::string& directory, const nlohmann::json& manifest,
                             const ManifestKind& kind) {
  ASSIGN_OR_RETURN(const nlohmann::json* const sums, ChecksumsIn(directory, manifest, kind));
  if (sums == nullptr) return absl::OkStatus();
  for (const auto& [name, entry] : sums->items()) {
    RETURN_IF_ERROR(CheckFile(directory, name, entry, kind));
  }
  return absl::OkStatus();
}

absl::Status CheckModelFile(const std::string& directory, const nlohmann::json& manifest,
                            const std::string& name, const ManifestKind& kind) {
  ASSIGN_OR_RETURN(const nlohmann::json* const sums, ChecksumsIn(directory, manifest, kind));
  if (sums == nullptr) return absl::OkStatus();
  const auto entry = sums->find(name);
  return entry == sums->end() ? absl::OkStatus() : CheckFile(directory, name, *entry, kind);
}

absl::Status CheckModelFile(const std::string& directory, const std::string& name,
                            const ManifestKind& kind) {
  ASSIGN_OR_RETURN(const nlohmann::json manifest, ReadModelManifest(directory, kind));
  return CheckModelFile(directory, manifest, name, kind);
}

}  // namespace coxswain::model
