// What each group (a user) had in the training part, as a part of a saved model: by it a model is
// asked for a user's next items without the data that it was trained on.
//
//   history/groups.txt          the groups, one a line, as a vocabulary is written
//   history/values.safetensors  "offsets" i64 [groups + 1], and "values", i32 or i64: ids of the
//                               feature that the histories are of, ascending in each group,
//                               or in their order where the history has one (`by`)
//   history/ordered             only where they are in their order: by which column
//   history/incomplete          why there may be more that a group had: only where that is so
//
// Versions without history/ordered kept the order for a sasrec only; see CheckOrder.
//
// Of a job that went on from another model the groups have what they had there, too, once as often
// as in either of both, and groups that only the other one has are kept. Where the other model's
// histories are not kept, or are of other things, those of the job are incomplete.
//
// A model has them whose data set has a history, and one whose users are the values of a feature
// (job::UserOf), if its data was in memory: then a group is such a value; of unbounded ids
// without names (id: raw, or id: hash without keep_names) the id. Where users are hashed into
// buckets, nobody knows which of a bucket's users has what, and there are none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/job/job_spec.h"
#include "coxswain/tensor.h"
#include "runtime/data/dataset.h"
#include "runtime/env/file_system.h"

namespace coxswain::model {

struct EarlierModel;

// `earlier`: what training went on from; null: nothing. Errors: those of the file system.
absl::Status WriteHistory(const data::Dataset& data, const job::JobSpec& job,
                          const EarlierModel* earlier, env::FileSystem* files,
                          const std::string& directory);

// The column whose fields are the names of the groups; empty for a model without histories.
std::string GroupColumn(const job::JobSpec& job);

// Whether groups are called by the ids of their users, and not by the values themselves.
bool GroupsAreIds(const job::JobSpec& job);

// Thread model: immutable.
class SavedHistory {
 public:
  // Values are ids below `ids`. Errors: NotFound for a model without histories, or of a version
  // that did not keep them; DataLoss.
  static absl::StatusOr<SavedHistory> Load(const std::string& directory, int64_t ids);
  SavedHistory(SavedHistory&&) = default;  // a copy's keys would point into the original
  SavedHistory& operator=(SavedHistory&&) = default;

  const std::vector<std::string>& groups() const { return groups_; }
  // Whether it has all that its groups had wherever the model was trained.
  bool complete() const { return complete_; }
  std::optional<int64_t> Find(absl::string_view group) const;
  // As they were written, a repeated one as often.
  std::vector<int64_t> Values(int64_t group) const;
  // Of the values that a group has, the most.
  int64_t longest() const { return longest_; }
  // Whether the file says that they are in the order of the history's `by`.
  bool ordered() const { return ordered_; }

 private:
  SavedHistory() = default;

  std::vector<std::string> groups_;
  absl::flat_hash_map<absl::string_view, int64_t> ids_;  // into groups_
  Tensor offsets_, values_;
  int64_t longest_ = 0;
  bool complete_ = true, ordered_ = false;
};

// Whether the histories of a saved job can stand for what its model sees of them. Errors:
// FailedPrecondition where it sees the last values of longer ones, and an earlier version kept them
// without their order.
absl::Status CheckOrder(const SavedHistory& history, const job::JobSpec& job);

}  // namespace coxswain::model
