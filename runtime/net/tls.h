// Certificates of a cluster. With them, what its processes say to each other over TCP is encrypted,
// and only who has one takes part (mutual TLS).
//
// They lie in a directory, as Kubernetes' secrets and cert-manager name them: `ca.crt`, who is
// trusted to sign; `tls.crt`, this process's certificate and those between it and `ca.crt`;
// `tls.key`, its key, which nobody else may be able to read. All of them are PEM.
//
// A certificate is one of the cluster when `ca.crt` signed it and the cluster's name is among its
// DNS names. Which host shows it does not matter: hosts of a cluster come and go.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace coxswain::net {

// A value: where the files are, which were in order when it was read. Whoever uses them reads them
// again from time to time, so that they can be replaced. Errors have cause kConfiguration and name
// the file.
class Tls {
 public:
  // Errors: NotFound and others of the file system; PermissionDenied when others can read the key;
  // InvalidArgument for files that are no PEM, do not belong together, are of another name, out of
  // date, or not for both clients and servers.
  static absl::StatusOr<Tls> Read(const std::string& directory, const std::string& name);

  const std::string& directory() const { return directory_; }
  const std::string& name() const { return name_; }
  // From then on the certificate is of no use.
  absl::Time expires() const { return expires_; }

  std::string ca_file() const { return directory_ + "/ca.crt"; }
  std::string certificate_file() const { return directory_ + "/tls.crt"; }
  std::string key_file() const { return directory_ + "/tls.key"; }

 private:
  Tls(std::string directory, std::string name)
      : directory_(std::move(directory)), name_(std::move(name)) {}

  std::string directory_, name_;
  absl::Time expires_;
};

constexpr char kDefaultTlsName[] = "coxswain";

struct TlsOptions {
  std::string directory;  // --tls-dir; empty: $COXSWAIN_TLS_DIR, or no TLS
  std::string name;       // --tls-name; empty: $COXSWAIN_TLS_NAME, or kDefaultTlsName
};

// What these options name; null: no TLS. Errors: those of Read; InvalidArgument for a name without
// a directory.
absl::StatusOr<std::shared_ptr<const Tls>> FindTls(const TlsOptions& options);

// Makes the three files, with a new key that signs this one certificate and is then forgotten. The
// directory is made; a file that is there already is never replaced. Errors: AlreadyExists and
// others of the file system; InvalidArgument for a name that is no DNS name.
absl::Status MakeCertificates(const std::string& directory, const std::string& name,
                              absl::Duration lifetime);

}  // namespace coxswain::net
