#include "runtime/net/tcp_socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::net {
namespace {

union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
  sockaddr_storage storage;
};

void SetPort(SocketAddress* address, int port) {
  const uint16_t number = htons(static_cast<uint16_t>(port));
  if (address->any.sa_family == AF_INET) {
    address->v4.sin_port = number;
  } else {
    address->v6.sin6_port = number;
  }
}

int PortOf(const SocketAddress& address) {
  return ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
}

socklen_t SizeOf(const SocketAddress& address) {
  return address.any.sa_family == AF_INET ? sizeof(address.v4) : sizeof(address.v6);
}

void SetOption(const UniqueFd& socket, int level, int option, int value) {
  setsockopt(socket.get(), level, option, &value, sizeof(value));
}

// An invalid descriptor, with errno, when it cannot be done.
UniqueFd ListenAt(const SocketAddress& address, bool both_kinds, absl::Duration stuck) {
  UniqueFd socket(
      ::socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!socket.valid()) return socket;
  SetOption(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.any.sa_family == AF_INET6) {
    SetOption(socket, IPPROTO_IPV6, IPV6_V6ONLY, both_kinds ? 0 : 1);
  }
  // What is accepted has the same settings.
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT,
            static_cast<int>(absl::ToInt64Milliseconds(stuck)));
  if (bind(socket.get(), &address.any, SizeOf(address)) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    return {};
  }
  return socket;
}

int BoundPort(const UniqueFd& socket) {
  SocketAddress address = {};
  socklen_t size = sizeof(address);
  return getsockname(socket.get(), &address.any, &size) == 0 ? PortOf(address) : 0;
}

std::vector<SocketAddress> Resolve(const std::string& host) {
  addrinfo wanted = {};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress address = {};
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    addresses.push_back(address);
  }
  return addresses;
}

absl::Status CannotListen(const HostPort& address, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen at ", FormatHostPort(address),
                   ": the port is taken or the host is not of this machine (", why, ")"));
}

absl::StatusOr<TcpSockets> ListenEverywhere(const HostPort& address, absl::Duration stuck) {
  SocketAddress v6 = {}, v4 = {};
  v6.v6.sin6_family = AF_INET6;
  v4.v4.sin_family = AF_INET;
  SetPort(&v6, address.port);
  SetPort(&v4, address.port);
  TcpSockets all;
  UniqueFd socket = ListenAt(v6, /*both_kinds=*/true, stuck);
  // A machine without IPv6.
  if (!socket.valid() && errno != EADDRINUSE) socket = ListenAt(v4, false, stuck);
  if (!socket.valid()) return CannotListen(address, std::strerror(errno));
  all.port = BoundPort(socket);
  all.sockets.push_back(std::move(socket));
  return all;
}

}  // namespace

absl::StatusOr<TcpSockets> ListenTcp(const HostPort& address, absl::Duration stuck) {
  if (address.host == "0.0.0.0" || address.host == "::") return ListenEverywhere(address, stuck);
  std::vector<SocketAddress> addresses = Resolve(address.host);
  if (addresses.empty()) return CannotListen(address, "there is no such host");
  TcpSockets all;
  all.port = address.port;
  int error = 0;
  for (SocketAddress& one : addresses) {
    SetPort(&one, all.port);
    UniqueFd socket = ListenAt(one, /*both_kinds=*/false, stuck);
    if (!socket.valid()) {
      error = errno;
      continue;
    }
    all.port = BoundPort(socket);
    all.sockets.push_back(std::move(socket));
  }
  if (all.sockets.empty()) return CannotListen(address, std::strerror(error));
  return all;
}

std::string TcpPeer(const UniqueFd& socket) {
  SocketAddress peer = {};
  socklen_t size = sizeof(peer);
  if (getpeername(socket.get(), &peer.any, &size) != 0) return "";
  char text[INET6_ADDRSTRLEN] = {};
  std::string host;
  if (peer.any.sa_family == AF_INET) {
    host = inet_ntop(AF_INET, &peer.v4.sin_addr, text, sizeof(text));
  } else if (peer.any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&peer.v6.sin6_addr)) {
    host = inet_ntop(AF_INET, &peer.v6.sin6_addr.s6_addr[12], text, sizeof(text));
  } else if (peer.any.sa_family == AF_INET6) {
    host = inet_ntop(AF_INET6, &peer.v6.sin6_addr, text, sizeof(text));
    if (peer.v6.sin6_scope_id != 0) absl::StrAppend(&host, "%", peer.v6.sin6_scope_id);
  } else {
    return "";
  }
  return FormatHostPort({host, PortOf(peer)});
}

}  // namespace coxswain::net
