#include "ps_server/table_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/env/system_error.h"
#include "runtime/env/unnamed_file.h"

namespace coxswain::ps {
namespace {

// Looking at so many rows tells whether a batch has any to be read, but for few. It takes some
// microseconds; asking for all of them takes half a microsecond a row.
constexpr int64_t kRowsLookedAt = 32;

size_t PageBytes() {
  static const auto page = static_cast<size_t>(std::max<long>(4096, sysconf(_SC_PAGESIZE)));
  return page;
}

// The pages that have these bytes.
struct Pages {
  Pages(const void* data, size_t bytes) {
    const auto at = reinterpret_cast<uintptr_t>(data);
    begin = at / PageBytes() * PageBytes();
    length = at + bytes - begin;
  }
  void* address() const { return reinterpret_cast<void*>(begin); }
  uintptr_t begin;
  size_t length;
};

// Of bytes that are few pages.
bool InMemory(const Pages& pages) {
  std::array<unsigned char, 16> in_memory{};
  if (pages.length > in_memory.size() * PageBytes()) return false;
  // What cannot be told is read when it is touched.
  if (mincore(pages.address(), pages.length, in_memory.data()) != 0) return true;
  const size_t count = (pages.length + PageBytes() - 1) / PageBytes();
  return std::all_of(in_memory.begin(), in_memory.begin() + count,
                     [](unsigned char state) { return (state & 1) != 0; });
}

void AskFor(const Pages& pages) { madvise(pages.address(), pages.length, MADV_WILLNEED); }

}  // namespace

struct TableFile::File {
  File(int descriptor, std::string where) : fd(descriptor), directory(std::move(where)) {}
  ~File() { close(fd); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const int fd;
  const std::string directory;
};

absl::StatusOr<TableFile> TableFile::Create(const std::string& directory) {
  const absl::StatusOr<int> fd = env::OpenUnnamedFile(directory);
  // It was there when the task began: others may have room, and it may come back. Other codes would
  // be taken for a checkpoint that the task cannot read.
  if (!fd.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the directory of tables (--table-dir): ", fd.status().message()));
  }
  TableFile file;
  file.file_ = std::make_shared<const File>(*fd, directory);
  return file;
}

absl::Status TableFile::Map(size_t begin, size_t end, char* to) const {
  RETURN_IF_ERROR(env::SetAside(file_->fd, file_->directory, begin, end));
  void* const mapped = mmap(to, end - begin, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                            file_->fd, static_cast<off_t>(begin));
  if (mapped == MAP_FAILED) return env::SystemError(errno, "map a file in", file_->directory);
  // Rows come in no order: what lies around one is not wanted with it. Of a process that dumps
  // core, they would fill the disk.
  madvise(mapped, end - begin, MADV_RANDOM);
  madvise(mapped, end - begin, MADV_DONTDUMP);
  return absl::OkStatus();
}

void ReadAhead(const TableMemory& memory, size_t row_stride, const int64_t* rows, int64_t n) {
  if (!memory.rows_in_file || n == 0) return;
  const char* const base = static_cast<const char*>(memory.rows.data());
  const auto pages = [&](int64_t i) {
    return Pages(base + static_cast<size_t>(rows[i]) * row_stride, row_stride);
  };
  const int64_t step = std::max<int64_t>(1, n / kRowsLookedAt);
  int64_t i = 0;
  while (i < n && InMemory(pages(i))) i += step;
  if (i >= n) return;
  for (i = 0; i < n; ++i) AskFor(pages(i));
}

void ReadAhead(const TableMemory& memory, size_t row_stride, int64_t begin, int64_t n) {
  if (!memory.rows_in_file || n == 0) return;
  const char* const base = static_cast<const char*>(memory.rows.data());
  AskFor(
      Pages(base + static_cast<size_t>(begin) * row_stride, static_cast<size_t>(n) * row_stride));
}

}  // namespace coxswain::ps
