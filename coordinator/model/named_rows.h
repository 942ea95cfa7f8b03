// A table whose rows have names, for finding the nearest names.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/model/nearest.h"
#include "coordinator/model/row_names.h"
#include "coordinator/model/saved_reader.h"
#include "coordinator/model/vector_index.h"
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

  // `table`: empty for the only table that has the name of the feature whose values its rows are
  // called by. Errors: InvalidArgument for a table whose rows have no names, or when there are
  // several such tables; NotFound; those of reading. `words`: the table's vocabulary, if it is
  // already in memory; else it is read.
  static absl::StatusOr<NamedRows> Open(const SavedSource& source, const std::string& table,
                                        std::shared_ptr<const data::Vocabulary> words = nullptr);
  NamedRows() = default;  // empty
  // The rows of the checkpoint that it was opened from are taken from memory, which they share with
  // other versions of the job's tables: from then on no question reads a file. Hash tables stay as
  // they are. Errors: those of SavedSource::LoadTable.
  absl::Status KeepInMemory(const SavedSource& source, CheckpointTables* tables);

  // The vectors of all ids, f32 [ids, dim], are taken in place of the table's rows: of items, whose
  // rows are not all that their vectors are made of. Errors: InvalidArgument for another shape.
  absl::Status UseVectors(Tensor vectors);

  const std::string& table() const { return rows_.variable().name; }
  const std::string& feature() const { return rows_.variable().feature(); }
  // The number of rows that may have a name.
  int64_t size() const { return names_.named_ids(); }
  // The same with an index, which Nearest then goes by. Reads all rows, several times. Errors:
  // Cancelled; FailedPrecondition when the recall that is wanted cannot be had; those of reading;
  // ResourceExhausted.
  absl::StatusOr<NamedRows> WithIndex(const IndexOptions& options, env::ComputePool* pool) const;
  // How good the index is; null: there is none.
  const IndexQuality* index() const { return index_ == nullptr ? nullptr : &quality_; }

  // For each question, the `top` nearest names by cosine, best first, without the words of the
  // question. Without an index, or if `exact`: reads all rows. Errors: NotFound for a word that has
  // no row, with similar names; FailedPrecondition for a word whose vector is zero or not finite;
  // those of reading.
  absl::StatusOr<std::vector<std::vector<Answer>>> Nearest(const std::vector<Question>& questions,
                                                           int64_t top, env::ComputePool* pool,
                                                           bool exact = false) const;

 private:
  using Lists = std::vector<std::vector<Neighbour>>;
  absl::Status FillIndex(const IndexOptions& options, VectorIndex* index) const;
  absl::StatusOr<std::vector<IndexQuery>> SampleRows() const;
  // By the index; exactly where it finds fewer than there are.
  absl::StatusOr<Lists> Search(const std::vector<NearestQuery>& queries, int64_t top,
                               env::ComputePool* pool) const;
  absl::StatusOr<NearestQuery> QueryOf(const Question& question) const;
  RowScan Scan() const;
  // Of a block that is in memory: the row of this place, f32.
  void CopyRow(int64_t position, float* out) const;
  absl::StatusOr<int64_t> PlaceOf(int64_t id) const;
  absl::Status ReadRow(int64_t position, float* out) const;
  bool in_memory() const { return memory_.has_value() || has_vectors(); }
  bool has_vectors() const { return vectors_.rank() == 2; }
  int64_t dim() const { return has_vectors() ? vectors_.dim(1) : rows_.row_elements(); }
  int64_t rows() const { return has_vectors() ? vectors_.dim(0) : rows_.rows(); }
  std::function<bool(int64_t id)> HasName() const;

  SavedRows rows_;
  std::optional<SavedTensors> memory_;              // its `rows`
  Tensor vectors_ = Tensor(DType::kF32, Shape{0});  // or, of rank 2, what is used instead
  RowNames names_;
  std::shared_ptr<const VectorIndex> index_;  // of rows of length 1; null: none
  IndexQuality quality_;
};

}  // namespace coxswain::model
