// The values that were hashed into the ids of a table, of a feature with keep_names.
//
// Several values may share an id, a bucket. It is called by the first few of them, in the order of
// the file, in which the frequent ones of the training part come first: "a | b | c | +2".
//
// Thread model: immutable; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace coxswain::model {

// How an id is called that all of `names` share: the first three, and how many others there are.
std::string NameOfBucket(absl::Span<const std::string> names);

class HashedNames {
 public:
  // `path`: of a file as runtime/data/vocabulary_file.h describes it, which was verified.
  // `buckets`: as in the feature; 0: ids are 64-bit hashes. Errors: DataLoss; those of reading.
  static absl::StatusOr<HashedNames> Load(const std::string& path, int64_t buckets);

  // All names, in the order of the file.
  const std::vector<std::string>& names() const { return names_; }
  // The number of ids that have a name.
  int64_t named_ids() const { return named_ids_; }
  bool Has(int64_t id) const { return !OfId(id).empty(); }
  // Empty when no name was kept.
  std::string Of(int64_t id) const;
  // The id of any value, and whether it is one of the names.
  int64_t IdOf(absl::string_view value) const;
  bool Knows(absl::string_view value) const;

 private:
  using ById = std::pair<int64_t, int32_t>;  // an id, and the place of one of its names

  HashedNames() = default;
  absl::Span<const ById> OfId(int64_t id) const;

  int64_t buckets_ = 0;
  int64_t named_ids_ = 0;
  std::vector<std::string> names_;
  std::vector<ById> by_id_;  // sorted
};

}  // namespace coxswain::model
