#include "runtime/net/certificates.h"

#include <openssl/pem.h>

#include <ctime>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/net/private_file.h"

namespace coxswain::net {
namespace {

constexpr size_t kMostBytes = 1 << 20;  // of a file

BioHandle Over(const std::string& text) {
  return BioHandle(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// A key behind a passphrase is an error, not a prompt.
int NoPassphrase(char*, int, int, void*) { return -1; }

absl::Time TimeOf(const ASN1_TIME* time) {
  tm parts = {};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? absl::FromTM(parts, absl::UTCTimeZone())
                                            : absl::InfinitePast();
}

}  // namespace

std::string TakeOpensslError() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "no reason is known" : reason;
}

absl::Status WrongFile(const std::string& file, absl::string_view found) {
  return WithDetail(absl::InvalidArgumentError(absl::StrCat(file, ": ", found)),
                    {ErrorCause::kConfiguration, false, "", 0});
}

absl::StatusOr<std::vector<CertificateHandle>> ReadCertificates(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(file, file, kMostBytes));
  const BioHandle bio = Over(text);
  std::vector<CertificateHandle> certificates;
  ERR_clear_error();
  while (X509* const next = PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)) {
    certificates.emplace_back(next);
  }
  // What follows the last one is text, or one that cannot be read.
  const bool over = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string why = TakeOpensslError();
  if (!over) return WrongFile(file, absl::StrCat("a certificate in it cannot be read: ", why));
  if (certificates.empty()) return WrongFile(file, "wanted a certificate (PEM), found none");
  return certificates;
}

absl::StatusOr<KeyHandle> ReadKey(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadPrivateFile(file, file, kMostBytes));
  const BioHandle bio = Over(text);
  ERR_clear_error();
  KeyHandle key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  if (key != nullptr) return key;
  return WrongFile(
      file, absl::StrCat("wanted a private key (PEM) without a passphrase: ", TakeOpensslError()));
}

absl::Status CheckKey(const std::string& certificate_file, X509& certificate,
                      const std::string& key_file, EVP_PKEY& key) {
  if (X509_check_private_key(&certificate, &key) == 1) return absl::OkStatus();
  (void)TakeOpensslError();
  return WrongFile(key_file, absl::StrCat("this key is not that of ", certificate_file));
}

absl::Status CheckDates(const std::string& file, const X509& certificate, absl::Time now) {
  const auto date = [](absl::Time time) {
    return absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone());
  };
  const absl::Time begins = TimeOf(X509_get0_notBefore(&certificate));
  const absl::Time expires = ExpiryOf(certificate);
  if (now < begins) return WrongFile(file, absl::StrCat("is good from ", date(begins), " only"));
  if (now >= expires) return WrongFile(file, absl::StrCat("has expired on ", date(expires)));
  return absl::OkStatus();
}

absl::Time ExpiryOf(const X509& certificate) { return TimeOf(X509_get0_notAfter(&certificate)); }

}  // namespace coxswain::net
