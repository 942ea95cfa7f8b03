#include "runtime/data/stream/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/bytes_text.h"
#include "runtime/base/status.h"
#include "runtime/data/stream/cache_directory.h"
#include "runtime/data/stream/shared_copies.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/env/system_error.h"
#include "runtime/env/unnamed_file.h"

namespace coxswain::data {
namespace {

constexpr size_t kPending = size_t{64} << 10;

}  // namespace

ScratchSpace::ScratchSpace(const proto::StreamOptions& options)
    : directory_(CopiesDirectory(options)),
      most_bytes_(options.cache_bytes() > 0 ? options.cache_bytes() : kDefaultCacheBytes) {}

absl::Status ScratchSpace::Open(int* fd) const {
  if (directory_.empty()) {
    return absl::FailedPreconditionError(
        "data set: its groups do not fit into dataset.memory, and there is no directory to sort "
        "them in: wanted dataset.cache_directory, or HOME in the environment");
  }
  RETURN_IF_ERROR(MakePrivateDirectory(directory_));
  ASSIGN_OR_RETURN(*fd, env::OpenUnnamedFile(directory_));
  return absl::OkStatus();
}

absl::Status ScratchSpace::Take(int64_t bytes) {
  const int64_t taken = taken_ += bytes;
  if (taken <= most_bytes_) return absl::OkStatus();
  taken_ -= bytes;
  return absl::ResourceExhaustedError(absl::StrCat("data set: to sort its groups takes more than ",
                                                   BytesText(most_bytes_), " in ", directory_,
                                                   ": wanted a larger dataset.cache_size"));
}

ScratchFile::~ScratchFile() {
  if (fd_ >= 0) close(fd_);
  space_.taken_ -= written_;
}

absl::Status ScratchFile::Append(const void* data, size_t bytes) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const size_t fit = std::min(bytes, kPending - pending_.size());
    pending_.append(p, fit);
    p += fit;
    bytes -= fit;
    if (pending_.size() == kPending) RETURN_IF_ERROR(Write());
  }
  return absl::OkStatus();
}

absl::Status ScratchFile::Write() {
  if (fd_ < 0) RETURN_IF_ERROR(space_.Open(&fd_));
  RETURN_IF_ERROR(space_.Take(static_cast<int64_t>(pending_.size())));
  size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t wrote = pwrite(fd_, pending_.data() + done, pending_.size() - done,
                                 written_ + static_cast<int64_t>(done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      const absl::Status status =
          env::SystemError(wrote < 0 ? errno : ENOSPC, "sort groups in", space_.directory_);
      space_.taken_ -= static_cast<int64_t>(pending_.size());
      return status;
    }
    done += static_cast<size_t>(wrote);
  }
  written_ += static_cast<int64_t>(pending_.size());
  pending_.clear();
  return absl::OkStatus();
}

absl::Status ScratchFile::Read(int64_t offset, void* out, size_t bytes) const {
  char* to = static_cast<char*>(out);
  while (bytes > 0 && offset < written_) {
    const auto most = static_cast<size_t>(written_ - offset);
    const ssize_t got = pread(fd_, to, std::min(bytes, most), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return absl::DataLossError(absl::StrCat("data set: cannot read what was sorted in ",
                                              space_.directory_, ": ",
                                              got < 0 ? strerror(errno) : "it has become shorter"));
    }
    to += got;
    offset += got;
    bytes -= static_cast<size_t>(got);
  }
  if (bytes > 0) std::memcpy(to, pending_.data() + (offset - written_), bytes);
  return absl::OkStatus();
}

absl::Status ScratchReader::Read(void* out, size_t bytes) {
  char* to = static_cast<char*>(out);
  while (bytes > 0) {
    if (used_ == buffer_.size()) {
      buffer_.resize(static_cast<size_t>(
          std::min<int64_t>(static_cast<int64_t>(kPending), file_.size() - at_)));
      if (buffer_.empty()) return absl::OutOfRangeError("behind the end of a scratch file");
      RETURN_IF_ERROR(file_.Read(at_, buffer_.data(), buffer_.size()));
      at_ += static_cast<int64_t>(buffer_.size());
      used_ = 0;
    }
    const size_t fit = std::min(bytes, buffer_.size() - used_);
    std::memcpy(to, buffer_.data() + used_, fit);
    used_ += fit;
    to += fit;
    bytes -= fit;
  }
  return absl::OkStatus();
}

}  // namespace coxswain::data
