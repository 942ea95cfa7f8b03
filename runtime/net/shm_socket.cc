// Names of sockets for addresses, making and connecting them, and the handshake in which the
// memory's descriptor travels.
#include "runtime/net/shm_socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::net {
namespace {

// Of the handshake and of what lies in the memory; other versions do not meet.
constexpr int kVersion = 1;
constexpr uint64_t kHello = 0x314d485358534f43;  // "COXSXHM1"

bool IsWildcard(const std::string& host) {
  return host == "0.0.0.0" || host == "::" || host == "[::]";
}

// "localhost" is what gRPC listens at and connects to as 127.0.0.1.
std::string PlainHost(const std::string& host) { return host == "localhost" ? "127.0.0.1" : host; }

bool IsAddressOfThisHost(const std::string& host) {
  in_addr v4 = {};
  in6_addr v6 = {};
  const bool is_v4 = inet_pton(AF_INET, host.c_str(), &v4) == 1;
  if (!is_v4 && inet_pton(AF_INET6, host.c_str(), &v6) != 1) return false;
  if (is_v4 && (ntohl(v4.s_addr) >> 24) == 127) return true;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  bool found = false;
  for (const ifaddrs* one = all; one != nullptr && !found; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    if (is_v4 && one->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
      found = address->sin_addr.s_addr == v4.s_addr;
    } else if (!is_v4 && one->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr);
      found = std::memcmp(&address->sin6_addr, &v6, sizeof(v6)) == 0;
    }
  }
  freeifaddrs(all);
  return found;
}

std::string NameOf(absl::string_view host, int port) {
  return absl::StrCat("coxswain-", kVersion, "/", host, ":", port);
}

absl::Status Failed(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

struct UnixAddress {
  sockaddr_un address = {};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// In the abstract namespace: it belongs to the network namespace and leaves nothing behind.
absl::StatusOr<UnixAddress> AbstractAddress(const std::string& name) {
  UnixAddress address;
  if (name.size() + 1 > sizeof(address.address.sun_path)) {
    return absl::UnavailableError(absl::StrCat("'", name, "' is too long for a socket's name"));
  }
  address.address.sun_family = AF_UNIX;
  std::memcpy(address.address.sun_path + 1, name.data(), name.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

absl::StatusOr<UniqueFd> NewSocket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Failed("socket");
  return fd;
}

bool PeerCredentials(const UniqueFd& socket, ucred* peer) {
  socklen_t length = sizeof(*peer);
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, peer, &length) == 0;
}

// Room for one descriptor as ancillary data.
union ControlBuffer {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr align;
};

}  // namespace

std::string ShmName(const HostPort& address) {
  return NameOf(IsWildcard(address.host) ? "*" : PlainHost(address.host), address.port);
}

std::vector<std::string> ShmNamesFor(const HostPort& address) {
  const std::string host = PlainHost(address.host);
  std::vector<std::string> names = {NameOf(host, address.port)};
  if (IsAddressOfThisHost(host)) names.push_back(NameOf("*", address.port));
  return names;
}

std::string LocalName(const std::string& address) {
  return absl::StrCat("coxswain-", kVersion, "/", address);
}

absl::StatusOr<UniqueFd> ListenAt(const std::string& name) {
  ASSIGN_OR_RETURN(const UnixAddress address, AbstractAddress(name));
  ASSIGN_OR_RETURN(UniqueFd fd, NewSocket());
  if (bind(fd.get(), address.get(), address.length) != 0) return Failed("bind");
  if (listen(fd.get(), SOMAXCONN) != 0) return Failed("listen");
  return fd;
}

absl::StatusOr<UniqueFd> ConnectTo(const std::string& name) {
  ASSIGN_OR_RETURN(const UnixAddress address, AbstractAddress(name));
  ASSIGN_OR_RETURN(UniqueFd fd, NewSocket());
  if (connect(fd.get(), address.get(), address.length) != 0) return Failed("connect");
  return fd;
}

bool SameUser(const UniqueFd& socket) {
  ucred peer = {};
  return PeerCredentials(socket, &peer) && peer.uid == geteuid();
}

std::string PeerName(const UniqueFd& socket) {
  ucred peer = {};
  if (!PeerCredentials(socket, &peer)) return "a process on this host";
  return absl::StrCat("process ", peer.pid, " on this host");
}

absl::Status SendHello(const UniqueFd& socket, const UniqueFd& file) {
  uint64_t hello = kHello;
  iovec part = {&hello, sizeof(hello)};
  ControlBuffer control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = file.get();
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  if (sendmsg(socket.get(), &message, MSG_NOSIGNAL) != sizeof(hello)) return Failed("sendmsg");
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> ReceiveHello(const UniqueFd& socket) {
  uint64_t hello = 0;
  iovec part = {&hello, sizeof(hello)};
  ControlBuffer control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  // Looked at first: with no descriptor for the file, taking the hello would lose the file.
  const ssize_t got = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    return absl::UnavailableError("nothing has come yet");
  }
  if (got == 0) return absl::CancelledError("the other end went without a word");
  UniqueFd file;
  if (const cmsghdr* header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
      header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    file = UniqueFd(fd);
  }
  if (!file.valid() && (message.msg_flags & MSG_CTRUNC) != 0) {
    return absl::ResourceExhaustedError("no descriptor for the file that came");
  }
  [[maybe_unused]] const ssize_t taken = recv(socket.get(), &hello, sizeof(hello), 0);
  if (got != sizeof(hello) || hello != kHello || !file.valid()) {
    return absl::InvalidArgumentError("wanted a file of shared memory, found something else");
  }
  return file;
}

void SendAnswer(const UniqueFd& socket, bool yes) {
  const char answer = yes ? 'y' : 'n';
  [[maybe_unused]] const ssize_t sent = send(socket.get(), &answer, 1, MSG_NOSIGNAL);
}

ShmAnswer ReceiveAnswer(const UniqueFd& socket) {
  char answer = 0;
  const ssize_t got = recv(socket.get(), &answer, 1, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    return ShmAnswer::kNotYet;
  }
  return got == 1 && answer == 'y' ? ShmAnswer::kYes : ShmAnswer::kNo;
}

}  // namespace coxswain::net
