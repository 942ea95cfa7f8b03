// What the targets of files of columns have in common: the input is such a file.
#pragma once

#include "absl/strings/string_view.h"

namespace coxswain::fuzz {

// False, with a message, where there is no Apache Arrow to read it: nothing can be tried.
bool CanReadColumns();

// Reads all columns of a file, `format` as in a DatasetSpec: in memory, and streamed in small
// blocks, which must give the same rows or errors both.
void ReadColumns(absl::string_view format, absl::string_view bytes);

}  // namespace coxswain::fuzz
