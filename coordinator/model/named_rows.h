// A table whose rows have names, for finding the nearest names.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/model/nearest.h"
#include "coordinator/model/saved_reader.h"
#include "runtime/data/dataset.h"
#include "runtime/env/compute_pool.h"

namespace coxswain::model {

class NamedRows {
 public:
  // "king", or "king - man + woman": words with their signs, each vector of length 1.
  struct Question {
    std::string text;  // for messages
    std::vector<std::pair<std::string, double>> terms;
  };
  struct Answer {
    int64_t id = 0;
    std::string name;
    float cosine = 0;
  };

  // `table`: empty for the only table that has a vocabulary of its own name. Errors:
  // InvalidArgument for a table without a vocabulary, or when there are several such tables;
  // NotFound; those of reading. `words`: the table's vocabulary, if it is already in memory; else
  // it is read.
  static absl::StatusOr<NamedRows> Open(const SavedSource& source, const std::string& table,
                                        std::shared_ptr<const data::Vocabulary> words = nullptr);
  NamedRows() = default;  // empty

  const std::string& table() const { return rows_.variable().name; }
  const std::string& vocabulary() const { return rows_.variable().vocabulary; }
  // For each question, the exact `top` nearest names by cosine, best first, without the words of
  // the question. Reads all rows. Errors: NotFound for a word that has no row, with similar names;
  // FailedPrecondition for a word whose vector is zero or not finite; those of reading.
  absl::StatusOr<std::vector<std::vector<Answer>>> Nearest(const std::vector<Question>& questions,
                                                           int64_t top,
                                                           env::ComputePool* pool) const;

 private:
  absl::StatusOr<NearestQuery> QueryOf(const Question& question) const;
  const std::vector<std::string>& names() const {
    return shared_ != nullptr ? *shared_->texts() : own_->words();
  }
  std::optional<int64_t> Find(const std::string& word) const;

  SavedRows rows_;
  std::shared_ptr<const data::Vocabulary> shared_;  // or
  std::shared_ptr<const SavedWords> own_;
};

}  // namespace coxswain::model
