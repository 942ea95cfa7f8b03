// Files that are made from a data set's files once on a machine, and then shared by its processes:
// in a directory that only their user can read.
//
// A copy appears when it is complete: it is written under another name and renamed. A reader of a
// copy holds a shared lock on it, and a writer holds an exclusive lock; the system releases the
// locks of a process that is killed. The total size of copies is bounded: copies without readers
// are removed, the least recently used first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "protos/dataset.pb.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::data {

inline constexpr int64_t kDefaultCacheBytes = int64_t{100} << 30;

// Where copies are, in the cache directory; empty if there is none.
std::string CopiesDirectory(const proto::StreamOptions& options);

// A copy that is open, and stays as long as this does, whoever removes its name. Thread-safe.
class SharedCopy {
 public:
  SharedCopy(std::unique_ptr<env::RandomAccessFile> file, int lock)
      : file_(std::move(file)), lock_(lock) {}
  ~SharedCopy();
  SharedCopy(const SharedCopy&) = delete;
  SharedCopy& operator=(const SharedCopy&) = delete;
  const env::RandomAccessFile& file() const { return *file_; }

 private:
  const std::unique_ptr<env::RandomAccessFile> file_;
  const int lock_;
};

// Thread model: thread-safe.
class SharedCopies {
 public:
  explicit SharedCopies(const proto::StreamOptions& options);

  bool has_directory() const { return !directory_.empty(); }
  std::string PathOf(const std::string& name) const { return directory_ + "/" + name; }

  struct Wanted {
    std::string name;   // of a kind that MakeRoom knows: "0123456789abcdef.unpacked"
    std::string of;     // what it is of, for messages: the path of a file
    std::string doing;  // the same: "unpacking it"
    // Whether a complete copy is the one that is wanted.
    std::function<bool(const env::RandomAccessFile& file)> fits;
    // Writes it to a file, which is empty.
    std::function<absl::Status(int file)> write;
  };
  // Opens a copy; makes it first if there is none, which may take long. Errors: FailedPrecondition
  // for a directory that others can read; ResourceExhausted when the disk is full or copies would
  // take more than cache_bytes; Unavailable when another process is writing it and makes no
  // progress; those of `write`.
  absl::StatusOr<std::shared_ptr<const SharedCopy>> Open(const Wanted& wanted) const;
  // For `write`, which knows by now how large it becomes: removes copies that nobody reads until
  // there is room. Errors: ResourceExhausted, with what else would help.
  absl::Status MakeRoom(int64_t bytes, const std::string& name, absl::string_view or_else) const;
  // Removes the copy's name; those who have it open keep it.
  void Remove(const std::string& name) const;

 private:
  std::shared_ptr<const SharedCopy> OpenExisting(const Wanted& wanted) const;
  absl::Status Make(const Wanted& wanted) const;

  const std::string directory_;
  const int64_t most_bytes_;
};

// Tells those who wait for the copy that its writer gets on, where it does not grow meanwhile.
void ShowProgress(int file);

// Writes all of it. Errors: those of the system, with the path.
absl::Status WriteAll(int file, const void* data, size_t bytes, const std::string& path);

}  // namespace coxswain::data
