// How predictions are written, a line for each row. Each format is a file of line_formats/ and a
// line in line_formats/format_list.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/predict/predictor.h"
#include "runtime/data/kept_columns.h"

namespace coxswain::predict {

// What the lines of one output have.
struct LineContent {
  const Predictor* predictor = nullptr;
  int64_t top = 0;        // choices of a row
  bool numbered = false;  // whether the names of choices have their place: item_1, item_2
  bool lines = false;     // each begins with where its row is in the input
  std::vector<std::string> kept = {};  // columns of the input, which come next
};

// What a line is made of.
struct LineRow {
  int64_t row = 0;                       // of the scores
  int64_t line = 0;                      // where it is in the input
  const data::KeptRows* kept = nullptr;  // the columns that are kept; null: there are none
  int64_t kept_row = 0;                  // of these
};

struct LineFormat {
  const char* name = "";
  const char* help = "";  // of `--format`, behind the name
  // The names in a line that are no columns of the input, each once.
  std::vector<std::string> (*names)(const LineContent& content) = nullptr;
  // The text before all lines; null: none.
  std::string (*header)(const LineContent& content) = nullptr;
  // Appends a line with its end. Thread-safe.
  void (*append)(const LineContent& content, const Scores& scores, const LineRow& row,
                 std::string* lines) = nullptr;
  bool only_text = false;  // it has no room for bytes that are not UTF-8
};

// All, in the order of the help; the first is the default.
const std::vector<const LineFormat*>& LineFormats();
// Errors: InvalidArgument, with the names that there are.
absl::StatusOr<const LineFormat*> FindLineFormat(absl::string_view name);

// LineFormat::names, of which formats differ in those of tasks and of choices.
using AddNames = void (*)(const LineContent& content, std::vector<std::string>* names);
std::vector<std::string> NamesOfLine(const LineContent& content, AddNames add_tasks,
                                     AddNames add_choices);

// Appends as many digits as are needed to distinguish the number from its neighbours.
void AppendNumber(float number, std::string* line);

}  // namespace coxswain::predict
