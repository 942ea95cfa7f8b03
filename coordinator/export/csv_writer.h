// A variable as a CSV file: one line per row, numbers with as many digits as are needed to read
// them back unchanged.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/export/selected_rows.h"
#include "coordinator/model/saved_reader.h"
#include "runtime/env/file_system.h"

namespace coxswain::exporter {

// A text as a CSV field: quoted if necessary.
std::string CsvField(absl::string_view text);

// What rows are called, by id: empty where a row has no name. It is asked for the ids of a
// variable's rows in the order in which they are written; null: no row of the variable has a name.
using WordOf = std::function<absl::StatusOr<std::string>(int64_t id)>;
// Of a table with a vocabulary these are its words, which are read one after the other, so that it
// may be larger than memory; of one with names that were kept of hashed values, as NameOfBucket has
// them. Errors: DataLoss for a file that is not as it was saved; those of reading.
absl::StatusOr<WordOf> WordsOf(const model::SavedSource& source, const model::SavedVariable& of);

// The columns: `id` of a table, `word` when `words` is not null, `row` of a dense variable that
// has rows, then `x0`, `x1`, ... A row of more than one dimension is written flat.
// Errors: those of `words`, of reading and of writing.
absl::Status WriteCsv(const SelectedRows& rows, const WordOf& words, env::FileSystem* files,
                      const std::string& path);

// The same for projector.tensorflow.org: a line of numbers for each row, separated by tabs.
absl::Status WriteProjector(const SelectedRows& rows, const WordOf& words, env::FileSystem* files,
                            const std::string& vectors);

// A line for each row with its word, or its id, with blanks in place of tabs and line ends.
absl::Status WriteLabels(const SelectedRows& rows, const WordOf& words, env::FileSystem* files,
                         const std::string& metadata);

// Writes a column `id` with the ids of SelectedRows::ForEachRemoved.
absl::Status WriteRemovedCsv(const SelectedRows& rows, env::FileSystem* files,
                             const std::string& path);

}  // namespace coxswain::exporter
