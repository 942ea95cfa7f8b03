// Words for messages about names and texts that a user got wrong.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace coxswain::data {

// `text` in quotes, on one line, unprintable bytes escaped, cut after 40 bytes.
std::string Quoted(absl::string_view text);

// `did you mean "userId"? there are: userId, movieId, rating`; the question only when a name is
// near, at most 40 names. "there are none" for no names.
std::string Alternatives(absl::string_view name, absl::Span<const std::string> names);

}  // namespace coxswain::data
