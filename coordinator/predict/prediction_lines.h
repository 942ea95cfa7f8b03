// Predictions as lines of CSV, one a row.
//
//   a number         prediction
//   a probability    score,probability
//   classes          class,score,probability; of several: class_1,score_1,probability_1,class_2,...
//   items            item_1,score_1,item_2,score_2,...
//
// Or as lines of JSON, an object each: {"prediction": 3.5}, {"score": ..., "probability": ...},
// {"classes": [...], "scores": [...], "probabilities": [...]}, {"items": [...], "scores": [...]}.
//
// Numbers have as many digits as are needed to distinguish them from neighbouring f32 values.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/predict/predictor.h"
#include "runtime/data/row_reader.h"

namespace coxswain::predict {

// Appends as many digits as are needed to distinguish the number from its neighbours.
void AppendNumber(float number, std::string* line);
// As a JSON number; null if it is not finite.
void AppendJsonNumber(float number, std::string* line);
// Quoted if necessary.
void AppendField(const std::string& text, std::string* line);

enum class LineFormat : uint8_t { kCsv, kJson };

class PredictionLines {
 public:
  // `top`: number of classes or items; 0: one class, ten items. `with_lines`: the first column,
  // "line", is where the row is in the input. `predictor` outlives it.
  PredictionLines(const Predictor* predictor, int64_t top, bool with_lines,
                  LineFormat format = LineFormat::kCsv);

  std::string Header() const;  // empty for JSON
  // Appends the lines of these scores, which belong to the rows from `begin` on. Thread-safe.
  void Append(const data::InputRows& rows, int64_t begin, const Scores& scores,
              std::string* lines) const;
  // How many choices of a row a line has.
  int64_t top() const { return top_; }

 private:
  void AppendChoices(const Scores& scores, int64_t row, std::string* lines) const;
  void AppendCsv(const Scores& scores, int64_t row, std::string* lines) const;
  void AppendJson(const Scores& scores, int64_t row, std::string* lines) const;

  const Predictor* const predictor_;
  const bool numbered_;  // columns of choices
  int64_t top_ = 0;
  const bool with_lines_;
  const LineFormat format_;
};

}  // namespace coxswain::predict
