// Files with a secret, the secret and its proofs, and where a process looks for one.
#include "runtime/net/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/net/private_file.h"

namespace coxswain::net {
namespace {

constexpr size_t kLeast = 16, kMost = 1024;
constexpr size_t kRandomBytes = 32;
constexpr char kVariable[] = "COXSWAIN_SECRET_FILE";

absl::Status Wrong(absl::StatusCode code, absl::string_view message) {
  return WithDetail(absl::Status(code, message), {ErrorCause::kConfiguration, false, "", 0});
}

absl::Status SystemError(int error, absl::string_view what) {
  return Wrong(absl::ErrnoToStatusCode(error), absl::StrCat(what, ": ", std::strerror(error)));
}

// At most kMost bytes and one more, from the beginning, wherever the descriptor stands.
absl::StatusOr<std::string> ReadSome(int fd, const std::string& name) {
  std::string text(kMost + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = pread(fd, text.data() + size, text.size() - size, static_cast<off_t>(size));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(errno, name);
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  text.resize(size);
  return text;
}

}  // namespace

Secret Secret::Random() {
  std::string bytes(kRandomBytes, '\0');
  COX_CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
            "no entropy");
  return Secret(absl::BytesToHexString(bytes), "the secret of this program");
}

absl::StatusOr<Secret> Secret::Parse(absl::string_view text, const std::string& source) {
  const absl::string_view bytes = absl::StripAsciiWhitespace(text);
  if (bytes.size() < kLeast || text.size() > kMost) {
    return Wrong(
        absl::StatusCode::kInvalidArgument,
        absl::StrCat(source, ": wanted a secret of ", kLeast, " to ", kMost, " bytes, found ",
                     text.size() > kMost ? "more" : absl::StrCat(bytes.size())));
  }
  return Secret(std::string(bytes), source);
}

absl::StatusOr<Secret> Secret::Read(const std::string& path) {
  const std::string name = absl::StrCat("secret file ", path);
  ASSIGN_OR_RETURN(const std::string text, ReadPrivateFile(path, name, kMost));
  return Parse(text, name);
}

absl::StatusOr<Secret> Secret::ReadDescriptor(int fd) {
  const UniqueFd owned(fd);
  const std::string name = absl::StrCat("secret from descriptor ", fd);
  ASSIGN_OR_RETURN(const std::string text, ReadSome(fd, name));
  return Parse(text, name);
}

std::string Secret::Proof(absl::string_view message) const {
  unsigned char proof[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  COX_CHECK(HMAC(EVP_sha256(), bytes_.data(), static_cast<int>(bytes_.size()),
                 reinterpret_cast<const unsigned char*>(message.data()), message.size(), proof,
                 &size) != nullptr,
            "no HMAC-SHA256");
  return std::string(reinterpret_cast<const char*>(proof), size);
}

bool Secret::Proves(absl::string_view message, absl::string_view proof) const {
  const std::string wanted = Proof(message);
  return proof.size() == wanted.size() &&
         CRYPTO_memcmp(proof.data(), wanted.data(), wanted.size()) == 0;
}

absl::StatusOr<UniqueFd> Secret::ToDescriptor() const {
  UniqueFd fd(memfd_create("coxswain-secret", MFD_CLOEXEC));
  if (!fd.valid()) return SystemError(errno, "an anonymous file for a secret");
  if (write(fd.get(), bytes_.data(), bytes_.size()) != static_cast<ssize_t>(bytes_.size())) {
    return SystemError(errno, "an anonymous file for a secret");
  }
  return fd;
}

absl::Status MakeSecretFile(const std::string& path) {
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!directory.empty()) std::filesystem::create_directories(directory, error);
  if (error) return SystemError(error.value(), directory.string());
  return WriteNewFile(path, absl::StrCat("secret file ", path),
                      absl::StrCat(Secret::Random().bytes_, "\n"), 0600);
}

std::string DefaultSecretFile() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr || value[0] != '/' ? "" : value;
  };
  if (const std::string config = variable("XDG_CONFIG_HOME"); !config.empty()) {
    return config + "/coxswain/secret";
  }
  std::string home = variable("HOME");
  if (home.empty()) {
    passwd entry = {};
    passwd* found = nullptr;
    char buffer[4096];
    if (getpwuid_r(geteuid(), &entry, buffer, sizeof(buffer), &found) == 0 && found != nullptr) {
      home = found->pw_dir;
    }
  }
  return home.empty() ? "" : home + "/.config/coxswain/secret";
}

absl::StatusOr<Secret> FindSecret(const SecretOptions& options, bool make) {
  if (options.insecure && !options.file.empty()) {
    return Wrong(absl::StatusCode::kInvalidArgument,
                 "--secret-file and --insecure exclude each other");
  }
  if (options.insecure) return Secret();
  if (!options.file.empty()) return Secret::Read(options.file);
  if (const char* named = std::getenv(kVariable); named != nullptr && named[0] != '\0') {
    auto secret = Secret::Read(named);
    if (!secret.ok()) return Annotate(secret.status(), kVariable);
    return secret;
  }
  const std::string own = DefaultSecretFile();
  if (!own.empty()) {
    auto secret = Secret::Read(own);
    if (secret.ok() || !absl::IsNotFound(secret.status())) return secret;
    if (make) {
      const absl::Status made = MakeSecretFile(own);
      if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
      return Secret::Read(own);
    }
  }
  return Wrong(
      absl::StatusCode::kNotFound,
      absl::StrCat("no secret for the cluster: wanted --secret-file FILE, ", kVariable, "=FILE",
                   own.empty() ? "" : ", ", own, ", or --insecure where everybody is trusted"));
}

}  // namespace coxswain::net
