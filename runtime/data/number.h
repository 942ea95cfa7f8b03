// Numbers in text files.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace coxswain::data {

// A finite decimal number, correctly rounded, white space around it ignored. False for anything
// else: an empty text, "nan", "inf", "1,5", a number beyond the range of f64.
bool ParseNumber(absl::string_view text, double* number);

// Digits only, at most 18 of them.
bool ParseIndex(absl::string_view text, int64_t* index);

}  // namespace coxswain::data
