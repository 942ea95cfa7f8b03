// Whether bytes are text.
#pragma once

#include "absl/strings/string_view.h"

namespace coxswain::data {

// The first byte that begins no character of UTF-8 (RFC 3629), or null. Fast where all is ASCII.
const char* FindBadUtf8(absl::string_view text);

inline bool IsUtf8(absl::string_view text) { return FindBadUtf8(text) == nullptr; }

}  // namespace coxswain::data
