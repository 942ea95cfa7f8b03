#include "coordinator/predict/line_format.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/predict/line_formats/format_list.h"
#include "runtime/data/names.h"

namespace coxswain::predict {

const std::vector<const LineFormat*>& LineFormats() {
#define COX_FORMAT(function) &function(),
  static const auto* const all = new std::vector<const LineFormat*>{COX_LINE_FORMATS(COX_FORMAT)};
#undef COX_FORMAT
  return *all;
}

absl::StatusOr<const LineFormat*> FindLineFormat(absl::string_view name) {
  std::vector<absl::string_view> names;
  for (const LineFormat* format : LineFormats()) {
    if (format->name == name) return format;
    names.push_back(format->name);
  }
  return absl::InvalidArgumentError(absl::StrCat("wanted one of ", absl::StrJoin(names, ", "),
                                                 ", found ", data::Quoted(std::string(name))));
}

std::vector<std::string> NamesOfLine(const LineContent& content, AddNames add_tasks,
                                     AddNames add_choices) {
  std::vector<std::string> names;
  if (content.lines) names.push_back("line");
  switch (content.predictor->says()) {
    case job::PredictionKind::kProbability:
      names.insert(names.end(), {"score", "probability"});
      break;
    case job::PredictionKind::kTasks:
      add_tasks(content, &names);
      break;
    case job::PredictionKind::kClasses:
    case job::PredictionKind::kRank:
      add_choices(content, &names);
      break;
    case job::PredictionKind::kNumber:
    case job::PredictionKind::kPairs:
    case job::PredictionKind::kOrder:
      names.push_back("prediction");
      break;
  }
  return names;
}

void AppendNumber(float number, std::string* line) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
  line->append(text, static_cast<size_t>(end - text));
}

}  // namespace coxswain::predict
