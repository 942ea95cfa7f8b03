// A variable as a CSV file: one line per row, numbers with as many digits as are needed to read
// them back unchanged.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "coordinator/export/selected_rows.h"
#include "runtime/env/file_system.h"

namespace coxswain::exporter {

// A text as a CSV field: quoted if necessary.
std::string CsvField(absl::string_view text);

// The columns: `id` of a table, `word` when `words` is not empty, `row` of a dense variable that
// has rows, then `x0`, `x1`, ... A row of more than one dimension is written flat.
// `words`: the file of the table's vocabulary; ids beyond it have no word. Errors: those of reading
// and writing.
absl::Status WriteCsv(const SelectedRows& rows, const std::string& words, env::FileSystem* files,
                      const std::string& path);

// The same for projector.tensorflow.org: one file has a line of numbers per row, separated by tabs;
// the other has a line with the row's word, or its id, with blanks in place of tabs and line ends.
absl::Status WriteProjector(const SelectedRows& rows, const std::string& words,
                            env::FileSystem* files, const std::string& vectors,
                            const std::string& metadata);

// Only the latter file.
absl::Status WriteLabels(const SelectedRows& rows, const std::string& words, env::FileSystem* files,
                         const std::string& metadata);

// Writes a column `id` with the ids of SelectedRows::ForEachRemoved.
absl::Status WriteRemovedCsv(const SelectedRows& rows, env::FileSystem* files,
                             const std::string& path);

}  // namespace coxswain::exporter
