#include "runtime/data/row_places.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace coxswain::data {

void RowPlaces::AddRows(int64_t line, int64_t rows) {
  if (rows == 0) return;
  std::vector<Run>* runs = &files_.back().runs;
  if (runs->empty() || line - runs->back().line != rows_ - runs->back().row) {
    runs->push_back({rows_, line});
  }
  rows_ += rows;
}

void RowPlaces::ShrinkToFit() {
  files_.shrink_to_fit();
  for (File& file : files_) file.runs.shrink_to_fit();
}

const RowPlaces::File& RowPlaces::FileOf(int64_t row) const {
  // A file without rows has the first row of the next file.
  const auto after = std::upper_bound(files_.begin(), files_.end(), row,
                                      [](int64_t r, const File& f) { return r < f.first_row; });
  return *(after - 1);
}

int64_t RowPlaces::LineOf(int64_t row) const {
  const File& file = FileOf(row);
  const auto run = std::upper_bound(file.runs.begin(), file.runs.end(), row,
                                    [](int64_t r, const Run& run) { return r < run.row; }) -
                   1;
  return run->line + row - run->row;
}

std::string RowPlaces::Of(int64_t row) const {
  return absl::StrCat(FileOf(row).path, ":", LineOf(row));
}

}  // namespace coxswain::data
