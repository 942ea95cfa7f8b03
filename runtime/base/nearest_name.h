// What a user may have meant.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace coxswain {

// The one of `names` that `word` most likely stands for, by few typing mistakes; "" when none is
// near. Blind to case.
std::string NearestName(absl::string_view word, absl::Span<const std::string> names);

}  // namespace coxswain
