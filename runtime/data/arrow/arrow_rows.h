// The rows of a file of columns, for the formats that Apache Arrow reads.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/data/arrow/arrow_api.h"
#include "runtime/data/data_format.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {

// The names of a file's columns. Errors: those of ArrowFile.
absl::StatusOr<std::vector<std::string>> ReadArrowColumns(CoxArrowFormat format,
                                                          const std::string& path);

// How many rows each group of a file has. Errors: those of ArrowFile.
absl::StatusOr<std::vector<int64_t>> ReadArrowGroups(CoxArrowFormat format,
                                                     const std::string& path);

// By group, what an object store is asked for when the columns that rows are bound to are read.
// Errors: those of ReadArrowRows.
absl::StatusOr<std::vector<std::vector<ByteRange>>> FindArrowGroups(CoxArrowFormat format,
                                                                    const std::string& path,
                                                                    OpenArrowFiles* open_files,
                                                                    TableRows* rows);

// Only the columns that rows are bound to are read. Errors: those of ArrowFile; NotFound for a
// column that the file does not have; InvalidArgument for one of another type, and `clicks.parquet:
// row group 2, row 17, column "age": wanted ..., found ...` (rows of the group, from 1).
absl::Status ReadArrowRows(CoxArrowFormat format, const std::string& path, TableRows* rows);
// The same of groups [first, end).
absl::Status ReadArrowGroupRows(CoxArrowFormat format, const std::string& path, int64_t first,
                                int64_t end, TableRows* rows);
// The same of a row group, or of some of its rows. Errors: also block.changed(), where it has it
// and the file is gone, or has another size or another content.
absl::Status ReadArrowBlock(CoxArrowFormat format, const FileBlock& block, TableRows* rows);

}  // namespace coxswain::data
