#include "runtime/net/credentials.h"

#include <utility>

#include "runtime/base/status.h"
#include "runtime/net/secret_transport.h"

namespace coxswain::net {

absl::StatusOr<Credentials> FindCredentials(const CredentialOptions& options) {
  Credentials credentials;
  ASSIGN_OR_RETURN(credentials.secret, FindSecret(options.secret));
  ASSIGN_OR_RETURN(credentials.tls, FindTls(options.tls));
  return credentials;
}

std::unique_ptr<Transport> NewClusterTransport(Credentials credentials) {
  TransportOptions options;
  options.tls = std::move(credentials.tls);
  return NewSecretTransport(NewHostTransport(options), std::move(credentials.secret));
}

}  // namespace coxswain::net
