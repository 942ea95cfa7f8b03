// A saved model that predicts in this process: its scoring function, built by the code that builds
// what is trained, on the saved variables.
//
// Thread model: immutable after Load; Predict may be called from any thread, at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/predict/saved_variables.h"
#include "runtime/data/dataset.h"
#include "runtime/data/row_reader.h"
#include "runtime/env/compute_pool.h"
#include "runtime/function/executor.h"
#include "runtime/graph/op.h"

namespace coxswain::predict {

struct LoadOptions {
  // Of the rows that are to be predicted, see RowsToPredict.
  std::string row_format = {};
  // Also reads all of the tables and holds them against their checksums; else only what is small.
  bool verify = false;
};

// A checkpoint of a directory of them, or the directory of one.
struct CheckpointPlace {
  std::string directory;
  std::optional<uint64_t> number = std::nullopt;  // else the newest whose manifest is good
  // What other checkpoints of the job have in memory; null: nothing.
  std::shared_ptr<model::CheckpointFiles> files = nullptr;
  std::string row_format = {};  // as in LoadOptions
};

// What a model says of rows.
struct Scores {
  // Before the loss's link function: f32 [n]; of classes, items and tasks [n, width].
  Tensor score;
  // Behind it: probabilities, or the same numbers; none for items.
  Tensor prediction;
};

// One of a row's classes or items.
struct Choice {
  int64_t id = 0;
  float score = 0;
  float probability = 0;  // of classes
};

class Predictor {
 public:
  // Reads a directory that SaveModel wrote; the data that it was trained on is not needed, nor that
  // the directory is where it was. Errors: those of ReadModelInfo and ReadLearned; DataLoss naming
  // a damaged file; FailedPrecondition for a kind of model that predicts nothing of rows.
  static absl::StatusOr<std::unique_ptr<Predictor>> Load(const std::string& directory,
                                                         const LoadOptions& options = {});
  // The same of a checkpoint, whose files are held against their checksums as they are read, and of
  // the inputs beside it (see model/saved_inputs.h). Errors: also those of CheckInputsFit.
  static absl::StatusOr<std::unique_ptr<Predictor>> LoadCheckpoint(const CheckpointPlace& place);

  const job::JobSpec& job() const { return job_; }
  // Of the model, or of a checkpoint's inputs.
  const std::string& directory() const { return directory_; }
  int64_t steps() const { return steps_; }  // of its training
  job::PredictionKind says() const { return says_; }
  // What kTasks says of each row; none of other models.
  const std::vector<job::TaskSpec>& tasks() const { return job_.tasks; }
  bool chooses() const {
    return says_ == job::PredictionKind::kClasses || says_ == job::PredictionKind::kRank;
  }
  // Reads what Predict takes.
  const data::RowReader& rows() const { return *reader_; }
  // How many rows are worth predicting at once, by the memory that their scores take.
  int64_t batch_rows() const { return batch_rows_; }

  // Errors: InvalidArgument for a batch that is not of rows(); those of kernels.
  absl::StatusOr<Scores> Predict(const data::Batch& batch) const;

  // For those who write it in other formats: the scoring function, and what its ops read of a
  // shard. Errors: InvalidArgument for a hash table.
  const graph::Function& function() const { return function_->function(); }
  absl::StatusOr<Tensor> Variable(ShardId shard) const { return variables_->Read(shard); }

  // Classes, or items that can be an answer; 0 for a number.
  int64_t choices() const { return choices_; }
  // What people call one of them: its text in the vocabulary, or its number.
  std::string NameOf(int64_t id) const;
  // Nothing for a name that is none's.
  std::optional<int64_t> IdOf(absl::string_view name) const;
  // The values of a feature; null where they have no texts.
  std::shared_ptr<const data::Vocabulary> VocabularyOf(const std::string& feature) const;
  // Ids that values of the item can have, buckets of unknown ones included.
  int64_t item_ids() const { return data_->vocabulary_size(job_.model->item()); }
  // The best `top` of a row, best first; of two alike the one with the lower id. `left_out`:
  // ids that are no answer, ascending.
  std::vector<Choice> Best(const Scores& scores, int64_t row, int64_t top,
                           absl::Span<const int64_t> left_out = {}) const;

 private:
  Predictor() : pool_(env::NewInlinePool()) {}
  absl::Status ReadJob(const std::string& directory, const model::ManifestKind& kind);
  absl::Status Build(model::SavedSource source, std::shared_ptr<model::CheckpointFiles> files,
                     const std::string& row_format);
  absl::Status BuildFunction(const std::string& row_format);
  void NameChoices();

  std::string directory_;
  int64_t steps_ = 0;
  job::JobSpec job_;
  job::PredictionKind says_ = job::PredictionKind::kNumber;
  std::unique_ptr<data::Dataset> data_;  // without rows
  graph::OpRegistry registry_;
  std::unique_ptr<SavedVariables> variables_;
  std::unique_ptr<data::RowReader> reader_;
  std::shared_ptr<const function::CompiledFunction> function_;
  const std::unique_ptr<env::ComputePool> pool_;  // none: a run belongs to its thread
  std::vector<size_t> arguments_;                 // of the function: places in a batch
  int64_t choices_ = 0;
  int64_t batch_rows_ = 0;
  std::shared_ptr<const data::Vocabulary> names_;  // of choices; null: they are numbers
};

}  // namespace coxswain::predict
