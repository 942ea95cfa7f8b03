// Raw values as the cells that rows are read from.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "coxswain/saved_model.h"
#include "runtime/data/row_reader.h"

namespace coxswain::predict {

// A number as the shortest text that is read as the same number.
std::string TextOf(double number);

// What a program is told of a column that rows must have.
RawColumn ColumnOf(const data::RowReader::Input& input);

// Errors: NotFound for a column that is missing; InvalidArgument for a row of another width, and,
// with its column, for a value that no cell can hold. They begin with the row: "rows[3]: ...".
absl::StatusOr<data::InputRows> ReadRaw(const data::RowReader& reader, const RawRows& rows);

}  // namespace coxswain::predict
