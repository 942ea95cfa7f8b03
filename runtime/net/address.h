// Network addresses as people write them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coxswain::net {

// "local:NAME": of a listener that only processes of the same user on the same host reach, without
// a port. "local:" asks for a name that is picked.
constexpr absl::string_view kLocalScheme = "local:";
inline bool IsLocalAddress(absl::string_view address) {
  return address.substr(0, kLocalScheme.size()) == kLocalScheme;
}

struct HostPort {
  std::string host;  // without brackets
  int port = 0;
};

// Reads "host:port" or "[ipv6]:port".
// Errors: InvalidArgument with the text and what is wrong with it.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// Whether `host` is this machine for itself: localhost, an address of 127.0.0.0/8, or ::1. Not
// another name, whatever it resolves to: 127.example.com is anywhere. Brackets do not matter.
bool IsLoopback(absl::string_view host);

// Brackets around a host that has colons.
std::string FormatHostPort(const HostPort& address);

}  // namespace coxswain::net
