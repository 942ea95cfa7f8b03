// gRPC's credentials of either end of a connection.
#pragma once

#include <memory>

#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "runtime/net/tls.h"

namespace coxswain::net {

// Null: plain TCP. Else each end shows its certificate and wants one of the cluster. New files are
// taken for new connections within some seconds.
std::shared_ptr<grpc::ChannelCredentials> ClientCredentials(const Tls* tls);
std::shared_ptr<grpc::ServerCredentials> ListenerCredentials(const Tls* tls);

}  // namespace coxswain::net
