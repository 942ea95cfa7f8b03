#include "coordinator/predict/prediction_lines.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/data/names.h"

namespace coxswain::predict {
namespace {

constexpr int64_t kItems = 10;

}  // namespace

PredictionLines::PredictionLines(const Predictor* predictor, int64_t top, bool with_lines,
                                 const LineFormat* format)
    : format_(format) {
  content_.predictor = predictor;
  content_.numbered = top > 0 || predictor->says() == job::PredictionKind::kRank;
  content_.lines = with_lines;
  const int64_t wanted = top > 0 ? top : content_.numbered ? kItems : 1;
  content_.top = std::min(wanted, predictor->choices());
}

absl::Status PredictionLines::Keep(const std::vector<std::string>& columns) {
  const std::vector<std::string> names = format_->names(content_);
  for (const std::string& column : columns) {
    if (std::find(names.begin(), names.end(), column) == names.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--keep: wanted columns that differ in name from those of the predictions, found ",
        data::Quoted(column), ", which is also one of ", absl::StrJoin(names, ", "),
        ": rename it in the input"));
  }
  content_.kept = columns;
  return absl::OkStatus();
}

std::string PredictionLines::Header() const {
  return format_->header == nullptr ? "" : format_->header(content_);
}

void PredictionLines::Append(const data::InputRows& rows, int64_t begin, const Scores& scores,
                             std::string* lines, const data::KeptRows* kept) const {
  const int64_t n = scores.score.dim(0);
  for (int64_t row = 0; row < n; ++row) {
    const int64_t line = content_.lines ? rows.LineOf(begin + row) : 0;
    format_->append(content_, scores, {row, line, kept, begin + row}, lines);
  }
}

}  // namespace coxswain::predict
