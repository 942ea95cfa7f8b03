// A saved model in a program: what `coxswain train --model-dir` wrote, or a checkpoint of a job, as
// a function of rows. It needs neither a cluster nor the data that it was trained on.
//
//   COX_ASSIGN_OR_RETURN(cox::SavedModel model, cox::SavedModel::Load("model"));
//   COX_ASSIGN_OR_RETURN(std::vector<cox::Prediction> says,
//                        model.Predict({.columns = {"user", "film"}, .rows = {{"ada", "Heat"}}}));
//
// Thread model: a SavedModel is a handle that is cheap to copy; all methods are thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain {

namespace predict {
class Predictor;
}  // namespace predict

// A raw value, as in a field of the training data; the model converts it to an id or a number. A
// vector is for features with several values; an empty text in it is a missing one. Monostate: an
// empty field.
using RawValue =
    std::variant<std::monostate, std::string, int64_t, double, std::vector<std::string>>;

// Rows of raw values. Columns are found by name, in any order; columns that the model does not read
// are ignored.
struct RawRows {
  std::vector<std::string> columns = {};
  std::vector<std::vector<RawValue>> rows = {};  // each parallel to `columns`
};

// A class, an item, or a task of a model of several.
struct RankedChoice {
  std::string name;  // its value in the data; for numbered classes the number
  float score = 0;
  float probability = 0;  // of a class; of a task what is predicted, a probability or a number
};

// The model's prediction for a row.
struct Prediction {
  float score = 0;  // before the loss's link function; for choices, that of the best
  // The predicted number, or the probability; for classes, that of the best. 0 for items.
  float value = 0;
  // Of classes and items: the best, best first. Of tasks all of them, in the job's order; `score`
  // and `value` are the first one's.
  std::vector<RankedChoice> choices;
};

// A column that rows must have.
struct RawColumn {
  enum class Kind : uint8_t { kNumber, kValue, kValues };
  std::string name;
  Kind kind = Kind::kValue;
  bool optional = false;  // a row of the training files may lack it, which is an empty field
};

class SavedModel {
 public:
  enum class Says : uint8_t { kNumber, kProbability, kClasses, kItems, kTasks };

  struct Options {
    bool verify = false;  // reads all tables and verifies their checksums
  };

  // Maps the model's tables into memory. The directory must not be changed while it is used, but
  // may be replaced or removed. Errors: NotFound; DataLoss naming a damaged file;
  // FailedPrecondition for a model of a later version, and for one that has no predictions for rows
  // (word2vec).
  static absl::StatusOr<SavedModel> Load(const std::string& directory, const Options& options);
  static absl::StatusOr<SavedModel> Load(const std::string& directory) {
    return Load(directory, Options());
  }

  // Loads the newest complete checkpoint of a directory (`--checkpoint-dir`), or the checkpoint
  // that the path names; its tables are read into memory. Errors: also NotFound when the job that
  // wrote it has left no `inputs/`; FailedPrecondition when these belong to another job.
  static absl::StatusOr<SavedModel> LoadCheckpoint(const std::string& directory);

  Says says() const;
  const std::vector<RawColumn>& columns() const;
  // One prediction for each row, with the best `top` classes or items, computed in the calling
  // thread. Errors: NotFound for a missing column; InvalidArgument naming the row and the column of
  // a value that cannot be read.
  absl::StatusOr<std::vector<Prediction>> Predict(const RawRows& rows, int64_t top = 1) const;

  // Within Coxswain.
  explicit SavedModel(std::shared_ptr<const predict::Predictor> predictor);
  const predict::Predictor& predictor() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace coxswain
