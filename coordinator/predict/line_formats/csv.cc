// csv:
//
//   a number         prediction
//   a probability    score,probability
//   tasks            click_score,click_probability,stars_prediction
//   classes          class,score,probability; of several: class_1,score_1,probability_1,class_2,...
//   items            item_1,score_1,item_2,score_2,...
#include "absl/strings/str_cat.h"
#include "coordinator/predict/csv_field.h"
#include "coordinator/predict/line_formats/format_list.h"

namespace coxswain::predict {
namespace {

std::string TasksHeader(const Predictor& predictor) {
  std::string header;
  for (const job::TaskSpec& task : predictor.tasks()) {
    absl::StrAppend(
        &header, header.empty() ? "" : ",", task.name,
        SaysChance(task) ? absl::StrCat("_score,", task.name, "_probability") : "_prediction");
  }
  return header;
}

std::string ChoicesHeader(const LineContent& content) {
  const bool items = content.predictor->says() == job::PredictionKind::kRank;
  std::string header;
  for (int64_t i = 1; i <= content.top; ++i) {
    const std::string number = content.numbered ? absl::StrCat("_", i) : "";
    absl::StrAppend(&header, i > 1 ? "," : "", items ? "item" : "class", number, ",score", number,
                    items ? "" : ",probability", items ? "" : number);
  }
  return header;
}

std::string Header(const LineContent& content) {
  std::string header = content.lines ? "line," : "";
  switch (content.predictor->says()) {
    case job::PredictionKind::kProbability:
      header += "score,probability";
      break;
    case job::PredictionKind::kTasks:
      header += TasksHeader(*content.predictor);
      break;
    case job::PredictionKind::kClasses:
    case job::PredictionKind::kRank:
      header += ChoicesHeader(content);
      break;
    case job::PredictionKind::kNumber:
    case job::PredictionKind::kPairs:
    case job::PredictionKind::kOrder:
      header += "prediction";
      break;
  }
  return header + "\n";
}

void AppendChoices(const LineContent& content, const Scores& scores, int64_t row,
                   std::string* lines) {
  bool first = true;
  for (const Choice& choice : content.predictor->Best(scores, row, content.top)) {
    if (!first) lines->push_back(',');
    first = false;
    AppendField(content.predictor->NameOf(choice.id), lines);
    lines->push_back(',');
    AppendNumber(choice.score, lines);
    if (content.predictor->says() != job::PredictionKind::kClasses) continue;
    lines->push_back(',');
    AppendNumber(choice.probability, lines);
  }
}

// `at`: its place among the numbers of all rows, and of all tasks.
void AppendScore(bool chance, const Scores& scores, size_t at, std::string* lines) {
  if (chance) {
    AppendNumber(scores.score.data<float>()[at], lines);
    lines->push_back(',');
  }
  AppendNumber(scores.prediction.data<float>()[at], lines);
}

void Append(const LineContent& content, const Scores& scores, int64_t row, int64_t line,
            std::string* lines) {
  const Predictor& predictor = *content.predictor;
  const std::vector<job::TaskSpec>& tasks = predictor.tasks();
  if (content.lines) absl::StrAppend(lines, line, ",");
  if (predictor.chooses()) {
    AppendChoices(content, scores, row, lines);
  } else if (tasks.empty()) {
    AppendScore(predictor.says() == job::PredictionKind::kProbability, scores,
                static_cast<size_t>(row), lines);
  }
  for (size_t t = 0; t < tasks.size(); ++t) {
    if (t > 0) lines->push_back(',');
    AppendScore(SaysChance(tasks[t]), scores, static_cast<size_t>(row) * tasks.size() + t, lines);
  }
  lines->push_back('\n');
}

}  // namespace

const LineFormat& CsvLines() {
  static constexpr LineFormat kFormat = {
      .name = "csv", .help = "with a header", .header = Header, .append = Append};
  return kFormat;
}

}  // namespace coxswain::predict
