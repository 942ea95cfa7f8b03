// The words of a text as the rows of a table, for the pass that makes the index of a text that is
// streamed: each word is a row.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "protos/dataset.pb.h"
#include "runtime/data/input_file.h"
#include "runtime/data/sinks.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {

// For a file without a word.
absl::Status NoWordError(const std::string& path);

// The sink of the one feature of a text. Words that a given vocabulary lacks have the id -1.
// `feature` must outlive it.
std::unique_ptr<FieldSink> NewWordSink(TableFeature* feature);

// Reads the words of a file from `column` of `line` on, whose number is added to `words`. Errors:
// those of WordScanner and TableRows; ResourceExhausted for 2^31 different words.
absl::Status ReadWordRows(const proto::DatasetSpec& spec, InputFile* file, int64_t line,
                          int64_t column, TableRows* rows, int64_t* words);

}  // namespace coxswain::data
