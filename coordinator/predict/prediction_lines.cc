#include "coordinator/predict/prediction_lines.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"

namespace coxswain::predict {
namespace {

constexpr int64_t kItems = 10;

bool SaysChance(const job::TaskSpec& task) {
  return job::KindOf(*task.loss).prediction == job::PredictionKind::kProbability;
}

// "click_score,click_probability,stars_prediction"
std::string TaskHeader(const Predictor& predictor) {
  std::string header;
  for (const job::TaskSpec& task : predictor.tasks()) {
    absl::StrAppend(
        &header, header.empty() ? "" : ",", task.name,
        SaysChance(task) ? absl::StrCat("_score,", task.name, "_probability") : "_prediction");
  }
  return header;
}

void AppendTasks(const Predictor& predictor, const Scores& scores, int64_t row, bool json,
                 std::string* lines) {
  const std::vector<job::TaskSpec>& tasks = predictor.tasks();
  const auto append = json ? AppendJsonNumber : AppendNumber;
  for (size_t t = 0; t < tasks.size(); ++t) {
    const size_t at = static_cast<size_t>(row) * tasks.size() + t;
    const bool chance = SaysChance(tasks[t]);
    if (json) absl::StrAppend(lines, t > 0 ? ", " : "", "\"", tasks[t].name, "\": {");
    if (!json && t > 0) lines->push_back(',');
    if (chance) {
      if (json) lines->append("\"score\": ");
      append(scores.score.data<float>()[at], lines);
      lines->append(json ? ", \"probability\": " : ",");
    } else if (json) {
      lines->append("\"prediction\": ");
    }
    append(scores.prediction.data<float>()[at], lines);
    if (json) lines->push_back('}');
  }
}

}  // namespace

void AppendNumber(float number, std::string* line) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
  line->append(text, static_cast<size_t>(end - text));
}

void AppendField(const std::string& text, std::string* line) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) {
    line->append(text);
    return;
  }
  absl::StrAppend(line, "\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

void AppendJsonNumber(float number, std::string* line) {
  if (std::isfinite(number)) {
    AppendNumber(number, line);
  } else {
    line->append("null");
  }
}

PredictionLines::PredictionLines(const Predictor* predictor, int64_t top, bool with_lines,
                                 LineFormat format)
    : predictor_(predictor),
      numbered_(top > 0 || predictor->says() == job::PredictionKind::kRank),
      with_lines_(with_lines),
      format_(format) {
  const int64_t wanted = top > 0 ? top : numbered_ ? kItems : 1;
  top_ = std::min(wanted, predictor->choices());
}

std::string PredictionLines::Header() const {
  if (format_ == LineFormat::kJson) return "";
  std::string header = with_lines_ ? "line," : "";
  switch (predictor_->says()) {
    case job::PredictionKind::kProbability:
      return header + "score,probability\n";
    case job::PredictionKind::kTasks:
      return header + TaskHeader(*predictor_) + "\n";
    case job::PredictionKind::kClasses:
    case job::PredictionKind::kRank:
      break;
    case job::PredictionKind::kNumber:
    case job::PredictionKind::kPairs:
    case job::PredictionKind::kOrder:
      return header + "prediction\n";
  }
  const bool items = predictor_->says() == job::PredictionKind::kRank;
  for (int64_t i = 1; i <= top_; ++i) {
    const std::string number = numbered_ ? absl::StrCat("_", i) : "";
    absl::StrAppend(&header, i > 1 ? "," : "", items ? "item" : "class", number, ",score", number,
                    items ? "" : ",probability", items ? "" : number);
  }
  return header + "\n";
}

void PredictionLines::AppendChoices(const Scores& scores, int64_t row, std::string* lines) const {
  bool first = true;
  for (const Choice& choice : predictor_->Best(scores, row, top_)) {
    if (!first) lines->push_back(',');
    first = false;
    AppendField(predictor_->NameOf(choice.id), lines);
    lines->push_back(',');
    AppendNumber(choice.score, lines);
    if (predictor_->says() != job::PredictionKind::kClasses) continue;
    lines->push_back(',');
    AppendNumber(choice.probability, lines);
  }
}

void PredictionLines::AppendCsv(const Scores& scores, int64_t row, std::string* lines) const {
  if (predictor_->chooses()) return AppendChoices(scores, row, lines);
  if (!predictor_->tasks().empty()) return AppendTasks(*predictor_, scores, row, false, lines);
  if (predictor_->says() == job::PredictionKind::kProbability) {
    AppendNumber(scores.score.data<float>()[row], lines);
    lines->push_back(',');
  }
  AppendNumber(scores.prediction.data<float>()[row], lines);
}

void PredictionLines::AppendJson(const Scores& scores, int64_t row, std::string* lines) const {
  const auto number = [lines](const char* key, float value) {
    absl::StrAppend(lines, "\"", key, "\": ");
    AppendJsonNumber(value, lines);
  };
  if (!predictor_->tasks().empty()) return AppendTasks(*predictor_, scores, row, true, lines);
  if (!predictor_->chooses()) {
    const bool chance = predictor_->says() == job::PredictionKind::kProbability;
    if (chance) {
      number("score", scores.score.data<float>()[row]);
      lines->append(", ");
    }
    return number(chance ? "probability" : "prediction", scores.prediction.data<float>()[row]);
  }
  std::string names, numbers, chances;
  for (const Choice& choice : predictor_->Best(scores, row, top_)) {
    const char* const comma = names.empty() ? "" : ", ";
    // Names may be any bytes of the data.
    absl::StrAppend(&names, comma,
                    nlohmann::json(predictor_->NameOf(choice.id))
                        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    absl::StrAppend(&numbers, comma);
    AppendJsonNumber(choice.score, &numbers);
    absl::StrAppend(&chances, comma);
    AppendJsonNumber(choice.probability, &chances);
  }
  const bool classes = predictor_->says() == job::PredictionKind::kClasses;
  absl::StrAppend(lines, classes ? "\"classes\": [" : "\"items\": [", names, "], \"scores\": [",
                  numbers, "]");
  if (classes) absl::StrAppend(lines, ", \"probabilities\": [", chances, "]");
}

void PredictionLines::Append(const data::InputRows& rows, int64_t begin, const Scores& scores,
                             std::string* lines) const {
  const bool json = format_ == LineFormat::kJson;
  const int64_t n = scores.score.dim(0);
  for (int64_t row = 0; row < n; ++row) {
    if (json) lines->push_back('{');
    if (with_lines_) {
      absl::StrAppend(lines, json ? "\"line\": " : "", rows.LineOf(begin + row), json ? ", " : ",");
    }
    json ? AppendJson(scores, row, lines) : AppendCsv(scores, row, lines);
    lines->append(json ? "}\n" : "\n");
  }
}

}  // namespace coxswain::predict
