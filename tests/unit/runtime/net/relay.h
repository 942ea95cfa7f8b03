// A TCP relay between two ends, which can be cut or frozen as a network or a host can.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

namespace coxswain::net_testing {

inline sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// A socket that listens at a free port of this host.
class ListeningSocket {
 public:
  ListeningSocket() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t length = sizeof(address);
    ok_ = bind(fd_, reinterpret_cast<sockaddr*>(&address), length) == 0 && listen(fd_, 16) == 0 &&
          getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) == 0;
    port_ = ntohs(address.sin_port);
  }
  ~ListeningSocket() { close(fd_); }
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;

  bool ok() const { return ok_; }
  int fd() const { return fd_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  const int fd_;
  bool ok_ = false;
  int port_ = 0;
};

// A socket connected to `address`, "127.0.0.1:port"; -1 when that fails.
inline int ConnectSocket(const std::string& address) {
  const sockaddr_in to = Loopback(std::stoi(address.substr(address.rfind(':') + 1)));
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0) return fd;
  close(fd);
  return -1;
}

// Relays the first connection made to address() to `target`.
class Relay {
 public:
  explicit Relay(std::string target) : target_(std::move(target)) {
    thread_ = std::thread([this] { Run(); });
  }
  ~Relay() { Cut(); }

  std::string address() const { return listening_.address(); }
  // Passes nothing on from now on, in silence.
  void Freeze() { frozen_ = true; }
  // All bytes that came from either end. Only after Cut.
  const std::string& passed() const { return passed_; }
  // Resets both connections.
  void Cut() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  static bool Readable(int fd) {
    pollfd wait{fd, POLLIN, 0};
    return poll(&wait, 1, 1) > 0;
  }

  bool Pass(int from, int to) {
    char bytes[65536];
    const ssize_t got = recv(from, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    passed_.append(bytes, static_cast<size_t>(got));
    for (ssize_t at = 0; at < got;) {
      const ssize_t sent = send(to, bytes + at, got - at, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      at += sent;
    }
    return true;
  }

  static void Reset(int fd) {
    const linger now{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(fd);
  }

  void Run() {
    while (!stop_ && !Readable(listening_.fd())) {
    }
    if (stop_) return;
    const int near = accept(listening_.fd(), nullptr, nullptr);
    const int far = ConnectSocket(target_);
    bool open = near >= 0 && far >= 0;
    while (open && !stop_) {
      if (frozen_) {
        poll(nullptr, 0, 1);
        continue;
      }
      pollfd wait[2] = {{near, POLLIN, 0}, {far, POLLIN, 0}};
      poll(wait, 2, 1);
      if (wait[0].revents != 0) open = open && Pass(near, far);
      if (wait[1].revents != 0) open = open && Pass(far, near);
    }
    if (near >= 0) Reset(near);
    if (far >= 0) Reset(far);
  }

  const std::string target_;
  std::string passed_;  // of the thread
  ListeningSocket listening_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> frozen_{false};
  std::thread thread_;
};

}  // namespace coxswain::net_testing
