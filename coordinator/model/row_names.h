// What the rows of a table are called: by the vocabulary of its feature, or by the values that were
// hashed into its ids (keep_names).
//
// Thread model: immutable; thread-safe. A copy shares the names.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/model/hashed_names.h"
#include "coordinator/model/saved_reader.h"
#include "runtime/data/vocabulary.h"

namespace coxswain::model {

class RowNames {
 public:
  RowNames() = default;  // no row has a name
  // Of a variable of the source. `vocabulary`: that of its feature where it is in memory already;
  // else it is read. Errors: DataLoss naming a file that is not as it was saved; those of reading.
  static absl::StatusOr<RowNames> Read(
      const SavedSource& source, const SavedVariable& variable,
      std::shared_ptr<const data::Vocabulary> vocabulary = nullptr);

  bool any() const { return texts_ != nullptr; }
  // The number of ids that have a name.
  int64_t named_ids() const;
  // Buckets of unknown values have none, nor have ids that no value of the training part has.
  bool Has(int64_t id) const;
  // Empty when there is none.
  std::string Of(int64_t id) const;
  // The id of a row by a name that `any` is true of. A value that was hashed is found by its hash:
  // in a hash table also one whose name was not kept. Errors: NotFound with similar names.
  absl::StatusOr<int64_t> IdOf(const std::string& name) const;

 private:
  std::string feature_;
  std::shared_ptr<const data::Vocabulary> shared_;  // or
  std::shared_ptr<const SavedWords> words_;         // or
  std::shared_ptr<const HashedNames> hashed_;
  bool bucketed_ = false;                            // of `hashed_`: ids are buckets
  const std::vector<std::string>* texts_ = nullptr;  // of one of them
};

}  // namespace coxswain::model
