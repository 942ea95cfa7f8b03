// Whether the head of a request (its first line and its headers) says plainly where the request
// ends. Otherwise a proxy in front and this server may disagree, and what one of them takes for the
// body is the next request to the other. The library passes over lines that are no headers, and
// takes a length that is no number for 0.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace coxswain::serve {

// `head`: the bytes as they came, with the empty line at their end. The first line is not looked
// at; `version` is what it says, such as HTTP/1.1. Errors: InvalidArgument, naming the header.
absl::Status CheckHead(absl::string_view head, absl::string_view version);

}  // namespace coxswain::serve
