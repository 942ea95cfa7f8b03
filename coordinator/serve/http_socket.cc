#include "coordinator/serve/http_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace coxswain::serve {
namespace {

class Plain final : public HttpSocket {
 public:
  explicit Plain(int socket) : socket_(socket) {}

  Moved Receive(char* to, size_t size) override {
    const ssize_t got = recv(socket_, to, size, MSG_DONTWAIT);
    return {got, got < 0 ? WaitAfter(errno, POLLIN) : short{0}};
  }
  Moved Send(const char* from, size_t size) override {
    const ssize_t sent = send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    return {sent, sent < 0 ? WaitAfter(errno, POLLOUT) : short{0}};
  }
  void EndSending() override { shutdown(socket_, SHUT_WR); }
  bool Drop() override { return DropBytes(socket_); }

 private:
  const int socket_;
};

}  // namespace

short WaitAfter(int error, short events) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR ? events : short{0};
}

bool DropBytes(int socket) {
  std::array<char, 16 << 10> bytes;
  const ssize_t got = recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  return got > 0 || (got < 0 && WaitAfter(errno, POLLIN) != 0);
}

std::unique_ptr<HttpSocket> PlainSocket(int socket) { return std::make_unique<Plain>(socket); }

}  // namespace coxswain::serve
