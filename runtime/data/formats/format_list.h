// The formats of data files, one line each, in the order of docs/job.md. X(csv, Csv) stands for
// runtime/data/formats/csv.cc, which defines `const DataFormat& CsvFiles()`, and for
// coordinator/job/formats/csv.cc, which defines `const JobFormat& CsvJobFormat()`.
#pragma once

#include "runtime/data/data_format.h"

#define COX_DATA_FORMATS(X)        \
  X(csv, Csv)                      \
  X(libsvm, Libsvm)                \
  X(libffm, Libffm)                \
  X(criteo, Criteo)                \
  X(text, Text)                    \
  X(jsonl, Jsonl)                  \
  X(tfrecord, Tfrecord)            \
  X(parquet, Parquet)              \
  X(arrow, Arrow)                  \
  X(idx, Idx)                      \
  X(labelled_lines, LabelledLines) \
  X(labelled_files, LabelledFiles)

namespace coxswain::data {

#define COX_DECLARE(file, name) const DataFormat& name##Files();
COX_DATA_FORMATS(COX_DECLARE)
#undef COX_DECLARE

}  // namespace coxswain::data
