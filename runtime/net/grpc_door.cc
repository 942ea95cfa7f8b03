#include "runtime/net/grpc_door.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/net/tcp_socket.h"

namespace coxswain::net {

size_t MostStrangersOfThisProcess() {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return std::numeric_limits<size_t>::max();
  // At most half of the descriptors: friends and files need the others.
  return std::max<size_t>(8, files.rlim_cur / 4);
}

GrpcDoor::GrpcDoor(std::shared_ptr<Poller> poller, const StrangerLimits* limits)
    : poller_(std::move(poller)),
      strangers_(limits == nullptr ? nullptr : std::make_shared<Strangers>(*limits, poller_)) {}

absl::Status GrpcDoor::Bind(HostPort* address, absl::Duration stuck) {
  ASSIGN_OR_RETURN(TcpSockets bound, ListenTcp(*address, stuck));
  address->port = bound.port;
  sockets_ = std::move(bound.sockets);
  return absl::OkStatus();
}

void GrpcDoor::AddTo(grpc::ServerBuilder& builder,
                     const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
}

absl::Status GrpcDoor::Open(const std::string& address) {
  for (UniqueFd& socket : sockets_) {
    auto loop = std::make_shared<AcceptLoop>(
        poller_, std::move(socket), absl::StrCat("those who connect to ", address),
        [this](UniqueFd arrived) { Take(std::move(arrived)); });
    if (absl::Status added = poller_->Add(loop); !added.ok()) {
      ShutDown();
      return added;
    }
    loops_.push_back(std::move(loop));
  }
  sockets_.clear();
  return absl::OkStatus();
}

void GrpcDoor::Take(UniqueFd socket) {
  if (strangers_ != nullptr && !Watch(socket)) return;
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = socket.release();
  acceptor_->HandleNewConnection(&connection);
}

bool GrpcDoor::Watch(const UniqueFd& socket) {
  const std::string peer = TcpPeer(socket);
  if (peer.empty()) return false;  // it is gone
  // gRPC owns the other one. What is done to this one is done to the connection, too.
  auto ours = std::make_shared<UniqueFd>(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!ours->valid()) return false;
  uint64_t arrival = 0;
  {
    absl::MutexLock lock(&mu_);
    arrival = ++arrivals_;
    peers_.insert_or_assign(peer, Peer{arrival, 0});
  }
  const uint64_t stranger =
      strangers_->Enter([weak = weak_from_this(), peer, arrival, ours](absl::string_view why) {
        LogDebug("ends the connection of ", peer, ": ", why);
        shutdown(ours->get(), SHUT_RDWR);
        if (const auto door = weak.lock()) door->Forget(peer, arrival);
      });
  if (stranger == 0) {
    Forget(peer, arrival);
    return false;
  }
  absl::MutexLock lock(&mu_);
  const auto it = peers_.find(peer);
  if (it != peers_.end() && it->second.arrival == arrival) it->second.stranger = stranger;
  return true;
}

void GrpcDoor::Forget(const std::string& peer, uint64_t arrival) {
  absl::MutexLock lock(&mu_);
  const auto it = peers_.find(peer);
  if (it != peers_.end() && it->second.arrival == arrival) peers_.erase(it);
}

void GrpcDoor::Admit(const std::string& peer) {
  uint64_t stranger = 0;
  {
    absl::MutexLock lock(&mu_);
    const auto it = peers_.find(peer);
    if (it == peers_.end()) return;  // it showed a pass before
    stranger = it->second.stranger;
    peers_.erase(it);
  }
  strangers_->Leave(stranger);
}

void GrpcDoor::ShutDown() {
  for (const auto& loop : loops_) loop->ShutDown();
}

}  // namespace coxswain::net
