// Where rows begin in the middle of a file, found without reading what is in front: by the bytes
// that are there. That is a guess. Who acts on it compares it with where the rows in front end.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "runtime/data/csv_reader.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::data {

// Each returns the first begin of a row at `at` or behind it; the file's size if there is none.
// Errors: those of RandomAccessFile. Memory: some MiB at most, and more for a line that is longer.

// Of a file of lines. `at` is above 0.
absl::StatusOr<int64_t> FindLine(const env::RandomAccessFile& file, int64_t at);

// Of TFRecord: bytes with the checksum of a length, and as many bytes behind them more such bytes,
// twice, or the file's end.
absl::StatusOr<int64_t> FindTfRecord(const env::RandomAccessFile& file, int64_t at);

// Of csv, whose fields may have line ends in quotes, with so many columns: some text is read as if
// it were between quotes and as if it were not, until one of the two makes no sense. `known`: where
// a row begins, in front of `at`.
absl::StatusOr<int64_t> FindCsvRecord(const env::RandomAccessFile& file, const CsvFormat& format,
                                      size_t columns, int64_t known, int64_t at);

}  // namespace coxswain::data
