// Which files have come into directories that a job follows (dataset.follow). A file is taken once,
// when it has its name: who writes it gives it that by renaming, when it is whole.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/stream/followed_places.h"

namespace coxswain::data {

struct FollowedFile {
  std::string path;
  proto::IndexedFile identity;  // see file_identity.h
};

// Whether the name is that of a file that has all of its rows, and not one that editors and tools
// give to what they are writing (".a", "_a", "a.tmp", "a.part", "a.crdownload", "a.swp", "a~"). A
// pattern `wanted` that ends in such a way ("*.part") asks for them.
bool HasWholeName(const std::string& path, absl::string_view wanted = "");

// What to do where a file was taken before all of it was there; for the end of an error.
extern const char kWholeFilesHint[];

// Not thread-safe.
class FollowedFiles {
 public:
  // `paths`: directories, and patterns of files' names. `end`: the name of a file; where each
  // directory has one, no file comes any more.
  FollowedFiles(const std::vector<std::string>& paths, std::string end);

  // Whether files can come. Errors: those of FollowedPlace::Check.
  absl::Status Check() const;
  // The file was taken before, by an earlier run of the job.
  void Take(const FollowedFile& file);
  // A file that was taken, and of which no row was used: when it has changed it is a new one.
  void LeaveOut(const FollowedFile& file);

  struct Look {
    std::vector<FollowedFile> files;  // new ones: the first to be changed first, then by name
    bool ended = false;               // the end was there before the files were looked for
  };
  // Files that have come since the last call, which are taken with it. Names that are not
  // whole (HasWholeName) do not count. A name is used once: of a file that is taken away nothing is
  // forgotten. One that was taken under another name (its size, time and content are the same) is
  // passed over with a warning: it was renamed or linked. Errors: FailedPrecondition for a file
  // that changed after it was taken; Unavailable for a directory that cannot be listed; those of a
  // store: then nothing is taken.
  absl::StatusOr<Look> LookForNew();

  int64_t taken() const { return static_cast<int64_t>(taken_.size()); }
  // Whether a look asks an object store.
  bool remote() const;

 private:
  absl::StatusOr<bool> Ended() const;
  absl::StatusOr<std::vector<ListedFile>> List() const;
  absl::Status CheckTaken(const ListedFile& file, proto::IndexedFile* identity);
  bool IsLeftOut(const ListedFile& file);
  // Whether it was taken before, under whatever name.
  bool PassesOver(const FollowedFile& file) const;

  // Size, time of the last change and content: they stay when a file gets another name.
  using Identity = std::tuple<int64_t, int64_t, uint64_t>;
  static Identity IdentityOf(const proto::IndexedFile& file) {
    return {file.bytes(), file.modified_ns(), file.samples()};
  }

  const std::vector<std::string> paths_;
  std::vector<std::unique_ptr<FollowedPlace>> places_;  // of these
  const std::string end_;
  absl::flat_hash_map<std::string, proto::IndexedFile> taken_, left_out_;  // by path
  absl::flat_hash_map<Identity, std::string> names_;  // of what was taken: its first name
};

}  // namespace coxswain::data
