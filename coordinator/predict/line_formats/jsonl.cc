// jsonl: one object per line.
//
//   a number         {"prediction": 3.5}
//   a probability    {"score": ..., "probability": ...}
//   tasks            {"click": {"score": ..., "probability": ...}, "stars": {"prediction": ...}}
//   classes          {"classes": [...], "scores": [...], "probabilities": [...]}
//   items            {"items": [...], "scores": [...]}
#include <cmath>

#include "absl/strings/str_cat.h"
#include "coordinator/predict/line_formats/format_list.h"
#include "nlohmann/json.hpp"

namespace coxswain::predict {
namespace {

// null if it is not finite.
void AppendJsonNumber(float number, std::string* line) {
  if (std::isfinite(number)) {
    AppendNumber(number, line);
  } else {
    line->append("null");
  }
}

// `at`: its place among the numbers of all rows, and of all tasks.
void AppendScore(bool chance, const Scores& scores, size_t at, std::string* lines) {
  if (chance) {
    lines->append("\"score\": ");
    AppendJsonNumber(scores.score.data<float>()[at], lines);
    lines->append(", ");
  }
  lines->append(chance ? "\"probability\": " : "\"prediction\": ");
  AppendJsonNumber(scores.prediction.data<float>()[at], lines);
}

void AppendTasks(const Predictor& predictor, const Scores& scores, int64_t row,
                 std::string* lines) {
  const std::vector<job::TaskSpec>& tasks = predictor.tasks();
  for (size_t t = 0; t < tasks.size(); ++t) {
    absl::StrAppend(lines, t > 0 ? ", " : "", "\"", tasks[t].name, "\": {");
    AppendScore(SaysChance(tasks[t]), scores, static_cast<size_t>(row) * tasks.size() + t, lines);
    lines->push_back('}');
  }
}

void AppendChoices(const LineContent& content, const Scores& scores, int64_t row,
                   std::string* lines) {
  std::string names, numbers, chances;
  for (const Choice& choice : content.predictor->Best(scores, row, content.top)) {
    const char* const comma = names.empty() ? "" : ", ";
    // Names may be any bytes of the data.
    absl::StrAppend(&names, comma,
                    nlohmann::json(content.predictor->NameOf(choice.id))
                        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    absl::StrAppend(&numbers, comma);
    AppendJsonNumber(choice.score, &numbers);
    absl::StrAppend(&chances, comma);
    AppendJsonNumber(choice.probability, &chances);
  }
  const bool classes = content.predictor->says() == job::PredictionKind::kClasses;
  absl::StrAppend(lines, classes ? "\"classes\": [" : "\"items\": [", names, "], \"scores\": [",
                  numbers, "]");
  if (classes) absl::StrAppend(lines, ", \"probabilities\": [", chances, "]");
}

void Append(const LineContent& content, const Scores& scores, int64_t row, int64_t line,
            std::string* lines) {
  const Predictor& predictor = *content.predictor;
  lines->push_back('{');
  if (content.lines) absl::StrAppend(lines, "\"line\": ", line, ", ");
  if (predictor.chooses()) {
    AppendChoices(content, scores, row, lines);
  } else if (!predictor.tasks().empty()) {
    AppendTasks(predictor, scores, row, lines);
  } else {
    AppendScore(predictor.says() == job::PredictionKind::kProbability, scores,
                static_cast<size_t>(row), lines);
  }
  lines->append("}\n");
}

}  // namespace

const LineFormat& JsonLines() {
  static constexpr LineFormat kFormat = {
      .name = "jsonl", .help = "with one object per line", .append = Append};
  return kFormat;
}

}  // namespace coxswain::predict
