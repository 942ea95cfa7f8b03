// Asks a server of this machine something over HTTP, byte by byte as a test wants it. On any
// thread: without assertions.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/net/address.h"
#include "runtime/net/unique_fd.h"

namespace coxswain {

// A connection to "127.0.0.1:9464" or "[::1]:9464"; invalid when nobody listens there, or it is no
// address.
inline net::UniqueFd ConnectTo(const std::string& address) {
  const auto at = net::ParseHostPort(address);
  if (!at.ok()) return {};
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<uint16_t>(at->port));
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = v4.sin_port;
  const bool is_v4 = inet_pton(AF_INET, at->host.c_str(), &v4.sin_addr) == 1;
  if (!is_v4 && inet_pton(AF_INET6, at->host.c_str(), &v6.sin6_addr) != 1) return {};
  net::UniqueFd socket(::socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* const any =
      is_v4 ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
  const socklen_t size = is_v4 ? sizeof(v4) : sizeof(v6);
  if (!socket.valid() || connect(socket.get(), any, size) != 0) return {};
  return socket;
}

inline void SendText(const net::UniqueFd& socket, const std::string& text) {
  (void)send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

// All that comes until the server ends the connection, or says nothing for a long time.
inline std::string ReadToEnd(const net::UniqueFd& socket) {
  constexpr int kLongMs = 30000;
  std::string text;
  char buffer[4096];
  while (true) {
    pollfd one = {socket.get(), POLLIN, 0};
    if (poll(&one, 1, kLongMs) != 1) return text;
    const ssize_t n = recv(socket.get(), buffer, sizeof(buffer), 0);
    if (n <= 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
}

// Head and body of the answer; empty when there is none.
inline std::string Ask(const std::string& address, const std::string& line) {
  const net::UniqueFd socket = ConnectTo(address);
  if (!socket.valid()) return "";
  SendText(socket, absl::StrCat(line, " HTTP/1.1\r\nHost: ", address, "\r\n\r\n"));
  return ReadToEnd(socket);
}

inline std::string Scrape(const std::string& address) { return Ask(address, "GET /metrics"); }

}  // namespace coxswain
