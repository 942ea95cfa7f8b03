// Of which data file an error is: for who leaves out that file, say, and does not look for its name
// in a message.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace coxswain::data {

// Attaches the file to an error that has none yet; returns it. Who reads a file says so, and what
// another file, such as a joined table's, was to blame for keeps that one.
absl::Status InFile(absl::Status status, absl::string_view path);

// The file that the error has, also where a worker has sent it.
std::optional<std::string> FileOf(const absl::Status& status);

}  // namespace coxswain::data
