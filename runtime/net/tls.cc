// What a cluster's certificate has to be beside one that can be read.
#include "runtime/net/tls.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/net/certificates.h"

namespace coxswain::net {
namespace {

constexpr char kDirectoryVariable[] = "COXSWAIN_TLS_DIR", kNameVariable[] = "COXSWAIN_TLS_NAME";

// That the trusted ones have signed it, for this purpose, and that it is in date.
absl::Status CheckSigned(const std::vector<CertificateHandle>& trusted,
                         const std::vector<CertificateHandle>& chain, int purpose,
                         const std::string& use, const Tls& tls) {
  const StoreHandle store(X509_STORE_new());
  for (const CertificateHandle& one : trusted) X509_STORE_add_cert(store.get(), one.get());
  // A list alone: its functions are macros.
  const auto free_list = [](STACK_OF(X509) * list) { sk_X509_free(list); };
  const std::unique_ptr<STACK_OF(X509), decltype(free_list)> between(sk_X509_new_null(), free_list);
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(between.get(), chain[i].get());
  const StoreContextHandle context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), between.get());
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  if (X509_verify_cert(context.get()) == 1) return absl::OkStatus();
  const char* const why = X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
  return WrongFile(tls.certificate_file(),
                   absl::StrCat("as a ", use, "'s, signed by those of ", tls.ca_file(), ": ", why));
}

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<Tls> Tls::Read(const std::string& directory, const std::string& name) {
  Tls tls(directory, name);
  ASSIGN_OR_RETURN(const auto trusted, ReadCertificates(tls.ca_file()));
  ASSIGN_OR_RETURN(const auto chain, ReadCertificates(tls.certificate_file()));
  ASSIGN_OR_RETURN(const KeyHandle key, ReadKey(tls.key_file()));
  X509* const own = chain.front().get();
  RETURN_IF_ERROR(CheckKey(tls.certificate_file(), *own, tls.key_file(), *key));
  constexpr unsigned kByDnsName =
      X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS;
  if (X509_check_host(own, name.data(), name.size(), kByDnsName, nullptr) != 1) {
    return WrongFile(tls.certificate_file(),
                     absl::StrCat("wanted '", name, "' among its DNS names; see --tls-name"));
  }
  RETURN_IF_ERROR(CheckSigned(trusted, chain, X509_PURPOSE_SSL_SERVER, "server", tls));
  RETURN_IF_ERROR(CheckSigned(trusted, chain, X509_PURPOSE_SSL_CLIENT, "client", tls));
  tls.expires_ = ExpiryOf(*own);
  return tls;
}

absl::StatusOr<std::shared_ptr<const Tls>> FindTls(const TlsOptions& options) {
  const std::string directory =
      options.directory.empty() ? Variable(kDirectoryVariable) : options.directory;
  if (directory.empty()) {
    if (options.name.empty()) return nullptr;
    return WithDetail(absl::InvalidArgumentError("--tls-name needs --tls-dir"),
                      {ErrorCause::kConfiguration, false, "", 0});
  }
  std::string name = options.name.empty() ? Variable(kNameVariable) : options.name;
  if (name.empty()) name = kDefaultTlsName;
  absl::StatusOr<Tls> tls = Tls::Read(directory, name);
  if (tls.ok()) return std::make_shared<const Tls>(*std::move(tls));
  return options.directory.empty() ? Annotate(tls.status(), kDirectoryVariable) : tls.status();
}

}  // namespace coxswain::net
