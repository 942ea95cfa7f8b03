// What a process shows the others of its cluster, and wants to see of them: the secret, and with
// TLS a certificate.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/net/secret.h"
#include "runtime/net/tls.h"
#include "runtime/net/transport.h"

namespace coxswain::net {

struct CredentialOptions {
  SecretOptions secret;
  TlsOptions tls;
};

// A value.
struct Credentials {
  Secret secret;
  std::shared_ptr<const Tls> tls;  // null: none
};

// Those that these options name. Errors: of FindSecret and FindTls.
absl::StatusOr<Credentials> FindCredentials(const CredentialOptions& options);

// Between the processes of a cluster: NewHostTransport, with these.
std::unique_ptr<Transport> NewClusterTransport(Credentials credentials);

}  // namespace coxswain::net
