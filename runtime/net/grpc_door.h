// The port of a gRPC server: who connects, and how long somebody may stay who shows no pass
// (pass.h).
//
// gRPC is given connections that were accepted here. Its own loop ends for ever when it finds no
// descriptor for one more, and it does not say which connection is whose.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/server_builder.h"
#include "runtime/net/accept_loop.h"
#include "runtime/net/address.h"
#include "runtime/net/poller.h"
#include "runtime/net/strangers.h"

namespace coxswain::net {

// Thread-safe after Open.
class GrpcDoor : public std::enable_shared_from_this<GrpcDoor> {
 public:
  // `limits`: of those who have not shown a pass. Null: nobody is asked for one.
  GrpcDoor(std::shared_ptr<Poller> poller, const StrangerLimits* limits);

  // Takes the port and puts the one that was picked into `address`. Errors: as ListenTcp.
  absl::Status Bind(HostPort* address, absl::Duration stuck);
  void AddTo(grpc::ServerBuilder& builder,
             const std::shared_ptr<grpc::ServerCredentials>& credentials);
  // Lets in who connects, when the server has started. Errors: as Poller::Add; then it is shut
  // down.
  absl::Status Open(const std::string& address);
  // `peer`, as in TcpPeer, has shown a pass: it stays as long as it likes.
  void Admit(const std::string& peer);
  // The port is free when it returns, and the server gets no more connections.
  void ShutDown();

 private:
  void Take(UniqueFd socket);
  // False: the connection is to be closed.
  bool Watch(const UniqueFd& socket);
  void Forget(const std::string& peer, uint64_t arrival);

  const std::shared_ptr<Poller> poller_;
  const std::shared_ptr<Strangers> strangers_;  // may be null
  std::vector<UniqueFd> sockets_;               // until Open
  std::vector<std::shared_ptr<AcceptLoop>> loops_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  struct Peer {
    uint64_t arrival;   // counted here: a port of a peer can be used again
    uint64_t stranger;  // its number there
  };
  absl::Mutex mu_;
  uint64_t arrivals_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<std::string, Peer> peers_ ABSL_GUARDED_BY(mu_);  // by name
};

// How many strangers this process has descriptors for: each takes two.
size_t MostStrangersOfThisProcess();

}  // namespace coxswain::net
