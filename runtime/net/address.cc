#include "runtime/net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace coxswain::net {
namespace {

absl::Status BadAddress(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("wanted an address \"host:port\", found \"", text, "\": ", why));
}

// Of a name, an IPv4 address, or an IPv6 address with its zone.
bool IsHostCharacter(char c) {
  return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_' || c == ':' || c == '%';
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return BadAddress(text, "there is no port");
  absl::string_view host = text.substr(0, colon);
  const absl::string_view port = text.substr(colon + 1);
  const bool brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  if (host.empty()) return BadAddress(text, "there is no host");
  if (!std::all_of(host.begin(), host.end(), IsHostCharacter)) {
    return BadAddress(text, "the host has a character that no host has");
  }
  if (!brackets && host.find(':') != absl::string_view::npos) {
    return BadAddress(text, "an IPv6 address needs brackets: \"[::1]:4321\"");
  }
  HostPort address{std::string(host), 0};
  if (port.empty() || !std::all_of(port.begin(), port.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(port, &address.port) || address.port > 65535) {
    return BadAddress(text, "the port is not a number from 0 to 65535");
  }
  return address;
}

bool IsLoopback(absl::string_view host) {
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const std::string text(host);
  in_addr v4 = {};
  in6_addr v6 = {};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  if (inet_pton(AF_INET6, text.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

std::string FormatHostPort(const HostPort& address) {
  if (address.host.find(':') == std::string::npos) {
    return absl::StrCat(address.host, ":", address.port);
  }
  return absl::StrCat("[", address.host, "]:", address.port);
}

}  // namespace coxswain::net
