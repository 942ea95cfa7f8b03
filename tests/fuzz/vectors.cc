// Vectors by word in word2vec's text format, read as rows of one, two and seven numbers: each row
// has a word and finite numbers, or there is an error that names the file. And the same bytes as an
// npz file of arrays.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "coordinator/model/npz_reader.h"
#include "coordinator/model/rows_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace coxswain {
namespace {

void ReadArrays(const std::string& path) {
  const auto names = model::ArraysOfNpz(path);
  if (!names.ok()) return;
  for (size_t i = 0; i < names->size() && i < 4; ++i) {
    const auto array = model::ReadNpz(path, (*names)[i]);
    if (array.ok() && array->rank() != 2) fuzz::Broken("an array has no rows");
    if (!array.ok() && !absl::StrContains(array.status().message(), path)) {
      fuzz::Broken("an error names no file");
    }
  }
}

void Run(absl::string_view input) {
  const fuzz::MemoryFile file(input);
  ReadArrays(file.path());
  for (const int64_t dim : {1, 2, 7}) {
    const auto rows = model::RowsFile::Open({file.path(), "", ""}, dim);
    if (!rows.ok()) continue;
    std::vector<float> row(static_cast<size_t>(dim));
    std::string word;
    while (true) {
      const auto found = (*rows)->Next(&word, row.data());
      if (!found.ok() && !absl::StrContains(found.status().message(), file.path())) {
        fuzz::Broken("an error names no file");
      }
      if (!found.ok() || !*found) break;
      for (const float number : row) {
        if (!std::isfinite(number)) fuzz::Broken("a number is not finite");
      }
    }
  }
}

}  // namespace
}  // namespace coxswain

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  coxswain::Run(coxswain::fuzz::Text(data, size));
  return 0;
}
