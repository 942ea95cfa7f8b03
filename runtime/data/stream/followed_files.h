// Which files have come into directories that a job follows (dataset.follow). A file is taken once,
// when it has its name: who writes it gives it that by renaming, when it is whole.
#pragma once

#include <memory>
#include <string>
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

  struct Look {
    std::vector<FollowedFile> files;  // new ones: the first to be changed first, then by name
    bool ended = false;               // the end was there before the files were looked for
  };
  // Files that have come since the last call, which are taken with it. Names that are not
  // whole (HasWholeName) do not count. A name is used once: of a file that is taken away nothing is
  // forgotten. Errors: FailedPrecondition for a file that changed after it was taken; Unavailable
  // for a directory that cannot be listed; those of a store: then nothing is taken.
  absl::StatusOr<Look> LookForNew();

  int64_t taken() const { return static_cast<int64_t>(taken_.size()); }
  // Whether a look asks an object store.
  bool remote() const;

 private:
  absl::StatusOr<bool> Ended() const;
  absl::StatusOr<std::vector<ListedFile>> List() const;
  static absl::Status CheckTaken(const ListedFile& file, proto::IndexedFile* identity);

  const std::vector<std::string> paths_;
  std::vector<std::unique_ptr<FollowedPlace>> places_;  // of these
  const std::string end_;
  absl::flat_hash_map<std::string, proto::IndexedFile> taken_;
};

}  // namespace coxswain::data
