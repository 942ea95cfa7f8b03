// jsonl: one object per line.
//
//   a number         {"prediction": 3.5}
//   a probability    {"score": ..., "probability": ...}
//   tasks            {"click": {"score": ..., "probability": ...}, "stars": {"prediction": ...}}
//   classes          {"classes": [...], "scores": [...], "probabilities": [...]}
//   items            {"items": [...], "scores": [...]}
#include <cmath>

#include "absl/strings/str_cat.h"
#include "coordinator/model/task_model.h"
#include "coordinator/predict/line_formats/format_list.h"
#include "nlohmann/json.hpp"

namespace coxswain::predict {
namespace {

// Names may be any bytes of the data.
std::string JsonText(absl::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

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
    AppendScore(model::SaysProbability(tasks[t]), scores,
                static_cast<size_t>(row) * tasks.size() + t, lines);
    lines->push_back('}');
  }
}

void AppendChoices(const LineContent& content, const Scores& scores, int64_t row,
                   std::string* lines) {
  std::string names, numbers, chances;
  for (const Choice& choice : content.predictor->Best(scores, row, content.top)) {
    const char* const comma = names.empty() ? "" : ", ";
    absl::StrAppend(&names, comma, JsonText(content.predictor->NameOf(choice.id)));
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

void AddTasks(const LineContent& content, std::vector<std::string>* names) {
  for (const job::TaskSpec& task : content.predictor->tasks()) names->push_back(task.name);
}

void AddChoices(const LineContent& content, std::vector<std::string>* names) {
  const bool items = content.predictor->says() == job::PredictionKind::kRank;
  names->insert(names->end(), {items ? "items" : "classes", "scores"});
  if (!items) names->push_back("probabilities");
}

std::vector<std::string> Names(const LineContent& content) {
  return NamesOfLine(content, AddTasks, AddChoices);
}

// Of a file of columns the values that JSON has, too, are these; others, and all fields of a file
// of text, are strings: nothing says what "007" is.
void AppendKept(const LineContent& content, const LineRow& row, std::string* lines) {
  using Kind = data::KeptTexts::Kind;
  for (size_t i = 0; i < content.kept.size(); ++i) {
    const data::KeptTexts& texts = (*row.kept)[i];
    const absl::string_view text = texts.Text(row.kept_row);
    const Kind kind = texts.KindOf(row.kept_row);
    absl::StrAppend(lines, JsonText(content.kept[i]), ": ",
                    kind == Kind::kNone   ? "null"
                    : kind == Kind::kBare ? std::string(text)
                                          : JsonText(text),
                    ", ");
  }
}

void Append(const LineContent& content, const Scores& scores, const LineRow& row,
            std::string* lines) {
  const Predictor& predictor = *content.predictor;
  lines->push_back('{');
  if (content.lines) absl::StrAppend(lines, "\"line\": ", row.line, ", ");
  AppendKept(content, row, lines);
  if (predictor.chooses()) {
    AppendChoices(content, scores, row.row, lines);
  } else if (!predictor.tasks().empty()) {
    AppendTasks(predictor, scores, row.row, lines);
  } else {
    AppendScore(predictor.says() == job::PredictionKind::kProbability, scores,
                static_cast<size_t>(row.row), lines);
  }
  lines->append("}\n");
}

}  // namespace

const LineFormat& JsonLines() {
  static constexpr LineFormat kFormat = {.name = "jsonl",
                                         .help = "with one object per line",
                                         .names = Names,
                                         .append = Append,
                                         .only_text = true};
  return kFormat;
}

}  // namespace coxswain::predict
