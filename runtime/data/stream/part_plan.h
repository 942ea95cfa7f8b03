// Cuts the files of a data set into parts that can be read by themselves, of some MiB each: several
// small files, ranges of the bytes or row groups of large ones. Where a block of a range begins
// depends on all blocks before it, and is guessed: at the first row behind each block's least size,
// found without reading what is in between. A guess may be wrong, for example within a long text in
// quotes that looks like rows; whoever reads the part in front finds out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/stream/file_part.h"
#include "runtime/data/stream/stream_options.h"

namespace coxswain::data {

struct PlannedPart {
  proto::PartOfFiles read;
  int32_t first_file = 0;    // its number in the data set
  bool begins_files = true;  // it has the beginning of its files
  bool ends_files = true;
  // Too large to be kept as rows, and of a kind that cannot be cut: read when its turn comes.
  bool in_turn = false;
  // Of the first range of a file's bytes: the line of its first row, and the hash of what is before
  // it.
  int64_t line = 0;
  std::string content;
};

// Thread model: one thread.
class PartPlan {
 public:
  // Parts have `part_bytes` or more of files that can be cut. `spec` and `shared` must outlive it.
  // With `count`, rows of parts are only counted.
  PartPlan(const proto::DatasetSpec& spec, int64_t part_bytes, PartFiles* shared,
           const std::vector<proto::ValueRange>& count = {});

  // The next part, in the order of the files; nothing behind the last one, and while it is not
  // known where the next one begins. Errors: those of the files.
  absl::StatusOr<std::optional<PlannedPart>> Next();
  bool over() const { return file_ == paths_.size(); }
  // This part of a file of lines, after which parts may have been planned, ends elsewhere, and the
  // next one begins there. Where that happens often, each part of the file waits for GoOn.
  absl::Status GoOnAt(const PlannedPart& part, int64_t end);
  // The last part ended where it was to.
  void GoOn() { waits_ = false; }

 private:
  // A file that is cut.
  struct OpenFile {
    proto::IndexedFile identity;  // with its columns
    int64_t begin = 0, size = 0;  // of its rows, in bytes or groups
    std::vector<int64_t> groups;  // bytes of each group, about
    int64_t line = 0;
    std::string content;
  };

  PlannedPart Begin() const;  // of no files yet
  absl::StatusOr<PlannedPart> NextFiles();
  absl::StatusOr<PlannedPart> NextRange();
  // What the next file is cut by; nothing for one that is read as a whole.
  absl::StatusOr<std::optional<OpenFile>> Open(const proto::IndexedFile& identity) const;
  std::optional<OpenFile> OpenGroups() const;
  absl::StatusOr<std::optional<OpenFile>> OpenRows(int64_t size) const;
  absl::StatusOr<int64_t> GuessEnd() const;
  int64_t GroupsEnd(bool* large) const;

  const proto::DatasetSpec& spec_;
  const int64_t part_bytes_;
  PartFiles& shared_;
  proto::PartOfFiles of_parts_;  // of no files yet
  std::vector<std::string> paths_;
  size_t file_ = 0;  // that is next
  std::optional<OpenFile> open_;
  int64_t at_ = 0;  // in the open file
  int wrong_guesses_ = 0;
  bool waits_ = false;
};

}  // namespace coxswain::data
