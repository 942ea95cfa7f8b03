// Listening TCP sockets, and who has connected to one.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/net/address.h"
#include "runtime/net/unique_fd.h"

namespace coxswain::net {

struct TcpSockets {
  std::vector<UniqueFd> sockets;
  int port = 0;
};

// Listens at every address of the host, for both kinds of IP where that is 0.0.0.0 or [::]; port 0
// picks one. What connects sends at once (TCP_NODELAY), and the kernel ends a connection whose peer
// takes no bytes for `stuck`. Blocks while a name is looked up.
// Errors: Unavailable, when the port is taken or the host is not of this machine.
absl::StatusOr<TcpSockets> ListenTcp(const HostPort& address, absl::Duration stuck);

// "10.0.0.1:4321" or "[fe80::1%2]:4321": what gRPC calls the same peer. An IPv4 address that came
// to a socket for both kinds is shown as such. Empty when it is gone.
std::string TcpPeer(const UniqueFd& socket);

}  // namespace coxswain::net
