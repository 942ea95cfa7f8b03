#include "coordinator/local/daemon_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::local {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(60);  // on a machine that is overloaded
constexpr absl::Duration kEndTimeout = absl::Seconds(1);
constexpr int kPortAttempts = 5;
constexpr int kCannotListen = 4;  // a daemon's exit code

// A loopback port, and the socket that is bound to it. Nobody is given a port that is bound, but
// who binds with SO_REUSEADDR, as gRPC does, may have it beside a socket that does not listen.
absl::StatusOr<std::pair<net::UniqueFd, int>> ReservePort() {
  net::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  const int on = 1;
  // Bound without the option first: it must be free.
  if (!fd.valid() || bind(fd.get(), raw, size) != 0 || getsockname(fd.get(), raw, &size) != 0 ||
      setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) {
    return absl::UnavailableError(absl::StrCat("no port for a daemon: ", std::strerror(errno)));
  }
  return std::pair(std::move(fd), static_cast<int>(ntohs(address.sin_port)));
}

Incarnation NewIncarnation() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) | 1;  // never 0
}

}  // namespace

DaemonProcess::DaemonProcess(const DaemonLaunch& launch)
    : launch_(launch), next_incarnation_(NewIncarnation()) {}

absl::StatusOr<DaemonProcess> DaemonProcess::Begin(const DaemonLaunch& launch) {
  DaemonProcess daemon(launch);
  RETURN_IF_ERROR(daemon.StartAtNewAddress());
  return daemon;
}

std::string DaemonProcess::name() const {
  return absl::StrCat("/job:", launch_.job, "/task:", launch_.task);
}

absl::Status DaemonProcess::StartAtNewAddress() {
  if (launch_.same_user) {
    listen_ = {"--local-socket", absl::StrCat(absl::Hex(NewIncarnation(), absl::kZeroPad16),
                                              absl::Hex(NewIncarnation(), absl::kZeroPad16))};
  } else {
    ASSIGN_OR_RETURN(auto reserved, ReservePort());
    port_ = std::move(reserved.first);
    listen_ = {"--port", absl::StrCat(reserved.second)};
  }
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  out_ = net::UniqueFd(out[0]);
  const net::UniqueFd writing(out[1]);
  return Start(writing.get());
}

absl::Status DaemonProcess::Start(int out) {
  incarnation_ = std::exchange(next_incarnation_, NewIncarnation());
  ChildOptions options;
  options.command = {absl::StrCat(launch_.directory, "/coxswain-", launch_.job),
                     "--task",
                     absl::StrCat(launch_.task),
                     "--threads",
                     absl::StrCat(launch_.threads),
                     "--incarnation",
                     absl::StrCat(incarnation_)};
  options.command.insert(options.command.end(), listen_.begin(), listen_.end());
  if (launch_.insecure) options.command.push_back("--insecure");
  if (launch_.secret >= 0) {
    options.command.insert(options.command.end(), {"--secret-fd", absl::StrCat(launch_.secret)});
    options.inherits = launch_.secret;
  }
  if (!launch_.log_level.empty()) {
    options.command.insert(options.command.end(), {"--log-level", launch_.log_level});
  }
  options.out = out;
  options.err = launch_.err;
  options.death_signal = launch_.death_signal;
  auto child = Child::Start(options);
  if (absl::IsNotFound(child.status())) {
    return absl::NotFoundError(
        absl::StrCat(child.status().message(),
                     "; the daemons are looked for beside this program, unless "
                     "ClusterOptions::daemon_directory names another directory"));
  }
  RETURN_IF_ERROR(child.status());
  child_ = *std::move(child);
  return absl::OkStatus();
}

absl::Status DaemonProcess::AwaitReady() {
  for (int attempt = 1;; ++attempt) {
    auto address = ReadAddress(out_.get(), name(), kStartTimeout);
    if (address.ok()) {
      address_ = *std::move(address);
      return absl::OkStatus();
    }
    const absl::Status status = address.status();
    // Its stdout may be closed a moment before it is gone.
    const bool ended = absl::IsUnavailable(status) && child_.WaitFor(kEndTimeout);
    if (!ended) return Annotate(status, absl::StrCat("process ", child_.pid()));
    if (child_.Poll() != kCannotListen || attempt == kPortAttempts) {
      return absl::UnavailableError(
          absl::StrCat(status.message(), "; it ", HowEnded(child_.Poll())));
    }
    RETURN_IF_ERROR(StartAtNewAddress());
  }
}

absl::Status DaemonProcess::Restart() {
  const net::UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  return Start(null.get());
}

}  // namespace coxswain::local
