// The body of a request, as a server gets it: an error that says where, or rows of the model's
// columns, all of that width and no more than are allowed; questions, as few; or a version.
#include <string>
#include <vector>

#include "coordinator/serve/json_questions.h"
#include "coordinator/serve/json_rows.h"
#include "tests/fuzz/fuzz_target.h"

namespace coxswain {
namespace {

constexpr int64_t kMaxRows = 50;

template <typename Request>
void CheckQuestions(const absl::StatusOr<Request>& request) {
  if (!request.ok()) {
    if (request.status().message().empty()) fuzz::Broken("an error says nothing");
    return;
  }
  if (static_cast<int64_t>(request->instances.size()) > kMaxRows) fuzz::Broken("too many rows");
  if (request->k < 1 || request->k > 1000) fuzz::Broken("k is out of its bounds");
}

void Ask(absl::string_view body) {
  const std::vector<RawColumn> columns = {{"age", RawColumn::Kind::kNumber},
                                          {"city", RawColumn::Kind::kValue},
                                          {"had", RawColumn::Kind::kValues}};
  const auto suggestions = serve::ParseRecommendRequest(body, columns, kMaxRows);
  CheckQuestions(suggestions);
  if (suggestions.ok()) {
    for (const auto& whom : suggestions->instances) {
      if (!whom.values.empty() && whom.values.size() != columns.size()) {
        fuzz::Broken("values of other columns");
      }
    }
  }
  const auto nearest = serve::ParseNearestRequest(body, kMaxRows);
  CheckQuestions(nearest);
  if (nearest.ok()) {
    for (const auto& question : nearest->instances) {
      if (question.terms.empty()) fuzz::Broken("a question of no words");
    }
  }
  const auto version = serve::ParseVersionRequest(body);
  if (version.ok() && *version && **version < 0) fuzz::Broken("a version below 0");
}

void Run(absl::string_view body) {
  Ask(body);
  const std::vector<RawColumn> columns = {{"user", RawColumn::Kind::kValue},
                                          {"n", RawColumn::Kind::kNumber},
                                          {"tags", RawColumn::Kind::kValues}};
  for (const size_t width : {size_t{1}, columns.size()}) {
    const auto request = serve::ParsePredictRequest(
        body, {columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(width)}, kMaxRows);
    if (!request.ok()) {
      if (request.status().message().empty()) fuzz::Broken("an error says nothing");
      static_cast<void>(serve::ErrorBody(request.status().message()));
      continue;
    }
    if (static_cast<int64_t>(request->rows.rows.size()) > kMaxRows) fuzz::Broken("too many rows");
    for (const auto& row : request->rows.rows) {
      if (row.size() != width) fuzz::Broken("a row is not as wide as the columns");
    }
  }
}

}  // namespace
}  // namespace coxswain

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  coxswain::Run(coxswain::fuzz::Text(data, size));
  return 0;
}
