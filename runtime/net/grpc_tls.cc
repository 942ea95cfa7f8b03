#include "runtime/net/grpc_tls.h"

#include <functional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_certificate_verifier.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace coxswain::net {
namespace {

namespace tls_api = grpc::experimental;

// How often the files are looked at.
constexpr unsigned kRefreshSeconds = 2;

// That the peer's certificate, whose signature was checked before, is of this cluster.
class NameVerifier final : public tls_api::ExternalCertificateVerifier {
 public:
  explicit NameVerifier(std::string name) : name_(std::move(name)) {}

  bool Verify(tls_api::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* status) override {
    std::string found;
    for (const grpc::string_ref& name : request->dns_names()) {
      const absl::string_view dns_name(name.data(), name.size());
      if (absl::EqualsIgnoreCase(dns_name, name_)) {
        *status = grpc::Status::OK;
        return true;
      }
      absl::StrAppend(&found, found.empty() ? "" : ", ", dns_name);
    }
    *status = grpc::Status(
        grpc::StatusCode::UNAUTHENTICATED,
        absl::StrCat("wanted a certificate with the DNS name '", name_, "', found ",
                     found.empty() ? "one without names" : absl::StrCat("one of '", found, "'")));
    return true;
  }
  // There is nothing under way when Verify has returned.
  void Cancel(tls_api::TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  const std::string name_;
};

std::shared_ptr<tls_api::CertificateProviderInterface> Provider(const Tls& tls) {
  return std::make_shared<tls_api::FileWatcherCertificateProvider>(
      tls.key_file(), tls.certificate_file(), tls.ca_file(), kRefreshSeconds);
}

void SetWhatBothWant(const Tls& tls, tls_api::TlsCredentialsOptions* options) {
  options->watch_root_certs();
  options->watch_identity_key_cert_pairs();
  options->set_certificate_verifier(
      tls_api::ExternalCertificateVerifier::Create<NameVerifier>(tls.name()));
  options->set_check_call_host(false);  // the verifier knows what the certificate is of
}

}  // namespace

std::shared_ptr<grpc::ChannelCredentials> ClientCredentials(const Tls* tls) {
  if (tls == nullptr) return grpc::InsecureChannelCredentials();
  tls_api::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(Provider(*tls));
  SetWhatBothWant(*tls, &options);
  return tls_api::TlsCredentials(options);
}

std::shared_ptr<grpc::ServerCredentials> ListenerCredentials(const Tls* tls) {
  if (tls == nullptr) return grpc::InsecureServerCredentials();
  tls_api::TlsServerCredentialsOptions options(Provider(*tls));
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  SetWhatBothWant(*tls, &options);
  return tls_api::TlsServerCredentials(options);
}

}  // namespace coxswain::net
