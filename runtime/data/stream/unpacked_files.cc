#include "runtime/data/stream/unpacked_files.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/bytes_text.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/data_file.h"
#include "runtime/data/hash.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/stream_options.h"

namespace coxswain::data {
namespace {

constexpr size_t kChunk = size_t{1} << 20;

}  // namespace

absl::StatusOr<UnpackedFiles::File> UnpackedFiles::Open(const std::string& path,
                                                        const proto::IndexedFile& indexed) {
  absl::MutexLock lock(&mu_);
  if (const auto found = opened_.find(path); found != opened_.end()) return found->second.file;
  if (!copies_.has_directory()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": it is packed, and there is no directory for an unpacked copy: wanted ",
        "dataset.cache_directory, or HOME in the environment"));
  }
  ASSIGN_OR_RETURN(const proto::IndexedFile now, IdentifyFile(path));
  if (now.bytes() != indexed.bytes() || now.samples() != indexed.samples()) {
    return ChangedError(path, indexed);
  }
  uint64_t hash = HashPair(HashText(path), now.samples());
  for (const int64_t number : {now.bytes(), now.modified_ns(), indexed.unpacked_bytes()}) {
    hash = HashPair(hash, static_cast<uint64_t>(number));
  }
  SharedCopies::Wanted wanted;
  wanted.name = absl::StrFormat("%016x.unpacked", hash);
  wanted.of = path;
  wanted.doing = "unpacking it";
  wanted.fits = [&](const env::RandomAccessFile& file) {
    return static_cast<int64_t>(file.size()) == indexed.unpacked_bytes();
  };
  wanted.write = [&](int copy) { return Unpack(path, indexed, wanted.name, copy); };
  ASSIGN_OR_RETURN(File copy, copies_.Open(wanted));
  return opened_.emplace(path, Opened{std::move(copy), wanted.name}).first->second.file;
}

absl::Status UnpackedFiles::Damaged(const std::string& path, const proto::IndexedFile& indexed) {
  RETURN_IF_ERROR(CheckUnchanged(path, indexed, /*same_machine=*/false));
  absl::MutexLock lock(&mu_);
  const auto found = opened_.find(path);
  std::string copy = "its unpacked copy";
  if (found != opened_.end()) {
    copies_.Remove(found->second.name);
    absl::StrAppend(&copy, " ", copies_.PathOf(found->second.name));
    opened_.erase(found);
  }
  return absl::DataLossError(absl::StrCat(
      path, ": ", copy, " was altered; it is removed: the next run makes another one"));
}

absl::Status UnpackedFiles::Unpack(const std::string& path, const proto::IndexedFile& indexed,
                                   const std::string& name, int copy) const {
  RETURN_IF_ERROR(copies_.MakeRoom(indexed.unpacked_bytes(), name,
                                   "files that are not packed, or dataset.streaming: false"));
  // Minutes, and disk space that nobody expects: a warning is what commands show.
  LogWarning("data set: ", path, " is packed and cannot be entered in the middle: it is unpacked, ",
             BytesText(indexed.unpacked_bytes()), ", into ", copies_.PathOf(name));
  ASSIGN_OR_RETURN(auto file, OpenDataFile(path));
  ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, ByteSource::OfFile(std::move(file)));
  std::vector<char> chunk(kChunk);
  int64_t bytes = 0;
  for (size_t count = chunk.size(); count == chunk.size();) {
    ASSIGN_OR_RETURN(count, source->Read(chunk.data(), chunk.size()));
    bytes += static_cast<int64_t>(count);
    if (bytes > indexed.unpacked_bytes()) return ChangedError(path, indexed);
    RETURN_IF_ERROR(WriteAll(copy, chunk.data(), count, copies_.PathOf(name)));
  }
  if (bytes != indexed.unpacked_bytes()) return ChangedError(path, indexed);
  return CheckUnchanged(path, indexed, /*same_machine=*/false);
}

}  // namespace coxswain::data
