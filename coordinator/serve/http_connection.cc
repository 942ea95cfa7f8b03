#include "coordinator/serve/http_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace coxswain::serve {
namespace {

constexpr std::chrono::milliseconds kLinger{1000};

// Whether the socket is ready before `until`; socket errors count as ready.
bool PollUntil(socket_t socket, short events, std::chrono::steady_clock::time_point until) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (left.count() < 0) return false;
    pollfd waiting{socket, events, 0};
    // Rounded up: a wait truncated to whole milliseconds would spin in the last one.
    const int found = poll(&waiting, 1, static_cast<int>(left.count()) + 1);
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
  }
}

void AddressOf(const sockaddr_storage& address, std::string* ip, int* port) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof(v4));
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    *port = ntohs(v4.sin_port);
  } else if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof(v6));
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    *port = ntohs(v6.sin6_port);
  }
  *ip = text;
}

}  // namespace

HttpConnection::Came HttpConnection::WaitForRequest(std::chrono::milliseconds moment) {
  writing_ = ran_out_ = too_large_ = false;
  in_head_ = true;
  head_.clear();
  left_ = limits_.head_bytes;
  const auto enough = std::min(until_, Clock::now() + moment);
  // Unless the next request arrived with the last one. Through TLS not all that comes is data.
  while (begin_ == end_) {
    const HttpSocket::Moved got = bytes_->Receive(buffer_.data(), buffer_.size());
    if (got.bytes > 0) {
      begin_ = 0;
      end_ = static_cast<size_t>(got.bytes);
    } else if (got.wait_for == 0) {
      return Came::kEnd;
    } else {
      events_ = got.wait_for;
      const auto now = Clock::now();
      if (now >= until_) return Came::kEnd;
      if (now >= enough || !PollUntil(socket_, events_, enough)) return Came::kNothing;
    }
  }
  deadline_ = Clock::now() + limits_.request;
  return Came::kRequest;
}

bool HttpConnection::Wait(short events) const {
  return PollUntil(socket_, events, std::min(deadline_, Clock::now() + limits_.pause));
}

bool HttpConnection::is_readable() const { return begin_ < end_ || Wait(POLLIN); }
bool HttpConnection::is_writable() const { return Wait(POLLOUT); }

ssize_t HttpConnection::read(char* out, size_t size) {
  if (left_ == 0) {
    too_large_ = true;
    return -1;
  }
  while (begin_ == end_) {
    if (Clock::now() > deadline_) {
      ran_out_ = true;
      return -1;
    }
    const HttpSocket::Moved got = bytes_->Receive(buffer_.data(), buffer_.size());
    if (got.bytes > 0) {
      begin_ = 0;
      end_ = static_cast<size_t>(got.bytes);
    } else if (got.wait_for == 0) {
      return got.bytes;
    } else if (!Wait(got.wait_for)) {
      ran_out_ = true;
      return -1;
    }
  }
  const size_t count = std::min({size, end_ - begin_, left_});
  std::memcpy(out, buffer_.data() + begin_, count);
  if (in_head_) head_.append(out, count);
  begin_ += count;
  left_ -= count;
  return static_cast<ssize_t>(count);
}

ssize_t HttpConnection::write(const char* data, size_t size) {
  // The time for computing the answer does not count.
  if (!writing_) deadline_ = Clock::now() + limits_.request;
  writing_ = true;
  size_t sent = 0;
  while (sent < size) {
    if (Clock::now() > deadline_) return -1;
    const HttpSocket::Moved some = bytes_->Send(data + sent, size - sent);
    if (some.bytes > 0) {
      sent += static_cast<size_t>(some.bytes);
    } else if (some.wait_for == 0 || !Wait(some.wait_for)) {
      return -1;
    }
  }
  return static_cast<ssize_t>(sent);
}

void HttpConnection::Linger() {
  bytes_->EndSending();
  const auto until = Clock::now() + kLinger;
  while (PollUntil(socket_, POLLIN, until)) {
    if (!bytes_->Drop() || Clock::now() >= until) return;  // who keeps sending is not waited for
  }
}

void HttpConnection::get_remote_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getpeername(socket_, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
    AddressOf(address, &ip, &port);
  }
}

void HttpConnection::get_local_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
    AddressOf(address, &ip, &port);
  }
}

}  // namespace coxswain::serve
