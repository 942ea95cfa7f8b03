// The secret of a cluster: whoever has it commands the daemons and is trusted by them. Never on a
// command line, in the environment, or in a message.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/net/unique_fd.h"

namespace coxswain::net {

// A value. Errors carry cause kConfiguration and name the file.
class Secret {
 public:
  Secret() = default;  // none: nobody is asked for one
  // 256 random bits.
  static Secret Random();
  // A file of 16 to 1,024 bytes, whitespace at its ends not counted, that nobody but its owner can
  // read: this user or root; one of root may be readable by its group. Errors: InvalidArgument,
  // NotFound, PermissionDenied.
  static absl::StatusOr<Secret> Read(const std::string& path);
  // From a descriptor of ToDescriptor that the parent process passed on. It is closed.
  static absl::StatusOr<Secret> ReadDescriptor(int fd);

  bool empty() const { return bytes_.empty(); }
  // Where it comes from, for messages.
  const std::string& source() const { return source_; }

  // Of what both ends know beside it: 32 bytes that nobody can make who has not the secret.
  std::string Proof(absl::string_view message) const;
  // In a time that does not depend on what is wrong.
  bool Proves(absl::string_view message, absl::string_view proof) const;

  // An anonymous file with it, which goes when the last descriptor is closed.
  absl::StatusOr<UniqueFd> ToDescriptor() const;

 private:
  friend absl::Status MakeSecretFile(const std::string& path);
  Secret(std::string bytes, std::string source)
      : bytes_(std::move(bytes)), source_(std::move(source)) {}
  static absl::StatusOr<Secret> Parse(absl::string_view text, const std::string& source);

  std::string bytes_, source_;
};

// Writes a new secret, as text, into a file that only this user can read. Directories on the way
// are made. Errors: AlreadyExists; PermissionDenied and others of the file system.
absl::Status MakeSecretFile(const std::string& path);

// $XDG_CONFIG_HOME/coxswain/secret, or ~/.config/coxswain/secret. Empty for a user without a home.
std::string DefaultSecretFile();

struct SecretOptions {
  std::string file;       // --secret-file; empty: $COXSWAIN_SECRET_FILE, or the user's own
  bool insecure = false;  // --insecure: without one, on a network where everybody is trusted
};

// The secret that these options name; none with `insecure`. `make`: the user's own file is made
// when there is none. Errors: those of Read, NotFound when no file is named and the user has none.
absl::StatusOr<Secret> FindSecret(const SecretOptions& options, bool make = false);

}  // namespace coxswain::net
