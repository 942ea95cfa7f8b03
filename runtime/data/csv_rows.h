// The rows of a CSV file, for the formats that are such.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "protos/dataset.pb.h"
#include "runtime/data/csv_reader.h"
#include "runtime/data/data_format.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {

// How records are read.
CsvFormat CsvFormatOf(const proto::CsvOptions& options);
// Whether a field stands for a value that is not known (CsvOptions.missing_values).
bool IsMissingValue(const proto::CsvOptions& options, absl::string_view field);

// Errors: those of CsvReader; NotFound for a column that the file does not have; InvalidArgument
// for a field that is not what its sink wants.
absl::Status ReadCsvRows(const proto::CsvOptions& options, const std::string& path,
                         TableRows* rows);
// The same of a part of a file.
absl::Status ReadCsvBlock(const proto::CsvOptions& options, FileBlock block, TableRows* rows);

}  // namespace coxswain::data
