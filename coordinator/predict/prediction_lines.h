// Predictions as lines of text, one a row, in a format of line_format.h.
//
// Numbers have as many digits as are needed to distinguish them from neighbouring f32 values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/predict/line_format.h"
#include "coordinator/predict/predictor.h"
#include "runtime/data/kept_columns.h"
#include "runtime/data/row_reader.h"

namespace coxswain::predict {

class PredictionLines {
 public:
  // `top`: number of classes or items; 0: one class, ten items. `with_lines`: each line begins with
  // where its row is in the input. `predictor` and `format` outlive it.
  PredictionLines(const Predictor* predictor, int64_t top, bool with_lines,
                  const LineFormat* format);

  // Columns of the input that come before what is predicted. Errors: InvalidArgument for a name
  // that lines have anyway.
  absl::Status Keep(const std::vector<std::string>& columns);

  // What comes before all lines; may be empty.
  std::string Header() const;
  // Appends the lines of these scores, which belong to the rows from `begin` on. `kept`: parallel
  // to the rows, of the columns that are kept; null: there are none. Thread-safe.
  void Append(const data::InputRows& rows, int64_t begin, const Scores& scores, std::string* lines,
              const data::KeptRows* kept = nullptr) const;
  // How many choices of a row a line has.
  int64_t top() const { return content_.top; }

 private:
  const LineFormat* const format_;
  LineContent content_;
};

}  // namespace coxswain::predict
