// Records of a TFRecord file, as tfrecord_reader.h reads them.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace coxswain::data {

// Appends a record with these bytes: its header, the bytes, their checksum.
void AppendTfRecord(absl::string_view bytes, std::string* out);

}  // namespace coxswain::data
