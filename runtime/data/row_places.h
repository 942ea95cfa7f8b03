// The file and line at which each row of a data set begins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace coxswain::data {

// Thread model: immutable once all rows were added.
class RowPlaces {
 public:
  // The following rows belong to this file.
  void StartFile(const std::string& path) { files_.push_back({path, rows_}); }
  // Adds the next row, with the line on which it begins, from 1. Memory grows only where rows do
  // not begin on consecutive lines: at blank lines, and at fields of several lines.
  void AddRow(int64_t line) { AddRows(line, 1); }
  // Adds rows on consecutive lines.
  void AddRows(int64_t line, int64_t rows);
  void ShrinkToFit();

  // "ratings.csv:17"; the row must have been added.
  std::string Of(int64_t row) const;
  // The 17 of that.
  int64_t LineOf(int64_t row) const;
  // Whether it is the first of its file.
  bool StartsFile(int64_t row) const { return FileOf(row).first_row == row; }

 private:
  // From this row until the next Run, rows begin on consecutive lines.
  struct Run {
    int64_t row, line;
  };
  struct File {
    std::string path;
    int64_t first_row;
    std::vector<Run> runs = {};
  };

  const File& FileOf(int64_t row) const;

  int64_t rows_ = 0;
  std::vector<File> files_;
};

}  // namespace coxswain::data
