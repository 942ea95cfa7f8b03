// A table's rows as an index of hnswlib, for nearest neighbours in other programs.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "coordinator/export/selected_rows.h"
#include "runtime/env/file_system.h"

namespace coxswain::exporter {

// By cosine (hnswlib's space "cosine"): the rows have length 1 there. Labels are the numbers of
// rows from 0, in the order of SelectedRows::ForEach. Rows without a direction (zeros, or not
// finite) are left out. The index is in memory as a whole.
// Errors: those of reading and writing; InvalidArgument for a table of integers; ResourceExhausted
// when memory does not suffice.
absl::Status WriteHnsw(const SelectedRows& rows, env::FileSystem* files, const std::string& path);

}  // namespace coxswain::exporter
