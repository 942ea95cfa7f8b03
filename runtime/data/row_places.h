// On which line of which file each row of a data set begins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace coxswain::data {

// Thread model: immutable when all rows are there.
class RowPlaces {
 public:
  // The rows that follow are this file's.
  void StartFile(const std::string& path) { files_.push_back({path, rows_}); }
  // The next row, with the line on which it begins, from 1. Memory grows only where lines are not
  // counted as rows are: at blank lines, and at fields of several lines.
  void AddRow(int64_t line) { AddRows(line, 1); }
  // Rows on lines that follow each other.
  void AddRows(int64_t line, int64_t rows);
  void ShrinkToFit();

  // "ratings.csv:17"; the row is one that was added.
  std::string Of(int64_t row) const;
  // The 17 of that.
  int64_t LineOf(int64_t row) const;
  // Whether it is the first of its file.
  bool StartsFile(int64_t row) const { return FileOf(row).first_row == row; }

 private:
  // From this row on lines are counted as rows are, until the next of these.
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
