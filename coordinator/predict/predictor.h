// A saved model that predicts in this process: its scoring function on the saved variables, built
// by the same code that builds functions for training.
//
// Thread model: immutable after Load; Predict is thread-safe.
#pragma once

#include <cstdint>
#include <functional>
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
#include "coordinator/model/product_model.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/predict/newest_values.h"
#include "coordinator/predict/remote_model.h"
#include "coordinator/predict/saved_variables.h"
#include "runtime/data/dataset.h"
#include "runtime/data/row_reader.h"
#include "runtime/env/compute_pool.h"
#include "runtime/function/executor.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/op.h"

namespace coxswain::predict {

struct LoadOptions {
  // The format of the rows to predict, see RowsToPredict.
  std::string row_format = {};
  // Also reads all tables and verifies their checksums; else only the small files are verified.
  bool verify = false;
  // Where the model's values are and its functions run; none: in this process.
  OpenCluster open_cluster = nullptr;
};

// What the inputs beside a job's checkpoints hold, vocabularies above all, in memory: predictors of
// several checkpoints share it. Used by one loading predictor at a time.
struct SharedInputs {
  std::string identity;  // of the files and of the format of rows; empty: nothing was read yet
  job::JobSpec job;
  std::shared_ptr<const data::Dataset> data;
};

// A directory of checkpoints, or the directory of one checkpoint.
struct CheckpointPlace {
  std::string directory;
  std::optional<uint64_t> number = std::nullopt;  // else the newest that is good
  bool verified = false;                          // the bytes of all its files were, just now
  // The tables of other checkpoints of the job, which share memory; may be null.
  std::shared_ptr<model::CheckpointTables> tables = nullptr;
  std::string row_format = {};  // as in LoadOptions
  // Used where the inputs are still the same, else read anew; may be null.
  std::shared_ptr<SharedInputs> inputs = nullptr;
  OpenCluster open_cluster = nullptr;  // as in LoadOptions
};

// The scores of rows.
struct Scores {
  // Before the loss's link function: f32 [n]; of classes, items and tasks [n, width].
  Tensor score;
  // After the link function: probabilities, or the same numbers; none for items.
  Tensor prediction;
  // Of items that a cluster has searched: which these are, i64 [n, width], best first, and no
  // others. Else none: there is a score for every item.
  Tensor ids = {};
};

// The vectors of users, f32 [n, dim]; and what the scores of each have in common, f32 [n], or none.
struct UserVectors {
  Tensor vectors;
  Tensor offset;
};

// The vectors of all items, f32 [ids, dim]; and a number for each, f32 [ids], or none.
struct ItemVectors {
  Tensor vectors;
  Tensor bias;
};

// One of a row's classes or items.
struct Choice {
  int64_t id = 0;
  float score = 0;
  float probability = 0;  // for classes
};

class Predictor {
 public:
  // Reads a directory that SaveModel wrote. The training data is not needed, and the directory may
  // have been moved. Errors: those of ReadModelInfo and ReadLearned; DataLoss naming a damaged
  // file; FailedPrecondition for a kind of model that has no predictions for rows; Unavailable for
  // a directory that is replaced again and again meanwhile.
  static absl::StatusOr<std::unique_ptr<Predictor>> Load(const std::string& directory,
                                                         const LoadOptions& options = {});
  // The same for a checkpoint, whose files are verified against their checksums, and the inputs
  // beside it (see model/saved_inputs.h). Without a number, the log has what is wrong with newer
  // ones. Errors: also those of CheckInputsFit and ChooseNumber.
  static absl::StatusOr<std::unique_ptr<Predictor>> LoadCheckpoint(const CheckpointPlace& place);

  const job::JobSpec& job() const { return job_; }
  // Of the model, or of a checkpoint's inputs.
  const std::string& directory() const { return directory_; }
  int64_t steps() const { return steps_; }  // training steps
  job::PredictionKind says() const { return says_; }
  // What kTasks says of each row; none of other models.
  const std::vector<job::TaskSpec>& tasks() const { return job_.tasks; }
  bool chooses() const {
    return says_ == job::PredictionKind::kClasses || says_ == job::PredictionKind::kRank;
  }
  // Reads rows into batches for Predict.
  const data::RowReader& rows() const { return *reader_; }
  // The number of rows to predict at once, limited by the memory that their scores take.
  int64_t batch_rows() const { return batch_rows_; }

  // Errors: InvalidArgument for a batch that was not made by rows(); those of kernels, and of the
  // cluster. `top`: how many of the best choices a row is asked for; on a cluster an item that is
  // not among them has no score.
  absl::StatusOr<Scores> Predict(const data::Batch& batch, int64_t top = 0) const;

  // Whether a cluster predicts; how many batches it works on at once; else 0. On a cluster all but
  // the functions up to here and choices(), NameOf, IdOf, VocabularyOf and Best is for models in
  // this process.
  bool remote() const { return remote_ != nullptr; }
  int remote_batches() const { return remote() ? remote_->closures() : 0; }
  // Ends what a cluster predicts with Cancelled, now and later. From any thread.
  void Interrupt() const {
    if (remote()) remote_->Cancel();
  }

  // Whether it can be asked for the items that score highest for a user: a score is the product of
  // a user's and an item's vector, and the items are known.
  bool suggests() const { return product_ != nullptr; }
  // Of such a model, on batches of user_rows(), of which user_batch_rows() are taken at once; a
  // batch that describes items too is none of these. The scores of all items, of which the `top`
  // best are wanted, before the loss's link function. Errors: those of Predict.
  const data::RowReader& user_rows() const { return user_reader_ ? *user_reader_ : *reader_; }
  int64_t user_batch_rows() const { return user_batch_rows_; }
  absl::StatusOr<Scores> ScoreItems(const data::Batch& batch, int64_t top) const;
  // The vectors that scores are products of; not of a model on a cluster.
  bool has_vectors() const { return items_.function != nullptr; }
  absl::StatusOr<UserVectors> VectorsOf(const data::Batch& batch) const;
  absl::StatusOr<ItemVectors> AllItems() const;

  // For export to other formats: the scoring function, and the content of a shard that its ops
  // read. Errors: InvalidArgument for a hash table.
  const graph::Function& function() const { return scores_.function->function(); }
  absl::StatusOr<Tensor> Variable(ShardId shard) const { return variables_->Read(shard); }

  // Classes, or items that can be an answer or suggested; 0 for a number of anything else.
  int64_t choices() const { return choices_; }
  // The name of a choice: its text in the vocabulary, or its number.
  std::string NameOf(int64_t id) const;
  // Nullopt for an unknown name.
  std::optional<int64_t> IdOf(absl::string_view name) const;
  // How the values of a feature become ids; null of a feature without ids.
  std::shared_ptr<const data::Vocabulary> IdsOf(const std::string& feature) const {
    return data_->shared_vocabulary(feature);
  }
  // The vocabulary of a feature; null if it has none.
  std::shared_ptr<const data::Vocabulary> VocabularyOf(const std::string& feature) const;
  // Number of ids of the item feature, including buckets of unknown values.
  int64_t item_ids() const { return data_->vocabulary_size(item()); }
  std::string item() const { return job::ItemOf(*job_.model); }
  // The best `top` choices of a row, best first; among equal scores the lower id comes first.
  // `left_out`: ids to leave out, ascending.
  std::vector<Choice> Best(const Scores& scores, int64_t row, int64_t top,
                           absl::Span<const int64_t> left_out = {}) const;

 private:
  Predictor() : pool_(env::NewInlinePool()) {}
  // `side_tables`: their version, see model/saved_side_tables.h.
  absl::Status ReadJob(const std::string& directory, const model::ManifestKind& kind,
                       std::string side_tables);
  void UseJob(const std::string& directory, job::JobSpec job);
  absl::Status Build(model::SavedSource source, std::shared_ptr<model::CheckpointTables> tables,
                     const std::string& row_format, const OpenCluster& open_cluster);
  // A function and, for each of its arguments, the index of a column in a batch.
  struct OnBatches {
    std::shared_ptr<const function::CompiledFunction> function;
    RemoteFunction on_cluster;  // in its place
    std::vector<size_t> arguments;
  };
  using BuildGraph = std::function<void(FunctionBuilder&)>;
  // The form of rows, and the data set that they are of.
  absl::StatusOr<proto::DatasetSpec> MakeData(const std::string& row_format);
  absl::Status BuildFunctions(const proto::DatasetSpec& spec);
  absl::Status BuildItemFunctions(const proto::DatasetSpec& spec, const model::ModelParts& parts);
  bool says_items() const { return says_ == job::PredictionKind::kRank; }
  // The place has a number, or is one checkpoint.
  static absl::StatusOr<std::unique_ptr<Predictor>> LoadOneCheckpoint(const CheckpointPlace& place);
  static absl::StatusOr<std::unique_ptr<Predictor>> LoadOnce(const std::string& directory,
                                                             const LoadOptions& options);
  absl::StatusOr<graph::Function> BuildOne(const char* name, const BuildGraph& build) const;
  absl::StatusOr<OnBatches> OnRows(graph::Function built, const BuildGraph& build,
                                   const data::RowReader& rows) const;
  absl::StatusOr<Scores> SearchItems(const data::Batch& batch, int64_t top) const;
  // The columns of batches that these functions take.
  absl::StatusOr<data::RowReader> ReaderOf(const proto::DatasetSpec& spec,
                                           const graph::Function& function) const;
  absl::StatusOr<std::vector<Tensor>> Run(const OnBatches& f, const data::Batch& batch) const;
  void NameChoices();

  std::string directory_;
  int64_t steps_ = 0;
  job::JobSpec job_;
  job::PredictionKind says_ = job::PredictionKind::kNumber;
  std::shared_ptr<const data::Dataset> data_;  // without rows
  graph::OpRegistry registry_;
  std::unique_ptr<SavedVariables> variables_;  // or, on a cluster:
  std::unique_ptr<RemoteModel> remote_;
  std::unique_ptr<data::RowReader> reader_;
  std::unique_ptr<data::RowReader> user_reader_;  // null: that of all rows
  const model::ProductModel* product_ = nullptr;  // job_'s model, if it suggests items
  NewestValues newest_;                           // of what the reader reads
  OnBatches scores_;
  OnBatches users_, items_, item_scores_;         // where it suggests items
  const std::unique_ptr<env::ComputePool> pool_;  // without threads: a run stays on its thread
  int64_t choices_ = 0;
  int64_t batch_rows_ = 0, user_batch_rows_ = 0;
  std::shared_ptr<const data::Vocabulary> names_;  // of choices; null: they are numbers
};

}  // namespace coxswain::predict
