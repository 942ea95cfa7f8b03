// The body of a request for predictions, as a server gets it: an error that says where, or rows of
// the model's columns, all of that width and no more than are allowed.
#include <string>
#include <vector>

#include "coordinator/serve/json_rows.h"
#include "tests/fuzz/fuzz_target.h"

namespace coxswain {
namespace {

constexpr int64_t kMaxRows = 50;

void Run(absl::string_view body) {
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
