// The values of a feature by group (such as the items of each user), of all rows of a data set, in
// a file: for data sets whose rows are not in memory. What is read of it is in the system's cache
// of files, not in the process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/data/stream/shared_copies.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::data {

// What a group file has.
struct GroupTarget {
  int feature = 0;  // whose values: a categorical one of one value, by its number in the spec
  std::string group_by;
  std::string by;         // a group's values are in the order of this column; empty: they ascend
  bool held_out = false;  // values of all rows; else of the training part's
  bool only_positive = false;  // of them those that say yes, see FeatureSpec.only_positive

  friend bool operator==(const GroupTarget& a, const GroupTarget& b) {
    return a.feature == b.feature && a.group_by == b.group_by && a.by == b.by &&
           a.held_out == b.held_out && a.only_positive == b.only_positive;
  }
};

// What is said of a row.
struct GroupedRow {
  uint32_t group = 0;   // its number, by first appearance
  uint32_t before = 0;  // where values have an order: so many of its group's come before it
};

// The first bytes of the file. Then come, for each row in order, a GroupedRow; for each group an
// Extent; the values, 4 or 8 bytes each; for each group where its name ends; the names.
struct GroupFileHeader {
  uint64_t magic = 0;
  uint64_t key = 0;  // of what it is made of
  int64_t rows = 0, groups = 0, values = 0;
  int64_t value_bytes = 0;  // of one: 4 or 8
  int64_t names_bytes = 0;
  uint64_t hash = 0;  // of the above

  uint64_t Hash() const;
  int64_t extents_at() const;
  int64_t values_at() const;
  int64_t name_ends_at() const;
  int64_t names_at() const;
  int64_t file_bytes() const;
};

// Thread model: immutable.
class GroupFile {
 public:
  static constexpr uint64_t kMagic = 0x31707267786f63;  // "coxgrp1"

  // Where the values of a group are.
  struct Extent {
    int64_t begin = 0, size = 0;
  };

  // Whether a complete file is the one of this key.
  static bool Fits(const env::RandomAccessFile& file, uint64_t key);
  // One that fits. Errors of this and all others: DataLoss for a damaged file, or a disk that
  // cannot read it.
  static absl::StatusOr<std::shared_ptr<const GroupFile>> Open(
      std::shared_ptr<const SharedCopy> copy);

  int64_t rows() const { return header_.rows; }
  int64_t groups() const { return header_.groups; }
  // Of [first, first + out.size()).
  absl::Status ReadRows(int64_t first, absl::Span<GroupedRow> out) const;
  absl::Status ReadExtents(int64_t first, absl::Span<Extent> out) const;
  // Those at [from, from + out.size()) of a group.
  absl::Status ReadValues(const Extent& group, int64_t from, absl::Span<int64_t> out) const;
  // Those of groups [first, first + out.size()).
  absl::Status ReadNames(int64_t first, absl::Span<std::string> out) const;

 private:
  explicit GroupFile(std::shared_ptr<const SharedCopy> copy) : copy_(std::move(copy)) {}
  absl::Status Read(int64_t at, void* out, size_t bytes) const;
  absl::Status Damaged(absl::string_view what) const;

  const std::shared_ptr<const SharedCopy> copy_;
  GroupFileHeader header_;
};

}  // namespace coxswain::data
