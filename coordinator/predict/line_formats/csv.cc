// csv:
//
//   a number         prediction
//   a probability    score,probability
//   tasks            click_score,click_probability,stars_prediction
//   classes          class,score,probability; of several: class_1,score_1,probability_1,class_2,...
//   items            item_1,score_1,item_2,score_2,...
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/model/task_model.h"
#include "coordinator/predict/csv_field.h"
#include "coordinator/predict/line_formats/format_list.h"

namespace coxswain::predict {
namespace {

void AddTasks(const LineContent& content, std::vector<std::string>* names) {
  for (const job::TaskSpec& task : content.predictor->tasks()) {
    if (model::SaysProbability(task)) {
      names->push_back(absl::StrCat(task.name, "_score"));
      names->push_back(absl::StrCat(task.name, "_probability"));
    } else {
      names->push_back(absl::StrCat(task.name, "_prediction"));
    }
  }
}

void AddChoices(const LineContent& content, std::vector<std::string>* names) {
  const bool items = content.predictor->says() == job::PredictionKind::kRank;
  for (int64_t i = 1; i <= content.top; ++i) {
    const std::string number = content.numbered ? absl::StrCat("_", i) : "";
    names->push_back(absl::StrCat(items ? "item" : "class", number));
    names->push_back("score" + number);
    if (!items) names->push_back("probability" + number);
  }
}

std::vector<std::string> Names(const LineContent& content) {
  return NamesOfLine(content, AddTasks, AddChoices);
}

std::string Header(const LineContent& content) {
  std::vector<std::string> names = Names(content);
  std::vector<std::string> kept;
  for (const std::string& column : content.kept) AppendField(column, &kept.emplace_back());
  names.insert(names.begin() + (content.lines ? 1 : 0), kept.begin(), kept.end());
  return absl::StrJoin(names, ",") + "\n";
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

void Append(const LineContent& content, const Scores& scores, const LineRow& row,
            std::string* lines) {
  const Predictor& predictor = *content.predictor;
  const std::vector<job::TaskSpec>& tasks = predictor.tasks();
  if (content.lines) absl::StrAppend(lines, row.line, ",");
  for (size_t i = 0; i < content.kept.size(); ++i) {
    AppendField((*row.kept)[i].Text(row.kept_row), lines);
    lines->push_back(',');
  }
  if (predictor.chooses()) {
    AppendChoices(content, scores, row.row, lines);
  } else if (tasks.empty()) {
    AppendScore(predictor.says() == job::PredictionKind::kProbability, scores,
                static_cast<size_t>(row.row), lines);
  }
  for (size_t t = 0; t < tasks.size(); ++t) {
    if (t > 0) lines->push_back(',');
    AppendScore(model::SaysProbability(tasks[t]), scores,
                static_cast<size_t>(row.row) * tasks.size() + t, lines);
  }
  lines->push_back('\n');
}

}  // namespace

const LineFormat& CsvLines() {
  static constexpr LineFormat kFormat = {
      .name = "csv", .help = "with a header", .names = Names, .header = Header, .append = Append};
  return kFormat;
}

}  // namespace coxswain::predict
