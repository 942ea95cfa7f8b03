#include "runtime/data/stream/file_identity.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/base/status.h"
#include "runtime/data/data_file.h"
#include "runtime/data/file_error.h"
#include "runtime/data/hash.h"
#include "runtime/data/remote_files.h"
#include "runtime/env/random_access_file.h"
#include "runtime/env/remote_path.h"
#include "runtime/env/system_error.h"

namespace coxswain::data {
namespace {

constexpr uint64_t kPiece = 4096;
constexpr uint64_t kPieces = 32;
constexpr char kChangedUrl[] = "coxswain.dev/changed-file";

std::string Describe(int64_t bytes, int64_t modified_ns) {
  return absl::StrCat(bytes, " bytes of ",
                      absl::FormatTime("%Y-%m-%d %H:%M:%E3S", absl::FromUnixNanos(modified_ns),
                                       absl::UTCTimeZone()),
                      " UTC");
}

proto::IndexedFile SizeAndTime(const env::RandomAccessFile& file) {
  proto::IndexedFile identity;
  identity.set_bytes(static_cast<int64_t>(file.size()));
  identity.set_modified_ns(file.modified_ns());
  return identity;
}

// The store has a hash of the content: pieces would be a request each.
absl::StatusOr<proto::IndexedFile> IdentifyRemoteFile(const std::string& path) {
  ASSIGN_OR_RETURN(const RemoteFile remote, OpenRemoteFile(path));
  proto::IndexedFile identity = SizeAndTime(*remote.file);
  identity.set_samples(HashText(remote.tag));
  return identity;
}

absl::StatusOr<proto::IndexedFile> IdentifyLocalFile(const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, env::RandomAccessFile::Open(path));
  proto::IndexedFile identity = SizeAndTime(*file);
  StreamHash hash;
  std::vector<char> piece(kPiece);
  const uint64_t pieces = std::min(kPieces, (file->size() + kPiece - 1) / kPiece);
  for (uint64_t i = 0; i < pieces; ++i) {
    // The first piece, the last one, and others evenly between them.
    const uint64_t bytes = std::min(kPiece, file->size());
    const uint64_t offset = pieces == 1 ? 0 : (file->size() - bytes) / (pieces - 1) * i;
    RETURN_IF_ERROR(file->Read(i + 1 == pieces ? file->size() - bytes : offset, piece.data(),
                               static_cast<size_t>(bytes)));
    hash.Update(absl::string_view(piece.data(), static_cast<size_t>(bytes)));
  }
  identity.set_samples(hash.Finish());
  return identity;
}

}  // namespace

absl::StatusOr<int64_t> ModifiedNs(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return env::SystemError(errno, "read", path);
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

absl::StatusOr<proto::IndexedFile> IdentifyFile(const std::string& path) {
  absl::StatusOr<proto::IndexedFile> identity =
      env::IsRemotePath(path) ? IdentifyRemoteFile(path) : IdentifyLocalFile(path);
  if (!identity.ok()) return InFile(identity.status(), path);
  return identity;
}

absl::Status ChangedError(const std::string& path, const proto::IndexedFile& indexed) {
  const auto file = OpenDataFile(path);
  const int64_t bytes = file.ok() ? static_cast<int64_t>((*file)->size()) : -1;
  // It may be out of reach by now: who calls this has seen that it is another one.
  const std::string found = file.ok() ? Describe(bytes, (*file)->modified_ns())
                            : absl::IsNotFound(file.status()) ? "none"
                                                              : "another content";
  absl::Status changed = absl::FailedPreconditionError(
      absl::StrCat(path, ": changed since it was indexed: wanted ",
                   Describe(indexed.bytes(), indexed.modified_ns()), ", found ", found,
                   bytes == indexed.bytes() ? " and other content" : ""));
  changed.SetPayload(kChangedUrl, absl::Cord(path));
  return InFile(std::move(changed), path);
}

bool IsChangedError(const absl::Status& status) {
  return status.GetPayload(kChangedUrl).has_value();
}

absl::Status CheckUnchanged(const std::string& path, const proto::IndexedFile& indexed,
                            bool same_machine) {
  ASSIGN_OR_RETURN(const proto::IndexedFile found, IdentifyFile(path));
  if (found.bytes() == indexed.bytes() && found.samples() == indexed.samples() &&
      (!same_machine || found.modified_ns() == indexed.modified_ns())) {
    return absl::OkStatus();
  }
  return ChangedError(path, indexed);
}

}  // namespace coxswain::data
