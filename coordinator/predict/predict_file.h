// Predicts the rows of a file, or of a pipe, in memory that does not grow with it: blocks of rows
// are read one after the other, predicted on all threads of a pool, and written in their order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/predict/prediction_lines.h"
#include "coordinator/predict/predictor.h"
#include "runtime/data/data_format.h"
#include "runtime/data/kept_columns.h"

namespace coxswain::predict {

struct PredictFileOptions {
  std::string input;  // "-": standard input
  int64_t top = 0;    // see PredictionLines
  // Rows that cannot be read are left out and reported; otherwise the first of them ends the
  // prediction. Each output line then begins with the line number in the input; of a file of
  // columns, with the number of the row.
  bool skip_bad_rows = false;
  const LineFormat* format = LineFormats()[0];  // of the output
  // Columns of the input that the lines begin with; "*": all.
  std::vector<std::string> keep = {};
  int threads = 0;  // 0: as many as the machine has
  size_t block_bytes = size_t{256} << 10;
  std::function<bool()> stopped = {};  // called from time to time; true ends the prediction
};

struct PredictedRows {
  int64_t rows = 0;
  int64_t skipped = 0;
  std::vector<std::string> first_skipped;  // errors of the first few
};

// Receives the next piece of the output; an error ends the prediction.
using WriteText = std::function<absl::Status(absl::string_view)>;

// Errors: NotFound for a column that the input does not have; those of KeptColumns and of
// PredictionLines::Keep, before anything is written; InvalidArgument "file:line:column:
// ..." for a row that cannot be read; Cancelled when it was stopped; those of `write`.
absl::StatusOr<PredictedRows> PredictFile(const Predictor& predictor,
                                          const PredictFileOptions& options,
                                          const WriteText& write);

// The rows of a block that can be read, in their order, in one or more pieces; the errors of the
// others.
struct GoodRows {
  std::vector<data::InputRows> pieces;
  std::vector<data::KeptRows> kept;  // parallel to the pieces, if columns are kept
  std::vector<std::string> errors;
  absl::Status status;  // what is wrong with more than rows: then nothing was read
  int64_t rows() const;
};
// `keep`: columns that are kept; null: none.
GoodRows ReadGoodRows(const data::RowReader& reader, const data::FileBlock& block,
                      const data::KeptColumns* keep = nullptr);

}  // namespace coxswain::predict
