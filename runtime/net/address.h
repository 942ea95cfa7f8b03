// Network addresses as people write them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coxswain {

struct HostPort {
  std::string host;  // without brackets
  int port = 0;
};

// Reads "host:port" or "[ipv6]:port".
// Errors: InvalidArgument with the text and what is wrong with it.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// Brackets around a host that has colons.
std::string FormatHostPort(const HostPort& address);

}  // namespace coxswain
