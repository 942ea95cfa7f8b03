#include "runtime/data/arrow/open_arrow_files.h"

#include <sys/stat.h>

#include <utility>

#include "runtime/base/status.h"
#include "runtime/data/stream/kept_files.h"
#include "runtime/data/stream/reads_ahead.h"
#include "runtime/env/remote_path.h"

namespace coxswain::data {
namespace {

// Descriptors are few. A decoded footer takes some times the memory of its bytes.
constexpr size_t kMostFiles = 16;
constexpr int64_t kMostFooterBytes = int64_t{16} << 20;

OpenArrowFiles::Identity IdentityOf(const std::string& path) {
  struct stat found {};
  if (env::IsRemotePath(path) || stat(path.c_str(), &found) != 0) return {};
  return {static_cast<uint64_t>(found.st_dev), static_cast<uint64_t>(found.st_ino),
          static_cast<int64_t>(found.st_size),
          int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec};
}

}  // namespace

ArrowInput InputOf(KeptFiles* kept, ReadsAhead* ahead) {
  return {[kept](const std::string& path) { return kept->Open(path); },
          [ahead](const std::string& path, const ByteRange& range, void* out) {
            return ahead->Take({path, range.offset, range.bytes}, out);
          }};
}

absl::StatusOr<OpenArrowFiles::File> OpenArrowFiles::Take(const std::string& path,
                                                          CoxArrowFormat format) {
  // Before it is opened: if it is replaced in between, it is opened once more than needed.
  const Identity identity = IdentityOf(path);
  std::list<File> old;  // closed when the lock is not held
  {
    const absl::MutexLock lock(&mu_);
    for (auto it = idle_.begin(); it != idle_.end();) {
      const auto at = it++;
      if (at->format != format || at->file->path() != path) continue;
      if (at->identity == identity) {
        File found = std::move(*at);
        idle_.erase(at);
        return found;
      }
      old.splice(old.end(), idle_, at);
    }
  }
  File opened = {nullptr, format, identity};
  ASSIGN_OR_RETURN(opened.file, ArrowFile::Open(path, format, input_));
  return opened;
}

void OpenArrowFiles::GiveBack(File file) {
  std::list<File> old;  // closed when the lock is not held
  const absl::MutexLock lock(&mu_);
  idle_.push_front(std::move(file));
  size_t files = 0;
  int64_t bytes = 0;
  for (auto it = idle_.begin(); it != idle_.end(); ++it) {
    bytes += it->file->footer_bytes();
    if (++files > 1 && (files > kMostFiles || bytes > kMostFooterBytes)) {
      old.splice(old.end(), idle_, it, idle_.end());
      break;
    }
  }
}

int64_t OpenArrowFiles::idle() const {
  const absl::MutexLock lock(&mu_);
  return static_cast<int64_t>(idle_.size());
}

}  // namespace coxswain::data
