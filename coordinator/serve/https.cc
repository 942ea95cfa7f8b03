// One connection through TLS; then what a server shows, read from files that may be replaced.
#include "coordinator/serve/https.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/net/certificates.h"

namespace coxswain::serve {
namespace {

using ContextHandle = std::unique_ptr<SSL_CTX, net::FreeWith<SSL_CTX_free>>;
using SslHandle = std::unique_ptr<SSL, net::FreeWith<SSL_free>>;

// How soon files that could not be used are tried again, though they are the same.
constexpr absl::Duration kAgain = absl::Seconds(5);

class TlsSocket final : public HttpSocket {
 public:
  TlsSocket(int socket, SslHandle ssl) : socket_(socket), ssl_(std::move(ssl)) {}

  Moved Receive(char* to, size_t size) override {
    ERR_clear_error();
    return After(SSL_read(ssl_.get(), to, Bounded(size)));
  }
  Moved Send(const char* from, size_t size) override {
    ERR_clear_error();
    return After(SSL_write(ssl_.get(), from, Bounded(size)));
  }
  void EndSending() override {
    ERR_clear_error();
    if (!broken_ && SSL_is_init_finished(ssl_.get()) != 0) SSL_shutdown(ssl_.get());
    shutdown(socket_, SHUT_WR);
  }
  bool Drop() override { return DropBytes(socket_); }

 private:
  static int Bounded(size_t size) {
    return static_cast<int>(std::min<size_t>(size, std::numeric_limits<int>::max()));
  }
  Moved After(int result) {
    if (result > 0) return {result, 0};
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return {-1, POLLIN};
      case SSL_ERROR_WANT_WRITE:
        return {-1, POLLOUT};
      case SSL_ERROR_ZERO_RETURN:
        return {0, 0};
      default:
        broken_ = true;  // nothing may be done with it any more, not even to end it
        return {-1, 0};
    }
  }

  const int socket_;
  const SslHandle ssl_;
  bool broken_ = false;
};

// What tells a file from the one that was there before.
std::string StateOf(const std::string& file) {
  if (file.empty()) return "";
  struct stat found = {};
  if (stat(file.c_str(), &found) != 0) return "gone;";
  // Of the last change of anything: rights and owner, too, decide whether it can be used.
  return absl::StrCat(found.st_dev, ",", found.st_ino, ",", found.st_size, ",",
                      found.st_mtim.tv_sec, ",", found.st_mtim.tv_nsec, ",", found.st_ctim.tv_sec,
                      ",", found.st_ctim.tv_nsec, ";");
}

std::string StateOf(const HttpsFiles& files) {
  return absl::StrCat(StateOf(files.certificate), StateOf(files.key), StateOf(files.client_ca));
}

}  // namespace

class Https::Context {
 public:
  static absl::StatusOr<std::shared_ptr<const Context>> Read(const HttpsFiles& files) {
    ASSIGN_OR_RETURN(const auto chain, net::ReadCertificates(files.certificate));
    ASSIGN_OR_RETURN(const net::KeyHandle key, net::ReadKey(files.key));
    RETURN_IF_ERROR(net::CheckKey(files.certificate, *chain.front(), files.key, *key));
    RETURN_IF_ERROR(net::CheckDates(files.certificate, *chain.front(), absl::Now()));
    auto context = std::make_shared<Context>();
    context->expires_ = net::ExpiryOf(*chain.front());
    context->handle_.reset(SSL_CTX_new(TLS_server_method()));
    SSL_CTX* const c = context->handle_.get();
    bool good = c != nullptr && SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) == 1 &&
                SSL_CTX_use_certificate(c, chain.front().get()) == 1 &&
                SSL_CTX_use_PrivateKey(c, key.get()) == 1;
    for (size_t i = 1; i < chain.size(); ++i) {
      good = good && SSL_CTX_add1_chain_cert(c, chain[i].get()) == 1;
    }
    if (good) {
      SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
      SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
      // Else a client that sends what is no data would keep a read for as long as it likes.
      SSL_CTX_clear_mode(c, SSL_MODE_AUTO_RETRY);
    }
    if (good && !files.client_ca.empty()) {
      ASSIGN_OR_RETURN(const auto trusted, net::ReadCertificates(files.client_ca));
      for (const net::CertificateHandle& one : trusted) {
        good = good && X509_STORE_add_cert(SSL_CTX_get_cert_store(c), one.get()) == 1 &&
               SSL_CTX_add_client_CA(c, one.get()) == 1;
      }
      // One between clients and an authority will do.
      X509_STORE_set_flags(SSL_CTX_get_cert_store(c), X509_V_FLAG_PARTIAL_CHAIN);
      SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
      // A session that goes on is one of a context, which this names.
      constexpr unsigned char kId[] = "coxswain";
      good = good && SSL_CTX_set_session_id_context(c, kId, sizeof(kId) - 1) == 1;
    }
    if (good) return context;
    return absl::InternalError(
        absl::StrCat(files.certificate, ": no TLS with it: ", net::TakeOpensslError()));
  }

  absl::Time expires() const { return expires_; }
  SslHandle NewConnection() const { return SslHandle(SSL_new(handle_.get())); }

 private:
  ContextHandle handle_;
  absl::Time expires_;
};

Https::Https(HttpsFiles files) : files_(std::move(files)) {}
Https::~Https() = default;

absl::StatusOr<std::unique_ptr<Https>> Https::Open(const HttpsFiles& files) {
  std::unique_ptr<Https> https(new Https(files));
  absl::MutexLock lock(&https->mu_);
  https->tried_ = StateOf(files);
  ASSIGN_OR_RETURN(https->context_, Context::Read(files));
  return https;
}

absl::Time Https::expires() const {
  absl::MutexLock lock(&mu_);
  return context_->expires();
}

std::shared_ptr<const Https::Context> Https::Current() {
  const std::string state = StateOf(files_);
  absl::MutexLock lock(&mu_);
  const absl::Time now = absl::Now();
  if (state == tried_ && now < again_) return context_;
  tried_ = state;
  auto fresh = Context::Read(files_);
  const std::string why(fresh.status().message());
  if (fresh.ok()) {
    context_ = *std::move(fresh);
    again_ = absl::InfiniteFuture();
    LogInfo("new certificate ", files_.certificate, ", which expires on ",
            absl::FormatTime("%Y-%m-%d", context_->expires(), absl::UTCTimeZone()));
  } else {
    // What is wrong may pass without a change of the files.
    again_ = now + kAgain;
    if (why != refused_) LogWarning("the certificate stays as it was: ", why);
  }
  refused_ = why;
  return context_;
}

std::unique_ptr<HttpSocket> Https::Accept(int socket) {
  ERR_clear_error();
  SslHandle ssl = Current()->NewConnection();
  // Only what does not wait comes back to look at the time limits.
  const int flags = fcntl(socket, F_GETFL);
  if (ssl == nullptr || SSL_set_fd(ssl.get(), socket) != 1 || flags < 0 ||
      fcntl(socket, F_SETFL, flags | O_NONBLOCK) != 0) {
    return nullptr;
  }
  SSL_set_accept_state(ssl.get());
  return std::make_unique<TlsSocket>(socket, std::move(ssl));
}

}  // namespace coxswain::serve
