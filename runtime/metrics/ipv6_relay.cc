#include "runtime/metrics/ipv6_relay.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "runtime/base/status.h"
#include "runtime/env/without_signals.h"
#include "runtime/net/tcp_socket.h"

namespace coxswain::metrics {
namespace {

constexpr int kTryAgainMs = 100;

// Bytes on their way in one direction.
struct Flow {
  int from = -1, to = -1;
  std::array<char, 16384> bytes{};
  ssize_t begin = 0, end = 0;
  bool over = false;  // nothing more comes from there

  bool empty() const { return begin == end; }
  short events_of(int fd) const {
    short events = 0;
    if (fd == from && empty() && !over) events |= POLLIN;
    if (fd == to && !empty()) events |= POLLOUT;
    return events;
  }
  // False: the connection is over.
  bool Read() {
    const ssize_t n = recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    begin = 0;
    end = n;
    over = n == 0;
    if (over) shutdown(to, SHUT_WR);
    return true;
  }
  bool Write() {
    const ssize_t n = send(to, bytes.data() + begin, static_cast<size_t>(end - begin),
                           MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    begin += n;
    return true;
  }
};

net::UniqueFd ConnectHere(int port) {
  net::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* const any = reinterpret_cast<const sockaddr*>(&address);
  if (!socket.valid() || connect(socket.get(), any, sizeof(address)) != 0) return {};
  return socket;
}

// Readable when this time is over.
net::UniqueFd Timer(int seconds) {
  net::UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  itimerspec time = {};
  time.it_value.tv_sec = seconds;
  if (!timer.valid() || timerfd_settime(timer.get(), 0, &time, nullptr) != 0) return {};
  return timer;
}

// Until the server has answered, the client is gone, the time is over, or `stop` is readable.
void Relay(int client, int server, int stop) {
  const net::UniqueFd timer = Timer(Ipv6Relay::kLongestSeconds);
  if (!timer.valid()) return;
  Flow question{client, server}, answer{server, client};
  while (!answer.over || !answer.empty()) {
    std::array<pollfd, 4> fds = {{{stop, POLLIN, 0}, {timer.get(), POLLIN, 0}}};
    for (size_t i = 0; i < 2; ++i) {
      const int fd = i == 0 ? client : server;
      const auto events = static_cast<short>(question.events_of(fd) | answer.events_of(fd));
      fds[2 + i] = {events == 0 ? -1 : fd, events, 0};  // else its end would wake this for ever
    }
    if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
    if (fds[0].revents != 0 || fds[1].revents != 0) return;
    for (Flow* const flow : {&question, &answer}) {
      const size_t from = flow->from == client ? 2 : 3, to = 5 - from;
      if ((fds[to].revents & ~POLLIN) != 0 && !flow->empty() && !flow->Write()) return;
      if ((fds[from].revents & ~POLLOUT) != 0 && flow->empty() && !flow->over && !flow->Read()) {
        return;
      }
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ipv6Relay>> Ipv6Relay::Listen(const net::HostPort& address,
                                                             int to_port) {
  std::unique_ptr<Ipv6Relay> relay(new Ipv6Relay());
  ASSIGN_OR_RETURN(net::TcpSockets listening,
                   net::ListenTcp(address, absl::Seconds(kLongestSeconds)));
  relay->sockets_ = std::move(listening.sockets);
  relay->port_ = listening.port;
  relay->to_port_ = to_port;
  relay->stop_ = net::UniqueFd(eventfd(0, EFD_CLOEXEC));
  if (!relay->stop_.valid()) return absl::ErrnoToStatus(errno, "no eventfd");
  const env::WithoutSignals inherited;
  for (int i = 0; i < kAtOnce; ++i) {
    relay->threads_.emplace_back([self = relay.get()] { self->Serve(); });
  }
  return relay;
}

Ipv6Relay::~Ipv6Relay() {
  if (stop_.valid()) eventfd_write(stop_.get(), 1);
  for (std::thread& thread : threads_) thread.join();
}

void Ipv6Relay::Serve() const {
  std::vector<pollfd> fds = {{stop_.get(), POLLIN, 0}};
  for (const net::UniqueFd& socket : sockets_) fds.push_back({socket.get(), POLLIN, 0});
  while (true) {
    if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
    if (fds[0].revents != 0) return;
    for (size_t i = 1; i < fds.size(); ++i) {
      if (fds[i].revents == 0) continue;
      const net::UniqueFd client(accept4(fds[i].fd, nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.valid()) {
        // The other thread has it; or there are no more descriptors, and it stays readable.
        if (errno != EAGAIN) poll(fds.data(), 1, kTryAgainMs);
        continue;
      }
      const net::UniqueFd server = ConnectHere(to_port_);
      if (server.valid()) Relay(client.get(), server.get(), stop_.get());
    }
  }
}

}  // namespace coxswain::metrics
