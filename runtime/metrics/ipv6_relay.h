// Takes connections at an IPv6 address to a port of this machine's IPv4 loopback: the civetweb of
// Debian, which prometheus-cpp's endpoint uses, is built without IPv6.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/net/address.h"
#include "runtime/net/unique_fd.h"

namespace coxswain::metrics {

class Ipv6Relay {
 public:
  // Relays at most so many connections at once, each for at most kLongestSeconds; others wait.
  static constexpr int kAtOnce = 2;
  static constexpr int kLongestSeconds = 5;

  // Listens; port 0 picks one. Errors: those of net::ListenTcp.
  static absl::StatusOr<std::unique_ptr<Ipv6Relay>> Listen(const net::HostPort& address,
                                                           int to_port);
  // Ends the connections.
  ~Ipv6Relay();
  int port() const { return port_; }

 private:
  Ipv6Relay() = default;
  void Serve() const;

  std::vector<net::UniqueFd> sockets_;
  int port_ = 0, to_port_ = 0;
  net::UniqueFd stop_;  // readable: it is to end
  std::vector<std::thread> threads_;
};

}  // namespace coxswain::metrics
