// HTTPS: the server's certificate, and connections that are encrypted with it.
#pragma once

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "coordinator/serve/http_socket.h"

namespace coxswain::serve {

// Files, PEM. All empty: plain HTTP.
struct HttpsFiles {
  std::string certificate;  // the server's, then those between it and who is trusted
  std::string key;          // without a passphrase; nobody else may be able to read it
  std::string client_ca;    // clients must show a certificate that one of these signed; empty: none
};

// Thread-safe. Files that were replaced are taken for new connections; if they cannot be used, that
// is logged, and the last good ones stay.
class Https {
 public:
  // Errors, which name the file and have cause kConfiguration: as Tls::Read (runtime/net/tls.h),
  // but that any name is good, and who signed it is the clients' business.
  static absl::StatusOr<std::unique_ptr<Https>> Open(const HttpsFiles& files);
  ~Https();

  // From then on clients will not believe it.
  absl::Time expires() const;
  // A new connection, whose handshake is part of the first bytes that are received. `socket` stays
  // the caller's. Null: there is no memory for it.
  std::unique_ptr<HttpSocket> Accept(int socket);

 private:
  class Context;  // the files as they were at one moment
  explicit Https(HttpsFiles files);
  std::shared_ptr<const Context> Current();

  const HttpsFiles files_;
  mutable absl::Mutex mu_;
  std::shared_ptr<const Context> context_ ABSL_GUARDED_BY(mu_);
  std::string tried_ ABSL_GUARDED_BY(mu_);    // the state of the files that was looked at last
  std::string refused_ ABSL_GUARDED_BY(mu_);  // why they could not be used; empty: they could
  absl::Time again_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
};

}  // namespace coxswain::serve
