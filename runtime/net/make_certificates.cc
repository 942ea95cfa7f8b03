// A cluster's certificates, for who has no authority that signs any.
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/pem.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status.h"
#include "runtime/net/certificates.h"
#include "runtime/net/private_file.h"
#include "runtime/net/tls.h"

namespace coxswain::net {
namespace {

// Clocks of a cluster differ.
constexpr absl::Duration kBefore = absl::Hours(1);

absl::Status Failed(absl::string_view what) {
  return absl::InternalError(absl::StrCat(what, ": ", TakeOpensslError()));
}

bool IsDnsName(absl::string_view name) {
  if (name.empty() || name.size() > 64) return false;
  for (const absl::string_view label : absl::StrSplit(name, '.')) {
    const auto fits = [](char c) { return absl::ascii_isalnum(c) || c == '-'; };
    if (label.empty() || label.front() == '-' || label.back() == '-' ||
        !std::all_of(label.begin(), label.end(), fits)) {
      return false;
    }
  }
  return true;
}

struct Extension {
  int id;
  std::string value;
};

// `issuer` null: the certificate signs itself with `signer`, which is its own key then.
absl::StatusOr<CertificateHandle> Sign(const std::string& common_name, EVP_PKEY* key,
                                       const X509* issuer, EVP_PKEY* signer,
                                       absl::Duration lifetime,
                                       const std::vector<Extension>& extensions) {
  CertificateHandle made(X509_new());
  X509* const x = made.get();
  const std::unique_ptr<BIGNUM, FreeWith<BN_free>> serial(BN_new());
  X509_NAME* const subject = X509_get_subject_name(x);
  bool good =
      X509_set_version(x, X509_VERSION_3) == 1 &&
      BN_rand(serial.get(), 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
      BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(x)) != nullptr &&
      X509_gmtime_adj(X509_getm_notBefore(x), -absl::ToInt64Seconds(kBefore)) != nullptr &&
      X509_gmtime_adj(X509_getm_notAfter(x), absl::ToInt64Seconds(lifetime)) != nullptr &&
      X509_set_pubkey(x, key) == 1 &&
      X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(common_name.data()),
                                 static_cast<int>(common_name.size()), -1, 0) == 1 &&
      X509_set_issuer_name(x, issuer == nullptr ? subject : X509_get_subject_name(issuer)) == 1;
  for (const Extension& one : extensions) {
    X509V3_CTX context = {};
    X509V3_set_ctx(&context, const_cast<X509*>(issuer == nullptr ? x : issuer), x, nullptr, nullptr,
                   0);
    const ExtensionHandle extension(
        X509V3_EXT_conf_nid(nullptr, &context, one.id, one.value.c_str()));
    good = good && extension != nullptr && X509_add_ext(x, extension.get(), -1) == 1;
  }
  if (!good || X509_sign(x, signer, EVP_sha256()) == 0) return Failed("a certificate");
  return made;
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

std::string PemOf(X509* certificate) {
  const BioHandle bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return TextOf(bio.get());
}

std::string PemOf(EVP_PKEY* key) {
  const BioHandle bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return TextOf(bio.get());
}

}  // namespace

absl::Status MakeCertificates(const std::string& directory, const std::string& name,
                              absl::Duration lifetime) {
  const auto configuration = [](const absl::Status& status) {
    return WithDetail(status, {ErrorCause::kConfiguration, false, "", 0});
  };
  if (!IsDnsName(name)) {
    return configuration(absl::InvalidArgumentError(
        absl::StrCat("wanted a DNS name of at most 64 characters, found '", name, "'")));
  }
  ERR_clear_error();
  const KeyHandle authority_key(EVP_EC_gen("P-256")), key(EVP_EC_gen("P-256"));
  if (authority_key == nullptr || key == nullptr) return Failed("a key");
  ASSIGN_OR_RETURN(
      const CertificateHandle authority,
      Sign("Coxswain authority", authority_key.get(), nullptr, authority_key.get(), lifetime,
           {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
            {NID_key_usage, "critical,keyCertSign"},
            {NID_subject_key_identifier, "hash"}}));
  ASSIGN_OR_RETURN(const CertificateHandle own,
                   Sign(name, key.get(), authority.get(), authority_key.get(), lifetime,
                        {{NID_basic_constraints, "critical,CA:FALSE"},
                         {NID_key_usage, "critical,digitalSignature"},
                         {NID_ext_key_usage, "serverAuth,clientAuth"},
                         {NID_subject_alt_name, absl::StrCat("DNS:", name)},
                         {NID_subject_key_identifier, "hash"},
                         {NID_authority_key_identifier, "keyid:always"}}));
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return configuration(absl::ErrnoToStatus(error.value(), directory));
  }
  struct File {
    const char* name;
    std::string text;
    mode_t mode;
  };
  const File files[] = {{"tls.key", PemOf(key.get()), 0600},
                        {"tls.crt", PemOf(own.get()), 0644},
                        {"ca.crt", PemOf(authority.get()), 0644}};
  // All or none: half of one set beside half of another is of no use.
  for (const File& file : files) {
    const std::string path = absl::StrCat(directory, "/", file.name);
    const auto there = std::filesystem::symlink_status(path, error);
    if (there.type() == std::filesystem::file_type::not_found) continue;
    return configuration(
        absl::AlreadyExistsError(absl::StrCat(path, " is there already, and is not replaced")));
  }
  std::vector<std::string> made;
  for (const File& file : files) {
    const std::string path = absl::StrCat(directory, "/", file.name);
    if (absl::Status s = WriteNewFile(path, path, file.text, file.mode); !s.ok()) {
      for (const std::string& one : made) std::filesystem::remove(one, error);
      return s;
    }
    made.push_back(path);
  }
  return absl::OkStatus();
}

}  // namespace coxswain::net
